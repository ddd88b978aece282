//! Ending the work: cleaned up where nothing changed, retained where something did.

use std::sync::Arc;

use worktree_engine::{
    diff::Completed,
    lifecycle::{Operation, State},
    model::{DiffStat, DropPlan},
};
use worktree_proto::v1::{self, CompletedDetail, EventKind, event::Detail};

use super::{
    Answer, Call, Guards, Key, Lifecycle, Result,
    begin::{Intent, Running},
    event,
    lookup::Held,
    provision::touch,
};
use crate::{
    api::convert::save,
    registry::{Change, JournalChange, WorktreeRow},
};

/// What became of the worktree.
#[derive(Debug)]
pub(crate) struct CompleteOutcome {
    /// Its row.
    pub(crate) row: WorktreeRow,
    /// The work, measured, and whether it was cleaned up.
    pub(crate) completed: Completed,
}

/// A drop that was finished by recovery: there were no changes, or it would not have begun.
pub(crate) fn completed_by(plan: DropPlan) -> Completed {
    Completed {
        stat: DiffStat::default(),
        cleaned: true,
        saved: plan.saved,
    }
}

impl Lifecycle {
    /// Ends the work of a worktree.
    pub(crate) async fn complete(
        self: &Arc<Self>,
        call: Call<CompleteOutcome>,
        key: Key,
        guards: Guards,
        force: bool,
    ) -> Result<Answer<CompleteOutcome>> {
        self.mutate(call, move |this, call| async move {
            let Held { row, lock } = this.hold_for(&key, &guards, Operation::Complete).await?;
            let row = this.record_agent_handoff(row, &call.trace_id).await?;
            let mut intent = Intent::new(Operation::Complete, row.state, State::DoneClean);
            intent.keeps_branch = false;
            intent.asked = call.asked();
            let running = this.begin(row, intent, None, None, &call.trace_id).await?;
            let checkout = running.row.checkout.clone();
            let completed = this
                .work(
                    &running,
                    None,
                    completed_by as fn(DropPlan) -> Completed,
                    move |engine, journal| engine.complete(&checkout, force, journal),
                )
                .await?;
            let outcome = this.finish_complete(&call, running, completed).await;
            drop(lock);
            outcome
        })
        .await
    }

    async fn finish_complete(
        &self,
        call: &Call<CompleteOutcome>,
        running: Running,
        completed: Completed,
    ) -> Result<CompleteOutcome> {
        let (row, events) = completed_row(running.row.clone(), &completed, &call.trace_id);
        let saved = completed.saved.clone();
        let outcome = CompleteOutcome {
            row: row.as_committed(),
            completed,
        };
        let change = Change {
            events,
            journal: JournalChange::End(running.id),
            reply: call.reply(&outcome),
            recovery_points: self.points(&outcome.row, &saved, Operation::Complete),
            rows: vec![row],
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(outcome)
    }
}

/// The row after a completion, and the events that tell of it.
pub(crate) fn completed_row(
    mut row: WorktreeRow,
    completed: &Completed,
    trace_id: &str,
) -> (WorktreeRow, Vec<crate::registry::NewEvent>) {
    let (state, kind) = if completed.cleaned {
        (State::DoneClean, EventKind::CompletedClean)
    } else {
        (State::Retained, EventKind::Retained)
    };
    row.state = state;
    row.pending_operation = None;
    row.head = Some(completed.saved.head.clone());
    row.head_time = Some(Lifecycle::now().as_second());
    touch(&mut row);
    if completed.cleaned {
        row.checkout.identity = None;
        row.restore = None;
        row.owns_branch = false;
    }
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
    let point = completed.saved.recovery_point.as_ref();
    let why = v1::Operation::Complete;
    events.extend(event::pinned(&row, point, why, trace_id));
    let detail = Detail::Completed(CompletedDetail {
        diff_stat: Some(save::diff_stat(&completed.stat)),
        cleaned: completed.cleaned,
        head: completed.saved.head.to_string(),
        recovery_point: save::recovery_ref(point),
        not_saved: save::not_saved(&completed.saved.not_saved),
    });
    events.push(event::about(kind, &row, Some(detail), trace_id));
    (row, events)
}
