//! The worktree lifecycle on git and files: blocking, without a server, a database or a network.

pub mod branches;
mod drop;
pub mod engine;
pub mod error;
pub mod git;
pub mod identity;
pub mod ids;
pub mod lifecycle;
pub mod lock;
pub mod materialise;
pub mod model;
pub mod objects;
pub mod probe;
pub mod provision;
pub mod rebuild;
pub mod refs;
pub mod registration;
pub mod repository;
pub mod sor;
pub mod trash;

pub use engine::{Engine, EngineConfig};
pub use error::{Error, Result};
