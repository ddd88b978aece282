//! The registry: what the service knows, in one SQLite file, changed by one function.

mod commit;
mod error;
mod open;
mod read;
mod retention;
mod rows;
mod sql;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use sqlx::SqlitePool;
use tokio::sync::watch;

pub use error::{Error, Result};
pub use retention::Compacted;
pub use rows::*;

/// The registry; cheap to clone.
#[derive(Debug, Clone)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// One connection: writers queue here and not in SQLite, whose busy handler is not fair.
    writer: SqlitePool,
    readers: SqlitePool,
    log_id: uuid::Uuid,
    instance_id: uuid::Uuid,
    head: watch::Sender<i64>,
}

impl Registry {
    /// The id of the event log: a position of another one is refused.
    pub fn log_id(&self) -> uuid::Uuid {
        self.inner.log_id
    }

    /// The id of this installation, the same over restarts.
    pub fn instance_id(&self) -> uuid::Uuid {
        self.inner.instance_id
    }

    /// The newest committed sequence, as it grows.
    pub fn subscribe(&self) -> watch::Receiver<i64> {
        self.inner.head.subscribe()
    }

    /// The newest committed sequence; 0 before the first event.
    pub fn head(&self) -> i64 {
        *self.inner.head.borrow()
    }

    /// Closes the file: what is in the write-ahead log goes into it.
    pub async fn close(&self) {
        self.inner.readers.close().await;
        self.inner.writer.close().await;
    }
}
