//! The worktree lifecycle on git and files: blocking, without a server, a database or a network.

pub mod error;
pub mod guard;
pub mod ids;
pub mod lifecycle;
pub mod model;
pub mod sor;
