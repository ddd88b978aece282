//! After a restart: whatever was cut short is brought to one of its ends before anything is served.

use prost::Message as _;
use worktree_engine::{
    diff::Completed,
    ids::WorktreeId,
    lifecycle::{Operation, State},
    model::{DiffStat, DropPlan, SaveMode},
};
use worktree_proto::v1::{self, EventKind, event::Detail};

use super::{
    CompleteOutcome, Error, Lifecycle, Result, SavedOutcome,
    begin::{Intent, Running},
    complete::completed_row,
    event,
    pause::Dropped,
    remove::removed_row,
};
use crate::api::convert::outcome;
use crate::registry::{Change, JournalChange, JournalEntry, ReviewChange, WorktreeRow};

impl Lifecycle {
    /// Replays the journal. An entry that cannot be settled stays for the next start, its worktree untouched.
    pub(crate) async fn recover(&self) -> Result<()> {
        for entry in self.registry.journal().await? {
            let id = entry.id;
            if let Err(error) = Box::pin(self.recover_entry(entry)).await {
                tracing::error!(journal = %id, %error, "an interrupted operation could not be settled");
            }
        }
        Ok(())
    }

    async fn recover_entry(&self, entry: JournalEntry) -> Result<()> {
        let intent: Intent = serde_json::from_value(entry.payload.clone())
            .map_err(|error| Error::Internal(format!("a journal entry: {error}")))?;
        let finished = self.settle(intent.step.clone()).await?;
        if intent.operation == Operation::Review {
            return self.recover_review(&entry, finished.is_some()).await;
        }
        let row = match entry.worktree_id {
            Some(id) => self.registry.by_id(id).await?,
            None => None,
        };
        let Some(row) = row else {
            return self.forget(entry.id).await;
        };
        tracing::info!(worktree = %row.id(), operation = %intent.operation, finished = finished.is_some(), "settled an interrupted operation");
        let checkout = row.checkout.clone();
        self.block(move |engine| engine.clear_stale_lock(&checkout))
            .await?;
        let running = Running {
            row,
            id: entry.id,
            intent,
            trace_id: String::new(),
        };
        match finished {
            Some(plan) => self.publish(running, plan).await,
            None => self.roll_back(&running).await,
        }
    }

    async fn forget(&self, entry: uuid::Uuid) -> Result<()> {
        let change = Change {
            journal: JournalChange::End(entry),
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(())
    }

    async fn recover_review(&self, entry: &JournalEntry, is_gone: bool) -> Result<()> {
        let gone = entry.worktree_id.filter(|_| is_gone);
        let change = Change {
            journal: JournalChange::End(entry.id),
            reviews: gone.map(ReviewChange::Remove).into_iter().collect(),
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(())
    }

    async fn roll_back(&self, running: &Running) -> Result<()> {
        let failed = match running.intent.operation {
            Operation::Provision => Some(EventKind::ProvisionFailed),
            Operation::Remove => Some(EventKind::RemoveFailed),
            _ => None,
        };
        let error = Error::Internal("the server stopped in the middle of it".to_owned());
        self.take_back(running, &error, failed).await?;
        Ok(())
    }

    /// A drop that was finished: the state that the journal names becomes visible.
    async fn publish(&self, running: Running, plan: DropPlan) -> Result<()> {
        let saved = plan.saved;
        let asked = running.intent.asked.clone();
        match running.intent.operation {
            Operation::Complete => {
                let checkout = running.row.checkout.clone();
                let tip = self
                    .block(move |engine| engine.branch_tip(&checkout))
                    .await?;
                let completed = Completed {
                    stat: DiffStat::default(),
                    // A branch that moved meanwhile was kept.
                    cleaned: tip.is_none(),
                    saved: saved.clone(),
                };
                let (row, events) = completed_row(running.row.clone(), &completed, "");
                let outcome = CompleteOutcome {
                    row: row.as_committed(),
                    completed,
                };
                let response = outcome::completed(&outcome).encode_to_vec();
                self.publish_row(&running, row, events, &saved, response)
                    .await
            }
            Operation::Remove => {
                let (row, events) = removed_row(running.row.clone(), &running.intent, &saved, "");
                let outcome = SavedOutcome {
                    row: row.as_committed(),
                    saved: saved.clone(),
                };
                let response = outcome::removed(&outcome).encode_to_vec();
                self.publish_row(&running, row, events, &saved, response)
                    .await
            }
            Operation::Collect => {
                let detail = Detail::GcItem(v1::GcItem {
                    key: Some(crate::api::convert::worktree::key(&running.row)),
                    verdict: v1::GcVerdict::Reaped as i32,
                    worktree_id: running.row.id().to_string(),
                    ..v1::GcItem::default()
                });
                let state = running.intent.on_to;
                let dropped = Dropped {
                    event: (EventKind::Reaped, detail),
                    active: false,
                    state,
                    running,
                    saved,
                };
                self.finish_drop(dropped, |_| None).await.map(drop)
            }
            _ => {
                let detail = event::saved_detail(&saved, SaveMode::Commit);
                let dropped = Dropped {
                    event: (EventKind::Paused, detail),
                    active: true,
                    state: State::Paused,
                    running,
                    saved,
                };
                let answer = |outcome: &SavedOutcome| {
                    Some(asked?.reply(outcome::paused(outcome).encode_to_vec()))
                };
                self.finish_drop(dropped, answer).await.map(drop)
            }
        }
    }

    async fn publish_row(
        &self,
        running: &Running,
        row: WorktreeRow,
        events: Vec<crate::registry::NewEvent>,
        saved: &worktree_engine::model::Saved,
        response: Vec<u8>,
    ) -> Result<()> {
        let asked = running.intent.asked.clone();
        let change = Change {
            events,
            journal: JournalChange::End(running.id),
            reply: asked.map(|asked| asked.reply(response)),
            recovery_points: self.points(&row, saved, running.intent.operation),
            rows: vec![row],
            ..Change::default()
        };
        self.registry.commit(change).await?;
        Ok(())
    }

    /// The id of a review or worktree, read.
    pub(crate) fn parse_id(text: &str) -> Option<WorktreeId> {
        uuid::Uuid::parse_str(text).ok().map(WorktreeId)
    }
}
