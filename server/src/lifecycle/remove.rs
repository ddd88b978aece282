//! Dropping a worktree by request.

use std::sync::Arc;

use worktree_engine::{
    lifecycle::{Operation, State},
    model::{DropPlan, Saved},
};
use worktree_proto::v1::{self, EventKind, RemovedDetail, event::Detail};

use super::{
    Answer, Call, Guards, Key, Lifecycle, Result, SavedOutcome,
    begin::{Intent, saved_by},
    event,
    lookup::Held,
    provision::touch,
};
use crate::{
    api::convert::save,
    registry::{Change, JournalChange, NewEvent, WorktreeRow},
};

/// How a worktree is to be removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RemoveWish {
    /// Even if it has work, or holds what cannot be saved.
    pub(crate) discard_changes: bool,
    /// The branch stays.
    pub(crate) keep_branch: bool,
    /// The task counts as done.
    pub(crate) complete_task: bool,
}

impl Lifecycle {
    /// Drops a worktree, after a recovery point pinned what was in it.
    pub(crate) async fn remove(
        self: &Arc<Self>,
        call: Call<SavedOutcome>,
        key: Key,
        guards: Guards,
        wish: RemoveWish,
    ) -> Result<Answer<SavedOutcome>> {
        self.mutate(call, move |this, call| async move {
            let Held { row, lock } = this.hold_for(&key, &guards, Operation::Remove).await?;
            let mut intent = Intent::new(Operation::Remove, row.state, State::Removed);
            intent.task_completed = wish.complete_task;
            intent.keeps_branch = wish.keep_branch;
            intent.asked = call.asked();
            let started = Some(EventKind::RemoveStarted);
            let running = this
                .begin(row, intent.clone(), started, None, &call.trace_id)
                .await?;
            let checkout = running.row.checkout.clone();
            let saved = this
                .work(
                    &running,
                    Some(EventKind::RemoveFailed),
                    saved_by as fn(DropPlan) -> Saved,
                    move |engine, journal| {
                        engine.remove(&checkout, wish.discard_changes, wish.keep_branch, journal)
                    },
                )
                .await?;
            let (row, events) = removed_row(running.row.clone(), &intent, &saved, &call.trace_id);
            let outcome = SavedOutcome {
                row: row.as_committed(),
                saved,
            };
            let change = Change {
                events,
                journal: JournalChange::End(running.id),
                reply: call.reply(&outcome),
                recovery_points: this.points(&outcome.row, &outcome.saved, Operation::Remove),
                rows: vec![row],
                ..Change::default()
            };
            this.registry.commit(change).await?;
            drop(lock);
            Ok(outcome)
        })
        .await
    }
}

/// The row after a removal, and the events that tell of it.
pub(crate) fn removed_row(
    mut row: WorktreeRow,
    intent: &Intent,
    saved: &Saved,
    trace_id: &str,
) -> (WorktreeRow, Vec<NewEvent>) {
    row.state = State::Removed;
    row.pending_operation = None;
    row.head = Some(saved.head.clone());
    row.checkout.identity = None;
    row.restore = None;
    row.task_completed = intent.task_completed;
    row.owns_branch = row.owns_branch && intent.keeps_branch;
    touch(&mut row);
    let mut events = Vec::new();
    if let Some(lease) = row.lease.take() {
        let detail = event::lease_detail(&lease);
        events.push(event::about(
            EventKind::LeaseReleased,
            &row,
            Some(detail),
            trace_id,
        ));
    }
    let point = saved.recovery_point.as_ref();
    events.extend(event::pinned(&row, point, v1::Operation::Remove, trace_id));
    let detail = Detail::Removed(RemovedDetail {
        recovery_point: save::recovery_ref(point),
        branch_kept: intent.keeps_branch,
        task_completed: intent.task_completed,
        not_saved: save::not_saved(&saved.not_saved),
    });
    events.push(event::about(
        EventKind::Removed,
        &row,
        Some(detail),
        trace_id,
    ));
    (row, events)
}
