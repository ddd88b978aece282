//! The right to write in a worktree: taken, renewed, given back, and ended by the server's clock.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use worktree_engine::{
    ids::LeaseEpoch,
    lifecycle::{Operation, State, check},
    lock::LockReason,
    sor::{ResumeState, resume_state},
};
use worktree_proto::v1::{EventKind, LeaseDetail, event::Detail};

use super::{
    Answer, Call, Error, Key, Lifecycle, Result, event,
    lookup::{Held, held_by},
    provision::touch,
};
use crate::{
    api::convert::worktree,
    registry::{Change, HolderProcess, Lease, NewEvent, WorktreeRow},
};

/// Who wants a lease, and how.
#[derive(Debug, Clone)]
pub(crate) struct AcquireRequest {
    /// The worktree.
    pub(crate) key: Key,
    /// Who takes it.
    pub(crate) holder: String,
    /// The holder's runtime; may be empty.
    pub(crate) runtime: String,
    /// How long it lasts; the configured length if absent.
    pub(crate) ttl: Option<Duration>,
    /// Why a live lease of another is taken over; empty: it is not.
    pub(crate) takeover_reason: String,
    /// The holder's process.
    pub(crate) holder_process: Option<HolderProcess>,
}

/// A lease, and what to go on from.
#[derive(Debug)]
pub(crate) struct AcquireOutcome {
    /// The worktree.
    pub(crate) row: WorktreeRow,
    /// Its lease.
    pub(crate) lease: Lease,
    /// What a cold runtime needs.
    pub(crate) resume_state: ResumeState,
}

impl Lifecycle {
    /// Clocks in.
    pub(crate) async fn acquire_lease(
        self: &Arc<Self>,
        call: Call<AcquireOutcome>,
        request: AcquireRequest,
    ) -> Result<Answer<AcquireOutcome>> {
        self.mutate(call, move |this, call| async move {
            let Held { row, lock } = this.hold(&request.key).await?;
            check(row.state, Operation::AcquireLease)?;
            let now = Self::now();
            if let Some(lease) = row.live_lease(now)
                && lease.holder != request.holder
                && request.takeover_reason.is_empty()
            {
                return Err(held_by(lease, now));
            }
            let row = this.ensure_checkout(row, &call.trace_id).await?.row;
            let (row, lease, events) = this.taken(row, &request, &call.trace_id);
            this.mirror(&row, &lease).await?;
            let resume_state = this.resume_state_of(&row, request.runtime.clone()).await?;
            let outcome = AcquireOutcome {
                row: row.as_committed(),
                lease,
                resume_state,
            };
            let change = Change {
                events,
                reply: call.reply(&outcome),
                rows: vec![row],
                ..Change::default()
            };
            this.registry.commit(change).await?;
            drop(lock);
            Ok(outcome)
        })
        .await
    }

    /// The row with the lease that the request gets: the same epoch for the same holder, a new one for another.
    fn taken(
        &self,
        mut row: WorktreeRow,
        request: &AcquireRequest,
        trace_id: &str,
    ) -> (WorktreeRow, Lease, Vec<NewEvent>) {
        let now = Self::now();
        let ttl = request
            .ttl
            .unwrap_or(self.settings.limits.lease_ttl_default);
        let live = row.live_lease(now).cloned();
        row.state = State::Working;
        touch(&mut row);
        let renewed = live.as_ref().filter(|lease| lease.holder == request.holder);
        let (epoch, acquire_time) = match renewed {
            Some(lease) => (lease.epoch, lease.acquire_time),
            None => (LeaseEpoch(row.last_epoch + 1), now),
        };
        let is_renewal = renewed.is_some();
        let lease = Lease {
            holder: request.holder.clone(),
            runtime: request.runtime.clone(),
            epoch,
            ttl,
            acquire_time,
            expire_time: ends(now, ttl),
            holder_process: request.holder_process.clone(),
        };
        row.last_epoch = epoch.0;
        row.lease = Some(lease.clone());
        let detail = |previous: &str| {
            Detail::Lease(LeaseDetail {
                lease: Some(worktree::lease(&lease)),
                previous_holder: previous.to_owned(),
                takeover_reason: if previous.is_empty() {
                    String::new()
                } else {
                    request.takeover_reason.clone()
                },
            })
        };
        let told = match &live {
            Some(_) if is_renewal => None,
            Some(other) => Some((EventKind::LeaseTakenOver, detail(&other.holder))),
            None => Some((EventKind::LeaseAcquired, detail(""))),
        };
        let events = told
            .map(|(kind, detail)| event::about(kind, &row, Some(detail), trace_id))
            .into_iter()
            .collect();
        (row, lease, events)
    }

    /// Shows the lease in git's own lock. A foreign lock refuses it.
    async fn mirror(&self, row: &WorktreeRow, lease: &Lease) -> Result<()> {
        let process = lease.holder_process.as_ref();
        let reason = LockReason {
            task: row.task_id().to_string(),
            holder: lease.holder.clone(),
            pid: process.map_or(0, |process| u64::try_from(process.pid).unwrap_or(0)),
            start: process.map_or(0, |process| process.start_ticks),
            epoch: lease.epoch.0,
        };
        let checkout = row.checkout.clone();
        self.block(move |engine| engine.write_lock_reason(&checkout, &reason))
            .await
    }

