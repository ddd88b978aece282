//! An operation that touches git or disk: written down before it begins, brought to an end if it is cut short.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use uuid::Uuid;
use worktree_engine::{
    Engine, Error as EngineError, Result as EngineResult,
    ids::WorktreeId,
    lifecycle::{Operation, State},
    model::{DropPlan, Observer, Recovered, Saved, Step},
};
use worktree_proto::v1::{EventKind, event::Detail};

use super::{Error, Lifecycle, Result, event, run::Asked};
use crate::{
    api::{convert::worktree, error::failed_detail},
    events::{EventHub, ProgressUpdate},
    registry::{
        Change, Error as RegistryError, JournalChange, JournalEntry, Registry, RepositoryRow,
        WorktreeRow,
    },
};

/// What the journal keeps of an operation: enough for a restart to end it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// What is being done.
    pub(crate) operation: Operation,
    /// The state to go back to if it is undone.
    pub(crate) back_to: State,
    /// The state that it leads to if its drop was finished.
    pub(crate) on_to: State,
    /// Whether a removal counts the task as done.
    pub(crate) task_completed: bool,
    /// Whether the branch stays.
    pub(crate) keeps_branch: bool,
    /// Whose answer it owes.
    #[serde(default)]
    pub(crate) asked: Option<Asked>,
    /// The step that was begun last.
    pub(crate) step: Option<Step>,
}

impl Intent {
    /// An operation that leads from `back_to` to `on_to`.
    pub(crate) fn new(operation: Operation, back_to: State, on_to: State) -> Self {
        Self {
            operation,
            back_to,
            on_to,
            task_completed: false,
            keeps_branch: true,
            asked: None,
            step: None,
        }
    }
}

/// An operation that was begun: the row as it is stored meanwhile, and its entry in the journal.
#[derive(Debug, Clone)]
pub(crate) struct Running {
    /// The row.
    pub(crate) row: WorktreeRow,
    /// The entry.
    pub(crate) id: Uuid,
    /// What stands in it.
    pub(crate) intent: Intent,
    /// What ties its events together.
    pub(crate) trace_id: String,
}

/// The engine's observer: a step is in the journal before the engine takes it.
#[derive(Debug)]
pub(crate) struct Journal {
    runtime: Handle,
    registry: Registry,
    hub: EventHub,
    entry: Uuid,
    worktree_id: Option<WorktreeId>,
    intent: Intent,
    about: ProgressUpdate,
    reported: Option<Instant>,
}

/// No more than so often a running operation says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

impl Journal {
    pub(crate) fn step_begun(&self) -> Option<&Step> {
        self.intent.step.as_ref()
    }
}

impl Observer for Journal {
    fn step(&mut self, step: &Step) -> EngineResult<()> {
        self.intent.step = Some(step.clone());
        let entry = entry(self.entry, self.worktree_id, &self.intent)
            .map_err(|error| EngineError::Internal(error.to_string()))?;
        let change = Change {
            journal: JournalChange::Put(entry),
            ..Change::default()
        };
        self.runtime
            .block_on(self.registry.commit(change))
            .map(drop)
            .map_err(|error| match error {
                RegistryError::DiskFull(_) => EngineError::DiskFull {
                    path: "the state directory".into(),
                },
                other => EngineError::Internal(format!("the journal cannot be written: {other}")),
            })
    }

    fn progress(&mut self, stage: &'static str, done: u64, total: u64) {
        let is_new = self.about.stage != stage;
        let is_due = self
            .reported
            .is_none_or(|last| last.elapsed() >= PROGRESS_EVERY);
        if !is_new && !is_due && done != total {
            return;
        }
        self.reported = Some(Instant::now());
        self.about.stage = stage;
        self.about.done = done;
        self.about.total = total;
        self.about.time = Lifecycle::now();
        self.hub.report(self.about.clone());
    }
}

/// The journal's entry of an intent.
pub(crate) fn entry(
    id: Uuid,
    worktree_id: Option<WorktreeId>,
    intent: &Intent,
) -> Result<JournalEntry> {
    Ok(JournalEntry {
        id,
        worktree_id,
        operation: intent.operation.to_string(),
        payload: serde_json::to_value(intent)
            .map_err(|error| Error::Internal(format!("the journal entry: {error}")))?,
    })
}

impl Lifecycle {
    /// Writes an operation down, and shows it on the row.
    pub(crate) async fn begin(
        &self,
        row: WorktreeRow,
        intent: Intent,
        started: Option<EventKind>,
        repository: Option<RepositoryRow>,
        trace_id: &str,
    ) -> Result<Running> {
        let id = Uuid::now_v7();
        let mut row = row;
        row.pending_operation = Some(intent.operation);
        if intent.operation == Operation::Complete {
            row.state = State::Completing;
        }
        let events = started
            .map(|kind| event::about(kind, &row, None, trace_id))
            .into_iter()
            .collect();
        let change = Change {
            journal: JournalChange::Put(entry(id, Some(row.id()), &intent)?),
            events,
            repository,
            rows: vec![row],
            ..Change::default()
        };
        Ok(Running {
            row: self.commit_row(change).await?,
            id,
            intent,
            trace_id: trace_id.to_owned(),
        })
    }

