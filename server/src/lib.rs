//! The server: the registry, the events, the services, and the process around them.

pub mod events;
pub mod registry;
