//! Garbage collection: the work is saved, the directory dropped, the branch kept.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::sync::mpsc;
use worktree_engine::{
    Error as EngineError,
    lifecycle::{Operation, State, check},
    lock::LockState,
    model::{DropPlan, NotSavedReason, SaveMode, Saved},
    probe::DirectoryState,
};
use worktree_proto::v1::{EventKind, GcItem, GcReason, GcSummary, GcVerdict, event::Detail};

use super::{
    Error, Lifecycle, Result,
    begin::{Intent, saved_by},
    event,
    lookup::Held,
    pause::Dropped,
};
use crate::{
    api::convert::{save, worktree},
    events::ProgressUpdate,
    registry::{Change, WorktreeRow},
};

/// What a sweep is to do.
#[derive(Debug, Clone)]
pub(crate) struct Sweep {
    /// The repository as the caller spells it; empty for all.
    pub(crate) repo: String,
    /// Reap what nobody worked in for longer.
    pub(crate) max_age: Duration,
    /// Keep so many in a repository.
    pub(crate) max_count: usize,
    /// Tasks that are active, whatever their age.
    pub(crate) active: HashSet<String>,
    /// Only say what would be done.
    pub(crate) dry_run: bool,
    /// Only worktrees idle for so long are reaped for the count.
    pub(crate) idle: Duration,
}

/// One item of a sweep.
#[derive(Debug, Clone)]
pub(crate) enum SweepItem {
    /// The verdict on a worktree.
    Item(Box<GcItem>),
    /// How far the sweep is.
    Progress(Box<ProgressUpdate>),
    /// The counts, at the end.
    Summary(GcSummary),
}

impl Lifecycle {
    /// The sweep that runs by itself.
    pub(crate) fn default_sweep(&self) -> Sweep {
        let limits = &self.settings.limits;
        Sweep {
            repo: String::new(),
            max_age: limits.gc_max_age,
            max_count: limits.gc_max_count,
            active: HashSet::new(),
            dry_run: false,
            idle: limits.gc_idle,
        }
    }

    /// Begins a sweep; it goes on if the receiver goes away.
    pub(crate) async fn collect(
        self: &Arc<Self>,
        sweep: Sweep,
        trace_id: String,
    ) -> Result<mpsc::UnboundedReceiver<SweepItem>> {
        if self.drain.is_cancelled() {
            return Err(Error::Draining { position: None });
        }
        let repo_id = match &*sweep.repo {
            "" => None,
            // A repository that nothing was made in has nothing to sweep.
            repo => Some(self.repo_id(repo).await?.unwrap_or_default()),
        };
        let lock = self
            .locks
            .take(
                "sweep",
                "garbage collection",
                self.settings.limits.lock_wait,
            )
            .await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        let this = self.share();
        self.tasks.spawn(async move {
            let _lock = lock;
            if let Err(error) = Box::pin(this.sweep(sweep, repo_id, &sender, &trace_id)).await {
                tracing::error!(%error, "a sweep ended early");
            }
        });
        Ok(receiver)
    }

    async fn sweep(
        self: &Arc<Self>,
        sweep: Sweep,
        repo_id: Option<String>,
        sender: &mpsc::UnboundedSender<SweepItem>,
        trace_id: &str,
    ) -> Result<()> {
        let rows = self.registry.live_rows(repo_id.as_deref()).await?;
        let due = due(&rows, &sweep, Self::now());
        let mut summary = GcSummary {
            dry_run: sweep.dry_run,
            ..GcSummary::default()
        };
        let total = rows.len() as u64;
        for (done, row) in rows.into_iter().enumerate() {
            if self.drain.is_cancelled() {
                break;
            }
            let reason = due.get(&row.id()).copied();
            let item = Box::pin(self.judge(row, reason, &sweep, trace_id)).await;
            match item.verdict() {
                GcVerdict::Reaped | GcVerdict::WouldReap => summary.reaped += 1,
                GcVerdict::Failed => summary.failed += 1,
                GcVerdict::Skipped | GcVerdict::Unspecified => summary.skipped += 1,
            }
            // Nobody listens any more: the sweep goes on all the same.
            drop(sender.send(SweepItem::Item(Box::new(item))));
            let update = ProgressUpdate {
                repo: sweep.repo.clone(),
                repo_id: repo_id.clone().unwrap_or_default(),
                task_id: String::new(),
                operation: Operation::Collect,
                stage: "sweep",
                done: done as u64 + 1,
                total,
                unit: "worktrees",
                time: Self::now(),
            };
            self.hub.report(update.clone());
            drop(sender.send(SweepItem::Progress(Box::new(update))));
        }
        if !sweep.dry_run {
            let key = None;
            let detail = Detail::Sweep(summary);
            let id = repo_id.unwrap_or_default();
            let told = event::apart(EventKind::SweepFinished, &id, key, detail, trace_id);
            let change = Change {
                events: vec![told],
                ..Change::default()
            };
            self.registry.commit(change).await?;
        }
        drop(sender.send(SweepItem::Summary(summary)));
        Ok(())
    }

