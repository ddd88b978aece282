//! Reading: rows, files of the system of record, branches, and the work as a diff.

use std::io::{Read as _, Seek as _, Write as _};

use tokio::sync::mpsc;
use worktree_engine::{
    Error as EngineError,
    branches::Branch,
    ids::WorktreeId,
    lifecycle::State,
    model::DiffStat,
    sor::{ScaffoldFile, read_scaffold},
};

use super::{Key, Lifecycle, Result};
use crate::registry::{HandoffRow, WorktreeQuery, WorktreeRow};

/// The work: its size, and the patch in pieces where it was asked for.
#[derive(Debug)]
pub(crate) struct Diff {
    /// Its size.
    pub(crate) stat: DiffStat,
    /// The patch.
    pub(crate) patch: Option<mpsc::Receiver<std::io::Result<Vec<u8>>>>,
}

/// The most bytes of one piece of a patch.
const CHUNK: usize = 64 * 1024;

impl Lifecycle {
    /// A page of rows, the newest first.
    pub(crate) async fn list_worktrees(
        &self,
        repo: &str,
        states: Vec<State>,
        after: Option<WorktreeId>,
        limit: usize,
    ) -> Result<Vec<WorktreeRow>> {
        let mut query = WorktreeQuery {
            repo_id: None,
            states,
            after,
            limit,
        };
        if !repo.is_empty() {
            match self.repo_id(repo).await? {
                Some(repo_id) => query.repo_id = Some(repo_id),
                None => return Ok(Vec::new()),
            }
        }
        Ok(self.registry.list(&query).await?)
    }

    /// A page of the history of handoffs, the newest first.
    pub(crate) async fn list_handoffs(
        &self,
        key: &Key,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HandoffRow>> {
        let row = self.find(key).await?;
        Ok(self.registry.handoffs(row.id(), before, limit).await?)
    }

    /// The files of the system of record as they are now.
    pub(crate) async fn scaffold(&self, key: &Key) -> Result<Vec<ScaffoldFile>> {
        let row = self.find(key).await?;
        self.require_checkout(&row).await?;
        let checkout = row.checkout;
        self.block(move |_| Ok(read_scaffold(&checkout.path, &checkout.sor_dir)))
            .await
    }

    /// Every branch of a repository, and the rows that have one.
    pub(crate) async fn list_branches(
        &self,
        repo: &str,
    ) -> Result<(Vec<Branch>, Vec<WorktreeRow>, Option<String>)> {
        let located = self.locate(repo).await?;
        let rows = match self.repository_row(&located).await? {
            Some(stored) => self.registry.live_rows(Some(&stored.repo_id)).await?,
            None => Vec::new(),
        };
        let repository = self.open(&located).await?;
        let branches = self
            .block(move |engine| engine.list_branches(&repository))
            .await?;
        let current = std::fs::read_to_string(located.git_dir.join("HEAD")).ok();
        let current = current.and_then(|head| {
            let name = head.trim_end().strip_prefix("ref: refs/heads/")?;
            Some(name.to_owned())
        });
        Ok((branches, rows, current))
    }

    /// Measures the work. The patch is spooled under the worktree's lock and sent after it: a slow reader holds up
    /// nobody.
    pub(crate) async fn diff(&self, key: &Key, include_sor: bool, patch: bool) -> Result<Diff> {
        let row = self.find(key).await?;
        let lock = self.lock(&row.repo_id, row.task_id().as_str()).await?;
        let row = self.find_id(row.id()).await?;
        if row.state.is_terminal() || row.state == State::Provisioning {
            return Err(EngineError::IllegalTransition {
                from: row.state,
                operation: worktree_engine::lifecycle::Operation::Checkpoint,
            }
            .into());
        }
        if row.state.has_checkout() {
            self.require_checkout(&row).await?;
        }
        let checkout = row.checkout;
        let (stat, spool) = self
            .block(move |engine| {
                let stat = engine.diff_stat(&checkout, include_sor)?;
                if !patch {
                    return Ok((stat, None));
                }
                let failed =
                    |error| EngineError::io("write", std::path::Path::new("the patch"), error);
                let mut spool = tempfile::tempfile().map_err(failed)?;
                let mut sink = |bytes: &[u8]| spool.write_all(bytes).map_err(failed);
                engine.diff_patch(&checkout, include_sor, &mut sink)?;
                spool.rewind().map_err(failed)?;
                Ok((stat, Some(spool)))
            })
            .await?;
        drop(lock);
        Ok(Diff {
            stat,
            patch: spool.map(pieces),
        })
    }
}

/// Reads a file in pieces, as fast as they are taken.
fn pieces(mut file: std::fs::File) -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut piece = vec![0; CHUNK];
            let read = file.read(&mut piece);
            let read = match read {
                Ok(0) => return,
                Ok(length) => {
                    piece.truncate(length);
                    Ok(piece)
                }
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            if sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}
