//! Comparing registry, git and disk.

use std::sync::Arc;

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
            for row in this.registry.live_rows(repo_id.as_deref()).await? {
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
        match self.probe(&row).await {
            Ok(probe) => self.compare_probe(&row, &probe, findings, trace_id).await?,
            Err(error) => {
                findings.push(finding(Kind::Unreadable, &row, &error.to_string(), false));
            }
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
