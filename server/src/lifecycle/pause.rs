//! Saving the work, and dropping the directory; also what garbage collection does.

use std::sync::Arc;

use worktree_engine::{
    Error as EngineError,
    lifecycle::{Operation, State},
    model::{DropPlan, SaveMode, Saved},
};
use worktree_proto::v1::{self, EventKind, event::Detail};

use super::{
    Answer, Call, Guards, Key, Lifecycle, Result,
    begin::{Intent, Running, saved_by},
    event,
    lookup::Held,
    provision::touch,
};
use crate::{
    api::convert::worktree,
    registry::{Change, JournalChange, StoredReply, WorktreeRow},
};

/// What was saved.
#[derive(Debug)]
pub(crate) struct SavedOutcome {
    /// The worktree afterwards.
    pub(crate) row: WorktreeRow,
    /// The save.
    pub(crate) saved: Saved,
}

/// How a drop is told of.
pub(crate) struct Dropped {
    /// The running operation.
    pub(crate) running: Running,
    /// The save before it.
    pub(crate) saved: Saved,
    /// The state that it led to.
    pub(crate) state: State,
    /// The event, and its detail.
    pub(crate) event: (EventKind, Detail),
    /// Whether somebody worked, which garbage collection does not count as.
    pub(crate) active: bool,
}

impl Lifecycle {
    /// Saves the work of a worktree and drops its directory.
    pub(crate) async fn pause(
        self: &Arc<Self>,
        call: Call<SavedOutcome>,
        key: Key,
        guards: Guards,
        mode: SaveMode,
        force: bool,
    ) -> Result<Answer<SavedOutcome>> {
        self.mutate(call, move |this, call| async move {
            let Held { row, lock } = this.hold_for(&key, &guards, Operation::Pause).await?;
            if row.state == State::Paused {
                let outcome = this.still_paused(row).await?;
                let reply = call.reply(&outcome);
                let change = Change {
                    reply,
                    ..Change::default()
                };
                this.registry.commit(change).await?;
                return Ok(outcome);
            }
            let row = this.record_agent_handoff(row, &call.trace_id).await?;
            let message = format!("{}: pause", row.checkout.namespace);
            let mut intent = Intent::new(Operation::Pause, row.state, State::Paused);
            intent.asked = call.asked();
            let running = this.begin(row, intent, None, None, &call.trace_id).await?;
            let checkout = running.row.checkout.clone();
            let saved = this
                .work(
                    &running,
                    None,
                    saved_by as fn(DropPlan) -> Saved,
                    move |engine, journal| engine.pause(&checkout, mode, force, &message, journal),
                )
                .await?;
            let detail = event::saved_detail(&saved, mode);
            let dropped = Dropped {
                running,
                saved,
                state: State::Paused,
                event: (EventKind::Paused, detail),
                active: true,
            };
            let outcome = this
                .finish_drop(dropped, |outcome| call.reply(outcome))
                .await;
            drop(lock);
            outcome
        })
        .await
    }

    async fn still_paused(&self, row: WorktreeRow) -> Result<SavedOutcome> {
        let checkout = row.checkout.clone();
        let tip = self
            .block(move |engine| {
                engine
                    .branch_tip(&checkout)?
                    .ok_or(EngineError::BranchGone {
                        branch: checkout.branch,
                    })
            })
            .await?;
        let saved = Saved {
            head: tip,
            committed: false,
            recovery_point: row.restore.clone(),
            not_saved: Vec::new(),
            warnings: Vec::new(),
        };
        Ok(SavedOutcome { row, saved })
    }

    /// Publishes a drop that keeps the branch.
    pub(crate) async fn finish_drop(
        &self,
        dropped: Dropped,
        reply: impl FnOnce(&SavedOutcome) -> Option<StoredReply>,
    ) -> Result<SavedOutcome> {
        let Dropped {
            running,
            saved,
            state,
            event: (kind, detail),
            active,
        } = dropped;
        let mut row = running.row.clone();
        let operation = running.intent.operation;
        let trace_id = &running.trace_id;
        row.state = state;
        row.pending_operation = None;
        row.head = Some(saved.head.clone());
        row.head_time = Some(Self::now().as_second());
        row.checkout.identity = None;
        row.restore.clone_from(&saved.recovery_point);
        row.update_time = Self::now();
        if active {
            touch(&mut row);
        }
        let lease = row.lease.take();
        let mut events = Vec::new();
        if let Some(lease) = lease {
            let detail = event::lease_detail(&lease);
            events.push(event::about(
                EventKind::LeaseReleased,
                &row,
                Some(detail),
                trace_id,
            ));
        }
        let point = saved.recovery_point.as_ref();
        let why: v1::Operation = worktree::operation(operation);
        events.extend(event::pinned(&row, point, why, trace_id));
        events.push(event::about(kind, &row, Some(detail), trace_id));
        let outcome = SavedOutcome {
            row: row.as_committed(),
            saved,
        };
        let change = Change {
            events,
            journal: JournalChange::End(running.id),
            reply: reply(&outcome),
            recovery_points: self.points(&outcome.row, &outcome.saved, operation),
            rows: vec![row],
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(outcome)
    }
}