    /// Decides on one worktree, and acts.
    async fn judge(
        self: &Arc<Self>,
        row: WorktreeRow,
        due: Option<GcReason>,
        sweep: &Sweep,
        trace_id: &str,
    ) -> GcItem {
        let item = GcItem {
            key: Some(worktree::key(&row)),
            worktree_id: row.id().to_string(),
            ..GcItem::default()
        };
        let Some(reason) = due else {
            let reason = protection(&row, &sweep.active, Self::now());
            return skipped(item, reason.unwrap_or(GcReason::TooRecent), "");
        };
        let reap = self.reap(row.clone(), reason, sweep, item.clone(), trace_id);
        let result = Box::pin(reap).await;
        let item = match result {
            Ok(item) => return item,
            Err(error) => refused(item, &error),
        };
        if !sweep.dry_run {
            let kind = if item.verdict() == GcVerdict::Failed {
                EventKind::ReapFailed
            } else {
                EventKind::ReapSkipped
            };
            let detail = Detail::GcItem(item.clone());
            let told = event::apart(kind, &row.repo_id, item.key.clone(), detail, trace_id);
            let change = Change {
                events: vec![told],
                ..Change::default()
            };
            if let Err(error) = self.registry.commit(change).await {
                tracing::warn!(%error, "a verdict could not be recorded");
            }
        }
        item
    }

    /// Reaps a worktree that is due, after all was checked again inside its lock.
    async fn reap(
        self: &Arc<Self>,
        seen: WorktreeRow,
        reason: GcReason,
        sweep: &Sweep,
        mut item: GcItem,
        trace_id: &str,
    ) -> Result<GcItem> {
        let seen_active = seen.last_active_time;
        let Held { row, lock } = self.hold_row(seen).await?;
        item.reason = reason as i32;
        if let Some(reason) = protection(&row, &sweep.active, Self::now()) {
            return Ok(skipped(item, reason, ""));
        }
        if row.last_active_time != seen_active || check(row.state, Operation::Collect).is_err() {
            return Ok(skipped(item, GcReason::BecameActive, ""));
        }
        let probe = self.probe(&row).await?;
        if let LockState::Foreign(reason) = probe.lock {
            return Ok(skipped(item, GcReason::ForeignLock, &reason));
        }
        match probe.directory {
            DirectoryState::Present => {}
            DirectoryState::Missing => return Ok(skipped(item, GcReason::CheckoutAbsent, "")),
            DirectoryState::OtherIdentity | DirectoryState::NotADirectory => {
                let detail = "another directory stands in its place";
                return Ok(skipped(item, GcReason::UnknownState, detail));
            }
        }
        if sweep.dry_run {
            item.verdict = GcVerdict::WouldReap as i32;
            return Ok(item);
        }
        let state = if row.state == State::Done {
            State::Removed
        } else {
            State::Reaped
        };
        let row = self.record_agent_handoff(row, trace_id).await?;
        let message = format!("{}: gc autosave", row.checkout.namespace);
        let intent = Intent::new(Operation::Collect, row.state, state);
        let running = self.begin(row, intent, None, None, trace_id).await?;
        let checkout = running.row.checkout.clone();
        let saved = self
            .work(
                &running,
                None,
                saved_by as fn(DropPlan) -> Saved,
                move |engine, journal| {
                    engine.pause(&checkout, SaveMode::Commit, false, &message, journal)
                },
            )
            .await?;
        item.verdict = GcVerdict::Reaped as i32;
        item.recovery_point = save::recovery_ref(saved.recovery_point.as_ref());
        item.not_saved = save::not_saved(&saved.not_saved);
        let detail = Detail::GcItem(item.clone());
        let dropped = Dropped {
            running,
            saved,
            state,
            event: (EventKind::Reaped, detail),
            active: false,
        };
        self.finish_drop(dropped, |_| None).await?;
        drop(lock);
        Ok(item)
    }
}

