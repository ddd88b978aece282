//! Comparing registry, git and disk.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use worktree_engine::{
    branches::GitFile,
    lifecycle::State,
    lock::{LockReason, LockState},
    probe::{DirectoryState, Head, Probe, RegistrationState},
};
use worktree_proto::v1::{
    EventKind, ReconcileFinding, ReconcileFindingKind as Kind, event::Detail,
};

use super::{Lifecycle, Result, event, lookup::Held};
use crate::{
    api::convert::worktree,
    registry::{Change, WorktreeRow},
};

impl Lifecycle {
    /// Looks at every live worktree of a repository, or of all, puts right what is safe to put right, and tells the
    /// rest.
    pub(crate) async fn reconcile(
        self: &Arc<Self>,
        repo: String,
        trace_id: String,
    ) -> Result<Vec<ReconcileFinding>> {
        let this = self.share();
        self.spawn(async move {
            let repo_id = match &*repo {
                "" => None,
                repo => Some(this.repo_id(repo).await?.unwrap_or_default()),
            };
            let mut findings = Vec::new();
            // Before the rows: a worktree that is being made has its row first.
            let root = this.engine.config().root.clone();
            let wanted = repo_id.clone();
            let directories = this
                .block(move |_| Ok(checkouts(&root, wanted.as_deref())))
                .await?;
            let rows = this.registry.live_rows(repo_id.as_deref()).await?;
            let known: HashSet<_> = rows.iter().map(|row| row.checkout.path.clone()).collect();
            findings.extend(directories.difference(&known).map(|path| unknown(path)));
            for row in rows {
                this.compare(row, &mut findings, &trace_id).await?;
            }
            Ok(findings)
        })
        .await
    }

    async fn compare(
        &self,
        row: WorktreeRow,
        findings: &mut Vec<ReconcileFinding>,
        trace_id: &str,
    ) -> Result<()> {
        let had_lease = row.lease.is_some();
        let is_over = row.live_lease(Self::now()).is_none();
        let Held { row, lock } = self.hold_row(row).await?;
        if had_lease && is_over && row.lease.is_none() {
            let text = "the lease ran out while nobody looked";
            findings.push(finding(Kind::ExpiredLease, &row, text, true));
        }
        if row.state.is_terminal() || row.pending_operation.is_some() {
            return Ok(());
        }
        if !row.checkout.common_dir.is_dir() {
            let text = "the repository is gone";
            findings.push(finding(Kind::RepositoryMissing, &row, text, false));
            return Ok(());
        }
        let compared = match self.probe(&row).await {
            Ok(probe) => self.compare_probe(&row, &probe, findings, trace_id).await,
            Err(error) => Err(error),
        };
        // One worktree that cannot be read is told of; it must not hide the others, nor keep the server from starting.
        if let Err(error) = compared {
            findings.push(finding(Kind::Unreadable, &row, &error.to_string(), false));
        }
        drop(lock);
        Ok(())
    }

    async fn compare_probe(
        &self,
        row: &WorktreeRow,
        probe: &Probe,
        findings: &mut Vec<ReconcileFinding>,
        trace_id: &str,
    ) -> Result<()> {
        let checkout = row.checkout.clone();
        let tip = self
            .block(move |engine| engine.branch_tip(&checkout))
            .await?;
        if tip.is_none() {
            let text = "the branch is gone; make it again at the wanted commit";
            findings.push(finding(Kind::BranchMissing, row, text, false));
        }
        if !row.state.has_checkout() {
            return Ok(());
        }
        match probe.directory {
            DirectoryState::Present => {}
            DirectoryState::Missing => {
                let text = "the directory is gone; a resume or a lease rebuilds it";
                findings.push(finding(Kind::DirectoryMissing, row, text, false));
                return Ok(());
            }
            DirectoryState::OtherIdentity | DirectoryState::NotADirectory => {
                let text = "something else stands where the directory was made";
                findings.push(finding(Kind::IdentityMismatch, row, text, false));
                return Ok(());
            }
        }
        match probe.registration {
            RegistrationState::Present => {}
            RegistrationState::Missing => {
                let text = "git no longer knows the worktree";
                findings.push(finding(Kind::RegistrationMissing, row, text, false));
                return Ok(());
            }
            RegistrationState::Broken => {
                let text = "git's entry of the worktree is torn, or names another path";
                findings.push(finding(Kind::RegistrationMismatch, row, text, false));
                return Ok(());
            }
        }
        if probe.git_file != GitFile::Ours {
            let text = "its `.git` file is not the one that was written";
            findings.push(finding(Kind::CheckoutRetargeted, row, text, false));
        }
        match &probe.lock {
            LockState::Ours => {}
            LockState::Foreign(reason) => {
                findings.push(finding(Kind::ForeignLock, row, reason, false));
            }
            LockState::None => {
                let found = self.lock_again(row, trace_id).await?;
                findings.push(found);
            }
        }
        if let Head::Branch(_, Some(head)) | Head::Detached(head) = &probe.head
            && row.head.as_ref() != Some(head)
            && row.state != State::Completing
        {
            let text = format!("HEAD is at {head}: somebody committed or switched");
            findings.push(finding(Kind::HeadChanged, row, &text, false));
        }
        Ok(())
    }

    /// Puts git's lock back on a worktree that somebody unlocked: without it a prune would take its entry.
    async fn lock_again(&self, row: &WorktreeRow, trace_id: &str) -> Result<ReconcileFinding> {
        let lease = row.lease.as_ref();
        let reason = LockReason {
            task: row.task_id().to_string(),
            holder: lease.map(|lease| lease.holder.clone()).unwrap_or_default(),
            epoch: lease.map_or(0, |lease| lease.epoch.0),
            ..LockReason::default()
        };
        let checkout = row.checkout.clone();
        let locked = self
            .block(move |engine| engine.write_lock_reason(&checkout, &reason))
            .await;
        let text = "the worktree was not git-locked";
        let found = finding(Kind::LockMissing, row, text, locked.is_ok());
        if found.healed {
            let detail = Detail::Healed(found.clone());
            let kind = EventKind::Healed;
            let told = event::apart(kind, &row.repo_id, found.key.clone(), detail, trace_id);
            let change = Change {
                events: vec![told],
                ..Change::default()
            };
            self.registry.commit(change).await?;
        }
        Ok(found)
    }
}

/// The directories in which checkouts are made: two levels below the root, by repository and task.
fn checkouts(root: &Path, repo_id: Option<&str>) -> HashSet<PathBuf> {
    let below = |path: &Path| {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let is_repository = |path: &PathBuf| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("");
        // Beside them are directories of the service's own, which are no identifiers.
        name.len() == 16
            && name.bytes().all(|byte| byte.is_ascii_hexdigit())
            && repo_id.is_none_or(|wanted| wanted == name)
    };
    let repositories = below(root).into_iter().filter(is_repository);
    repositories.flat_map(|path| below(&path)).collect()
}

fn unknown(path: &Path) -> ReconcileFinding {
    ReconcileFinding {
        kind: Kind::UnknownDirectory as i32,
        key: None,
        path: path.to_string_lossy().into_owned(),
        detail: "no worktree is known to be here; look at it, and move it away".to_owned(),
        healed: false,
        suggested_command: String::new(),
    }
}

fn finding(kind: Kind, row: &WorktreeRow, detail: &str, healed: bool) -> ReconcileFinding {
    ReconcileFinding {
        kind: kind as i32,
        key: Some(worktree::key(row)),
        path: row.checkout.path.to_string_lossy().into_owned(),
        detail: detail.to_owned(),
        healed,
        suggested_command: String::new(),
    }
}