    /// Takes the holder out of git's lock. Only a mirror: what goes wrong is told to the log and stops nothing.
    async fn unmirror(&self, row: &WorktreeRow) {
        let checkout = row.checkout.clone();
        let reason = LockReason {
            task: row.task_id().to_string(),
            ..LockReason::default()
        };
        let written = self
            .block(move |engine| engine.write_lock_reason(&checkout, &reason))
            .await;
        if let Err(error) = written {
            tracing::warn!(worktree = %row.id(), %error, "the git lock still names the last holder");
        }
    }

    /// What a cold runtime needs, from the files of the checkout alone.
    pub(crate) async fn resume_state_of(
        &self,
        row: &WorktreeRow,
        runtime: String,
    ) -> Result<ResumeState> {
        let checkout = row.checkout.clone();
        self.block(move |_| {
            let runtime = Some(&*runtime).filter(|runtime| !runtime.is_empty());
            Ok(resume_state(&checkout.path, &checkout.sor_dir, runtime))
        })
        .await
    }

    /// Puts the end of a lease off.
    pub(crate) async fn renew_lease(
        self: &Arc<Self>,
        key: Key,
        epoch: u64,
        ttl: Option<Duration>,
    ) -> Result<Lease> {
        let this = self.share();
        self.spawn(async move {
            let now = Self::now();
            // Not under the worktree's lock: a checkpoint that takes minutes must not cost its holder the lease.
            for _ in 0..RENEW_TRIES {
                let mut row = this.find(&key).await?;
                let Some(mut lease) = row.live_lease(now).cloned().filter(|l| l.epoch.0 == epoch)
                else {
                    return Err(fenced(&row, epoch, now));
                };
                lease.ttl = ttl.unwrap_or(lease.ttl);
                lease.expire_time = ends(now, lease.ttl);
                row.lease = Some(lease.clone());
                touch(&mut row);
                let change = Change {
                    rows: vec![row],
                    ..Change::default()
                };
                match this.registry.commit(change).await {
                    Ok(_) => return Ok(lease),
                    Err(crate::registry::Error::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Err(Error::Busy {
                what: "the lease".to_owned(),
            })
        })
        .await
    }

    /// Gives a lease back.
    pub(crate) async fn release_lease(
        self: &Arc<Self>,
        key: Key,
        epoch: u64,
        trace_id: String,
    ) -> Result<WorktreeRow> {
        let this = self.share();
        self.spawn(async move {
            let Held { row, lock } = this.hold(&key).await?;
            let now = Self::now();
            let row = match row.live_lease(now) {
                Some(lease) if lease.epoch.0 == epoch => {
                    this.end_lease(row, EventKind::LeaseReleased, &trace_id)
                        .await?
                }
                // A repeat: this epoch was the last one, and is over.
                None if row.last_epoch == epoch => row,
                _ => return Err(fenced(&row, epoch, now)),
            };
            drop(lock);
            Ok(row)
        })
        .await
    }

    /// Ends the lease of a held row if its time is over.
    pub(crate) async fn end_expired_lease(&self, row: WorktreeRow) -> Result<WorktreeRow> {
        let is_over = row
            .lease
            .as_ref()
            .is_some_and(|lease| !lease.is_live(Self::now()));
        if !is_over || row.pending_operation.is_some() {
            return Ok(row);
        }
        self.end_lease(row, EventKind::LeaseExpired, "").await
    }

    /// Ends the lease of a held row. A handoff that the agent wrote and nobody recorded yet goes into the history;
    /// after a release it makes the worktree HANDED_OFF.
    async fn end_lease(
        &self,
        row: WorktreeRow,
        kind: EventKind,
        trace_id: &str,
    ) -> Result<WorktreeRow> {
        let mut row = row;
        let lease = row.lease.take();
        row.update_time = Self::now();
        if kind == EventKind::LeaseReleased {
            touch(&mut row);
        }
        let found = if row.state == State::Working {
            self.unrecorded_handoff(&row).await?
        } else {
            None
        };
        if found.is_some() && kind == EventKind::LeaseReleased {
            row.state = State::HandedOff;
        }
        self.unmirror(&row).await;
        let mut events: Vec<NewEvent> = lease
            .map(|lease| event::about(kind, &row, Some(event::lease_detail(&lease)), trace_id))
            .into_iter()
            .collect();
        let mut handoff = None;
        if let Some(found) = found {
            events.push(found.event(&row, trace_id));
            handoff = Some(found.record);
        }
        self.commit_row(Change {
            rows: vec![row],
            events,
            handoff,
            ..Change::default()
        })
        .await
    }
}

/// How often a renewal that meets another change of the row is tried.
const RENEW_TRIES: usize = 8;

fn ends(now: Timestamp, ttl: Duration) -> Timestamp {
    now.checked_add(ttl).unwrap_or(Timestamp::MAX)
}

fn fenced(row: &WorktreeRow, given: u64, now: Timestamp) -> Error {
    Error::LeaseFenced {
        given,
        live: row
            .live_lease(now)
            .map(|lease| (lease.holder.clone(), lease.epoch.0)),
    }
}