fn skipped(mut item: GcItem, reason: GcReason, detail: &str) -> GcItem {
    item.verdict = GcVerdict::Skipped as i32;
    item.reason = reason as i32;
    item.detail = detail.to_owned();
    item
}

/// The verdict where the work could not be saved or the directory not be dropped: it was left as it is.
fn refused(item: GcItem, error: &Error) -> GcItem {
    let detail = error.to_string();
    let reason = match error {
        Error::Engine(EngineError::UnsavedWork { not_saved, .. }) => {
            let kept = |entry: &worktree_engine::model::NotSaved| {
                matches!(
                    entry.reason,
                    NotSavedReason::IgnoredKept | NotSavedReason::Ignored
                )
            };
            let reason = if not_saved.iter().all(kept) {
                GcReason::UnsavedIgnored
            } else {
                GcReason::UnsavedWork
            };
            let mut item = skipped(item, reason, &detail);
            item.not_saved = save::not_saved(not_saved);
            return item;
        }
        Error::Engine(EngineError::OperationInProgress { .. }) => GcReason::OperationInProgress,
        Error::Engine(
            EngineError::NestedRepository { .. } | EngineError::SubmoduleRepository { .. },
        ) => GcReason::NestedRepository,
        Error::Engine(EngineError::UnrepresentableName { .. }) => GcReason::UnsavedWork,
        Error::Engine(EngineError::ForeignLock { .. }) => GcReason::ForeignLock,
        Error::Engine(EngineError::CheckoutAbsent { .. }) => GcReason::CheckoutAbsent,
        Error::Engine(
            EngineError::IdentityMismatch { .. } | EngineError::CheckoutRetargeted { .. },
        ) => GcReason::UnknownState,
        Error::Busy { .. } | Error::Engine(EngineError::Busy { .. }) => GcReason::OperationInFlight,
        Error::Engine(
            EngineError::RepositoryNotFound { .. } | EngineError::RepositoryUnsupported { .. },
        ) => return failed(item, GcReason::RepositoryUnavailable, detail),
        Error::Registry(_) | Error::Internal(_) => {
            return failed(item, GcReason::Internal, detail);
        }
        _ => return failed(item, GcReason::SaveFailed, detail),
    };
    skipped(item, reason, &detail)
}

fn failed(mut item: GcItem, reason: GcReason, detail: String) -> GcItem {
    item.verdict = GcVerdict::Failed as i32;
    item.reason = reason as i32;
    item.detail = detail;
    item
}

/// Why a worktree may not be reaped, if so.
fn protection(row: &WorktreeRow, active: &HashSet<String>, now: Timestamp) -> Option<GcReason> {
    if row.live_lease(now).is_some() {
        return Some(GcReason::ActiveLease);
    }
    if row.pending_operation.is_some() {
        return Some(GcReason::OperationInFlight);
    }
    if check(row.state, Operation::Collect).is_err() {
        return Some(GcReason::StateProtected);
    }
    if active.contains(row.task_id().as_str()) {
        return Some(GcReason::NamedActive);
    }
    None
}

/// Which worktrees are due, and why. The protected use up the count.
fn due(
    rows: &[WorktreeRow],
    sweep: &Sweep,
    now: Timestamp,
) -> HashMap<worktree_engine::ids::WorktreeId, GcReason> {
    let mut due = HashMap::new();
    let mut kept: HashMap<&str, Vec<&WorktreeRow>> = HashMap::new();
    for row in rows {
        let is_protected = protection(row, &sweep.active, now).is_some();
        let idle = idle(row, now);
        if !is_protected && row.state == State::Done {
            due.insert(row.id(), GcReason::Done);
        } else if !is_protected && (sweep.max_age.is_zero() || idle > sweep.max_age) {
            due.insert(row.id(), GcReason::Age);
        } else if row.state.has_checkout() {
            kept.entry(&row.repo_id).or_default().push(row);
        }
    }
    for mut rows in kept.into_values() {
        rows.sort_by_key(|row| row.last_active_time);
        let over = rows.len().saturating_sub(sweep.max_count);
        let idle_enough = rows.into_iter().filter(|row| {
            protection(row, &sweep.active, now).is_none() && idle(row, now) >= sweep.idle
        });
        due.extend(
            idle_enough
                .take(over)
                .map(|row| (row.id(), GcReason::Count)),
        );
    }
    due
}

fn idle(row: &WorktreeRow, now: Timestamp) -> Duration {
    now.duration_since(row.last_active_time)
        .try_into()
        .unwrap_or_default()
}