    /// The observer of a running operation.
    pub(crate) fn journal(&self, running: &Running) -> Journal {
        self.journal_of(
            running.id,
            Some(running.row.id()),
            running.intent.clone(),
            self.progress_of(&running.row, running.intent.operation),
        )
    }

    /// The observer of an operation on something that has no row of its own.
    pub(crate) fn journal_of(
        &self,
        entry: Uuid,
        worktree_id: Option<WorktreeId>,
        intent: Intent,
        about: ProgressUpdate,
    ) -> Journal {
        Journal {
            runtime: Handle::current(),
            registry: self.registry.clone(),
            hub: self.hub.clone(),
            entry,
            worktree_id,
            intent,
            about,
            reported: None,
        }
    }

    fn progress_of(&self, row: &WorktreeRow, operation: Operation) -> ProgressUpdate {
        ProgressUpdate {
            repo: row.repo.clone(),
            repo_id: row.repo_id.clone(),
            task_id: row.task_id().to_string(),
            operation,
            stage: "",
            done: 0,
            total: 0,
            unit: "files",
            time: Self::now(),
        }
    }

    /// Lets the engine work. If it fails, what it had begun is brought to an end: `finished` says what a drop that could
    /// only be finished gave; otherwise the row goes back, and `failed` tells of it.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        running: &Running,
        failed: Option<EventKind>,
        finished: fn(DropPlan) -> T,
        work: impl FnOnce(&Engine, &mut Journal) -> EngineResult<T> + Send + 'static,
    ) -> Result<T> {
        let journal = self.journal(running);
        let outcome = self
            .block(move |engine| {
                let mut journal = journal;
                let result = work(engine, &mut journal);
                Ok((result, journal.intent.step))
            })
            .await;
        let (error, step) = match outcome {
            Ok((Ok(done), _)) => return Ok(done),
            Ok((Err(error), step)) => (Error::Engine(error), step),
            Err(error) => (error, None),
        };
        match self.settle(step).await {
            Ok(Some(plan)) => Ok(finished(plan)),
            Ok(None) => {
                self.take_back(running, &error, failed).await?;
                Err(error)
            }
            // The entry stays: the next start tries again. Until then the worktree shows an operation in flight.
            Err(unsettled) => {
                tracing::error!(error = %unsettled, "an operation could not be taken back");
                Err(error)
            }
        }
    }

    /// Brings a step that was begun to one of its ends: the plan of a drop that is finished now, or nothing.
    pub(crate) async fn settle(&self, step: Option<Step>) -> Result<Option<DropPlan>> {
        let Some(step) = step else {
            return Ok(None);
        };
        let recovered = self
            .block({
                let step = step.clone();
                move |engine| engine.recover(&step)
            })
            .await?;
        Ok(match (recovered, step) {
            (Recovered::Finished, Step::Drop(plan)) => Some(plan),
            _ => None,
        })
    }

    /// Puts the row back to where the operation came from.
    pub(crate) async fn take_back(
        &self,
        running: &Running,
        error: &Error,
        failed: Option<EventKind>,
    ) -> Result<WorktreeRow> {
        let mut row = running.row.clone();
        row.state = running.intent.back_to;
        row.pending_operation = None;
        row.update_time = Self::now();
        if row.state.is_terminal() {
            row.lease = None;
        }
        let detail = || {
            let operation = worktree::operation(running.intent.operation);
            Detail::Failed(failed_detail(operation, error))
        };
        let events = failed
            .map(|kind| event::about(kind, &row, Some(detail()), &running.trace_id))
            .into_iter()
            .collect();
        self.commit_row(Change {
            rows: vec![row],
            events,
            journal: JournalChange::End(running.id),
            ..Change::default()
        })
        .await
    }

    /// Commits a change of one row, and answers the row as it is stored.
    pub(crate) async fn commit_row(&self, change: Change) -> Result<WorktreeRow> {
        let committed = self.registry.commit(change).await?;
        committed
            .rows
            .into_iter()
            .next()
            .ok_or_else(|| Error::Internal("a commit gave no row back".to_owned()))
    }

    /// Shares itself with what outlives a call.
    pub(crate) fn share(self: &Arc<Self>) -> Arc<Self> {
        Arc::clone(self)
    }
}

/// The save that a finished drop gave.
pub(crate) fn saved_by(plan: DropPlan) -> Saved {
    plan.saved
}
