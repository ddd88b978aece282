//! The server: the registry, the events, the services, and the process around them.

pub mod config;
pub mod context;
pub mod events;
pub mod registry;
pub mod state_dir;
