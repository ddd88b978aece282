//! The worktree lifecycle on git and files: blocking, without a server, a database or a network.

pub mod branches;
pub mod diff;
mod drop;
pub mod engine;
pub mod error;
pub mod git;
pub mod guard;
pub mod identity;
pub mod ids;
pub mod lifecycle;
pub mod lock;
pub mod materialise;
pub mod model;
pub mod objects;
pub mod operations;
pub mod probe;
pub mod provision;
pub mod rebuild;
mod recovery;
pub mod refs;
pub mod registration;
pub mod repository;
mod restore;
mod save;
pub mod sor;
pub mod trash;

pub use engine::{Engine, EngineConfig};
pub use error::{Error, Result};
