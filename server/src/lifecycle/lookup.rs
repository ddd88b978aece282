//! Finding the row that a call is about, under the worktree's lock.

use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;
use worktree_engine::{
    ids::WorktreeId,
    lifecycle::{Operation, check},
};

use super::{Error, Guards, Key, Lifecycle, Result};
use crate::registry::WorktreeRow;

/// A row whose worktree nobody else can touch until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    /// The row.
    pub(crate) row: WorktreeRow,
    /// Keeps the others out.
    pub(crate) lock: OwnedMutexGuard<()>,
}

impl Lifecycle {
    /// The live row of a key, or else the newest. Takes no lock.
    pub(crate) async fn find(&self, key: &Key) -> Result<WorktreeRow> {
        let not_found = || Error::WorktreeNotFound {
            repo: key.repo.clone(),
            task: key.task.to_string(),
        };
        let repo_id = self.repo_id(&key.repo).await?.ok_or_else(not_found)?;
        let row = self.registry.newest(&repo_id, &key.task).await?;
        row.ok_or_else(not_found)
    }

    /// The row of an id.
    pub(crate) async fn find_id(&self, id: WorktreeId) -> Result<WorktreeRow> {
        let row = self.registry.by_id(id).await?;
        row.ok_or_else(|| Error::WorktreeIdNotFound { id: id.to_string() })
    }

    /// Takes the lock of a task in a repository.
    pub(crate) async fn lock(&self, repo_id: &str, task: &str) -> Result<OwnedMutexGuard<()>> {
        let name = format!("worktree {repo_id} {task}");
        self.locks
            .take(
                &name,
                &format!("the worktree of task {task}"),
                self.settings.limits.lock_wait,
            )
            .await
    }

    /// The row of a key, read again under the worktree's lock, a lease that ran out ended.
    pub(crate) async fn hold(&self, key: &Key) -> Result<Held> {
        let row = self.find(key).await?;
        self.hold_row(row).await
    }

    /// The newest row of the same task as `row`, under the worktree's lock.
    pub(crate) async fn hold_row(&self, row: WorktreeRow) -> Result<Held> {
        let lock = self.lock(&row.repo_id, row.task_id().as_str()).await?;
        let newest = self.registry.newest(&row.repo_id, row.task_id()).await?;
        let row = newest.unwrap_or(row);
        let row = self.end_expired_lease(row).await?;
        Ok(Held { row, lock })
    }

    /// Holds the worktree of a mutation and checks, in this order, etag, lease and state.
    pub(crate) async fn hold_for(
        &self,
        key: &Key,
        guards: &Guards,
        operation: Operation,
    ) -> Result<Held> {
        let held = self.hold(key).await?;
        check_etag(&held.row, &guards.etag)?;
        check_epoch(&held.row, guards.epoch, Self::now())?;
        check(held.row.state, operation)?;
        Ok(held)
    }
}

fn check_etag(row: &WorktreeRow, etag: &str) -> Result<()> {
    let now = row.etag();
    if etag.is_empty() || etag == now {
        Ok(())
    } else {
        Err(Error::EtagMismatch { etag: now })
    }
}

/// Law 4: while a lease is live only its epoch passes; an epoch that is not live never does.
pub(crate) fn check_epoch(row: &WorktreeRow, epoch: u64, now: Timestamp) -> Result<()> {
    match (row.live_lease(now), epoch) {
        (None, 0) => Ok(()),
        (Some(lease), epoch) if lease.epoch.0 == epoch => Ok(()),
        (Some(lease), 0) => Err(held_by(lease, now)),
        (live, given) => Err(Error::LeaseFenced {
            given,
            live: live.map(|lease| (lease.holder.clone(), lease.epoch.0)),
        }),
    }
}

/// The refusal that names the holder.
pub(crate) fn held_by(lease: &crate::registry::Lease, now: Timestamp) -> Error {
    let left = lease.expire_time.duration_since(now);
    Error::LeaseHeld {
        holder: lease.holder.clone(),
        runtime: lease.runtime.clone(),
        expire_time: lease.expire_time,
        retry_after: left.try_into().unwrap_or_default(),
    }
}
