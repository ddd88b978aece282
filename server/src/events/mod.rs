//! Watching: every watcher reads the log by itself, at its own pace, and is woken when the log grows.

mod hub;
mod position;
#[cfg(test)]
mod tests;
mod watch;

pub use hub::{EventHub, ProgressUpdate};
pub use position::{Position, PositionError};
pub use watch::{EventFilter, Page, Start, WatchError, WatchItem, WatchOptions};
