//! Saving the work and keeping the directory.

use std::sync::Arc;

use worktree_engine::{
    lifecycle::Operation,
    model::{DropPlan, SaveMode, Saved},
};
use worktree_proto::v1::{self, EventKind};

use super::{
    Answer, Call, Guards, Key, Lifecycle, Result,
    begin::{Intent, Running, saved_by},
    event,
    lookup::Held,
    pause::SavedOutcome,
    provision::touch,
};
use crate::registry::{Change, JournalChange, RecoveryPointRow};

impl Lifecycle {
    /// Saves the work of a worktree.
    pub(crate) async fn checkpoint(
        self: &Arc<Self>,
        call: Call<SavedOutcome>,
        key: Key,
        guards: Guards,
        message: String,
    ) -> Result<Answer<SavedOutcome>> {
        self.mutate(call, move |this, call| async move {
            let Held { row, lock } = this.hold_for(&key, &guards, Operation::Checkpoint).await?;
            let message = if message.is_empty() {
                format!("{}: checkpoint", row.checkout.namespace)
            } else {
                message
            };
            let intent = Intent::new(Operation::Checkpoint, row.state, row.state);
            let running = this.begin(row, intent, None, None, &call.trace_id).await?;
            let checkout = running.row.checkout.clone();
            let saved = this
                .work(
                    &running,
                    None,
                    saved_by as fn(DropPlan) -> Saved,
                    move |engine, journal| {
                        engine.checkpoint(&checkout, SaveMode::Commit, &message, journal)
                    },
                )
                .await?;
            let outcome = this.finish_checkpoint(&call, running, saved).await;
            drop(lock);
            outcome
        })
        .await
    }

    async fn finish_checkpoint(
        &self,
        call: &Call<SavedOutcome>,
        running: Running,
        saved: Saved,
    ) -> Result<SavedOutcome> {
        let mut row = running.row.clone();
        row.pending_operation = None;
        row.head = Some(saved.head.clone());
        row.head_time = Some(Self::now().as_second());
        touch(&mut row);
        let detail = event::saved_detail(&saved, SaveMode::Commit);
        let point = saved.recovery_point.as_ref();
        let kind = EventKind::Checkpointed;
        let events = event::pinned(&row, point, v1::Operation::Checkpoint, &call.trace_id)
            .into_iter()
            .chain([event::about(kind, &row, Some(detail), &call.trace_id)])
            .collect();
        let outcome = SavedOutcome {
            row: row.as_committed(),
            saved,
        };
        let change = Change {
            events,
            journal: JournalChange::End(running.id),
            reply: call.reply(&outcome),
            recovery_points: self.points(&outcome.row, &outcome.saved, Operation::Checkpoint),
            rows: vec![row],
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(outcome)
    }

    /// The rows of the recovery points that a save pinned.
    pub(crate) fn points(
        &self,
        row: &crate::registry::WorktreeRow,
        saved: &Saved,
        operation: Operation,
    ) -> Vec<RecoveryPointRow> {
        saved
            .recovery_point
            .iter()
            .map(|point| RecoveryPointRow {
                point: point.clone(),
                repo_id: row.repo_id.clone(),
                worktree_id: Some(row.id()),
                operation: operation.to_string(),
                create_time: Self::now(),
            })
            .collect()
    }
}
