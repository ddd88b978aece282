//! The server: the registry, the events, the services, and the process around them.

pub mod cli;
pub mod config;
pub mod events;
pub mod registry;
pub mod serve;
pub mod shutdown;
mod sockets;
pub mod state_dir;
pub mod telemetry;
