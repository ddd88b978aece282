//! What the layers of a running server share.

use std::{path::PathBuf, sync::Arc};

use jiff::Timestamp;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use worktree_engine::Engine;

use crate::{config::Config, events::EventHub, registry::Registry};

/// What the layers of a running server share.
#[derive(Debug)]
pub struct Context {
    /// What the server runs with.
    pub config: Config,
    /// What it knows.
    pub registry: Registry,
    /// Who watches.
    pub hub: EventHub,
    /// What acts on git and files.
    pub engine: Arc<Engine>,
    /// Cancelled when the server is to end: new mutations are refused, watches end.
    pub shutdown: CancellationToken,
    /// Every running mutation and background task: the end waits for them, within the grace period.
    pub tasks: TaskTracker,
    /// When the server started.
    pub start_time: Timestamp,
    /// The socket in the state directory.
    pub socket: PathBuf,
    /// What an operator should know.
    pub warnings: Vec<String>,
}
