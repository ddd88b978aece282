//! The worktree lifecycle on git and files: blocking, without a server, a database or a network.

pub mod engine;
pub mod error;
pub mod git;
pub mod identity;
pub mod ids;
pub mod lifecycle;
pub mod model;
pub mod objects;
pub mod refs;
pub mod registration;
pub mod repository;
pub mod trash;

pub use engine::{Engine, EngineConfig};
pub use error::{Error, Result};
