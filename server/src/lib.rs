//! The server: the registry, the events, the services, and the process around them.

mod api;
pub mod cli;
pub mod config;
pub mod demo;
pub mod events;
mod lifecycle;
pub mod registry;
pub mod serve;
pub mod shutdown;
mod sockets;
pub mod state_dir;
pub mod telemetry;
