//! What all watchers share: the log's growth, the progress of running operations, and the end.

use jiff::Timestamp;
use std::sync::Arc;

use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use worktree_engine::lifecycle::Operation;

use super::Position;
use crate::registry::Registry;

/// How many steps of progress wait for a slow watcher; older ones are skipped for it.
const PROGRESS_BACKLOG: usize = 64;

/// How far a running operation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressUpdate {
    /// The repository as replies spell it; empty for a sweep of all.
    pub repo: String,
    /// The repository's id.
    pub repo_id: String,
    /// The task; empty where none is concerned.
    pub task_id: String,
    /// What is being done.
    pub operation: Operation,
    /// The step of it.
    pub stage: &'static str,
    /// How much of the step is done.
    pub done: u64,
    /// How much there is; 0 if not known.
    pub total: u64,
    /// What is counted: `files`, `bytes` or `worktrees`.
    pub unit: &'static str,
    /// When it was so.
    pub time: Timestamp,
}

/// Gives out watches; cheap to clone.
#[derive(Debug, Clone)]
pub struct EventHub {
    pub(super) registry: Registry,
    pub(super) progress: broadcast::Sender<ProgressUpdate>,
    pub(super) shutdown: CancellationToken,
    pub(super) places: Arc<Semaphore>,
    pub(super) max_watches: usize,
}

impl EventHub {
    /// A hub on a registry's log for so many watches; they end when `shutdown` is cancelled.
    pub fn new(registry: Registry, shutdown: CancellationToken, max_watches: usize) -> Self {
        Self {
            registry,
            progress: broadcast::channel(PROGRESS_BACKLOG).0,
            shutdown,
            max_watches,
            places: Arc::new(Semaphore::new(max_watches.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// Tells who watches how far an operation is. Never waits.
    pub fn report(&self, update: ProgressUpdate) {
        // An error only says that nobody watches.
        drop(self.progress.send(update));
    }

    /// The token of a sequence of this log.
    pub fn position(&self, sequence: i64) -> String {
        Position {
            log_id: self.registry.log_id(),
            sequence,
        }
        .token()
    }
}
