//! Clocking out, and the history of handoffs.

use std::sync::Arc;

use worktree_engine::{
    Error as EngineError,
    lifecycle::{Operation, State},
    model::Warning,
    probe::{DirectoryState, Head},
    sor::{Handoff, HandoffObserved, HandoffOrigin, read_handoff, render_handoff, write_handoff},
};
use worktree_proto::v1::{EventKind, HandedOffDetail, event::Detail};

use super::{Answer, Call, Guards, Key, Lifecycle, Result, event, lookup::Held, provision::touch};
use crate::{
    api::convert::{count, handoff},
    registry::{
        Change, HandoffOrigin as RecordedBy, HandoffRow, NewEvent, NewHandoff, WorktreeRow,
    },
};

/// The most paths that a handoff lists as not committed; all are counted.
const MAX_DIRTY_PATHS: usize = 100;

/// What was handed off.
#[derive(Debug)]
pub(crate) struct HandoffOutcome {
    /// The worktree afterwards.
    pub(crate) row: WorktreeRow,
    /// The handoff as it was written.
    pub(crate) handoff: Handoff,
    /// Its number in the history.
    pub(crate) number: i64,
    /// What the caller should know.
    pub(crate) warnings: Vec<Warning>,
}

/// A handoff that is to be read.
#[derive(Debug, Default)]
pub(crate) struct HandoffFound {
    /// The handoff; none if there is none.
    pub(crate) handoff: Option<Handoff>,
    /// Why a file that is there is not one.
    pub(crate) problem: String,
    /// Whether it is the one recorded last, because the checkout is away.
    pub(crate) from_history: bool,
}

/// A handoff that is not recorded yet.
#[derive(Debug)]
pub(crate) struct Unrecorded {
    /// What goes into the history.
    pub(crate) record: NewHandoff,
    handoff: Handoff,
    number: i64,
}

impl Unrecorded {
    /// The event that tells of it.
    pub(crate) fn event(&self, row: &WorktreeRow, trace_id: &str) -> NewEvent {
        handed_off(row, &self.handoff, self.number, trace_id)
    }
}

fn handed_off(row: &WorktreeRow, said: &Handoff, number: i64, trace_id: &str) -> NewEvent {
    let detail = Detail::HandedOff(HandedOffDetail {
        number: count(number),
        handoff_from: said.handoff_from.clone(),
        runtime: said.runtime.clone(),
        origin: handoff::origin(said.origin) as i32,
        next_best_step: said.next_best_step.clone(),
        why_blocked: said.why_blocked.clone(),
    });
    event::about(EventKind::HandedOff, row, Some(detail), trace_id)
}

impl Lifecycle {
    /// Clocks out.
    pub(crate) async fn write_handoff(
        self: &Arc<Self>,
        call: Call<HandoffOutcome>,
        key: Key,
        epoch: u64,
        said: Handoff,
        keep_lease: bool,
    ) -> Result<Answer<HandoffOutcome>> {
        self.mutate(call, move |this, call| async move {
            let guards = Guards {
                epoch,
                etag: String::new(),
            };
            let Held { row, lock } = this
                .hold_for(&key, &guards, Operation::WriteHandoff)
                .await?;
            this.require_checkout(&row).await?;
            // An agent's own file is replaced below: it goes into the history first.
            let row = this.record_agent_handoff(row, &call.trace_id).await?;
            let mut said = said;
            said.task_id = Some(row.task_id().to_string());
            said.origin = Some(HandoffOrigin::Agent);
            said.observed = Some(this.observe(&row).await?);
            let checkout = row.checkout.clone();
            let written = this
                .block(move |_| write_handoff(&checkout.path, &checkout.sor_dir, &said))
                .await?;
            let number = this.next_number(&row).await?;
            let (row, events) =
                this.clocked_out(row, (&written.handoff, number), keep_lease, &call.trace_id);
            let record = NewHandoff {
                worktree_id: row.id(),
                origin: RecordedBy::Service,
                digest: written.digest,
                handoff: text(&written.handoff),
            };
            let outcome = HandoffOutcome {
                row: row.as_committed(),
                handoff: written.handoff,
                number,
                warnings: written.warnings,
            };
            let change = Change {
                events,
                reply: call.reply(&outcome),
                handoff: Some(record),
                rows: vec![row],
                ..Change::default()
            };
            this.registry.commit(change).await?;
            drop(lock);
            Ok(outcome)
        })
        .await
    }

    fn clocked_out(
        &self,
        mut row: WorktreeRow,
        (said, number): (&Handoff, i64),
        keep_lease: bool,
        trace_id: &str,
    ) -> (WorktreeRow, Vec<NewEvent>) {
        row.state = State::HandedOff;
        if let Some(observed) = &said.observed {
            row.head = observed.head.parse().ok().or(row.head);
            row.head_time = Some(Self::now().as_second());
        }
        touch(&mut row);
        let released = if keep_lease { None } else { row.lease.take() };
        let mut events = vec![handed_off(&row, said, number, trace_id)];
        if let Some(lease) = released {
            let detail = event::lease_detail(&lease);
            events.push(event::about(
                EventKind::LeaseReleased,
                &row,
                Some(detail),
                trace_id,
            ));
        }
        (row, events)
    }

    /// What the service sees itself, kept apart from what the agent claims.
    async fn observe(&self, row: &WorktreeRow) -> Result<HandoffObserved> {
        let checkout = row.checkout.clone();
        self.block(move |engine| {
            let stat = engine.diff_stat(&checkout, false)?;
            let head = match engine.probe(&checkout)?.head {
                Head::Branch(_, Some(tip)) | Head::Detached(tip) => Some(tip),
                Head::Branch(_, None) | Head::Unknown => None,
            };
            let commits = match &head {
                Some(head) => engine.count_commits(&checkout, head)?,
                None => 0,
            };
            let dirty = if stat.dirty {
                engine.dirty_paths(&checkout)?
            } else {
                Vec::new()
            };
            Ok(HandoffObserved {
                dirty_path_count: dirty.len() as u64,
                dirty_paths: dirty
                    .into_iter()
                    .take(MAX_DIRTY_PATHS)
                    .map(Into::into)
                    .collect(),
                head: head.map(|head| head.to_string()).unwrap_or_default(),
                commits_since_baseline: commits,
                files_changed: stat.files_changed,
                insertions: stat.insertions,
                deletions: stat.deletions,
                dirty: stat.dirty,
            })
        })
        .await
    }

    async fn next_number(&self, row: &WorktreeRow) -> Result<i64> {
        let last = self.registry.last_handoff(row.id()).await?;
        Ok(last.map_or(1, |last| last.number + 1))
    }

    /// A valid handoff in the checkout of a held row that is not in the history yet.
    pub(crate) async fn unrecorded_handoff(&self, row: &WorktreeRow) -> Result<Option<Unrecorded>> {
        if self.probe(row).await?.directory != DirectoryState::Present {
            return Ok(None);
        }
        let checkout = row.checkout.clone();
        let read = self
            .block(move |_| Ok(read_handoff(&checkout.path, &checkout.sor_dir)))
            .await?;
        let (Some(mut said), Some(digest)) = (read.handoff, read.digest) else {
            return Ok(None);
        };
        let last = self.registry.last_handoff(row.id()).await?;
        if last
            .as_ref()
            .is_some_and(|last| last.handoff.digest == digest)
        {
            return Ok(None);
        }
        // One that names another task came in with the base.
        if said
            .task_id
            .as_ref()
            .is_some_and(|task| task != row.task_id().as_str())
        {
            return Ok(None);
        }
        said.origin = Some(HandoffOrigin::Agent);
        Ok(Some(Unrecorded {
            record: NewHandoff {
                worktree_id: row.id(),
                origin: RecordedBy::Agent,
                digest,
                handoff: text(&said),
            },
            handoff: said,
            number: last.map_or(1, |last| last.number + 1),
        }))
    }

    /// Puts a handoff that the agent wrote itself into the history, where there is one that is not recorded.
    pub(crate) async fn record_agent_handoff(
        &self,
        row: WorktreeRow,
        trace_id: &str,
    ) -> Result<WorktreeRow> {
        let Some(found) = self.unrecorded_handoff(&row).await? else {
            return Ok(row);
        };
        let mut row = row;
        row.update_time = Self::now();
        let events = vec![found.event(&row, trace_id)];
        self.commit_row(Change {
            rows: vec![row],
            events,
            handoff: Some(found.record),
            ..Change::default()
        })
        .await
    }

    /// Refuses to go on without the directory that was made.
    pub(crate) async fn require_checkout(&self, row: &WorktreeRow) -> Result<()> {
        let path = row.checkout.path.clone();
        let state = if row.state.has_checkout() {
            self.probe(row).await?.directory
        } else {
            DirectoryState::Missing
        };
        match state {
            DirectoryState::Present => Ok(()),
            DirectoryState::Missing => Err(EngineError::CheckoutAbsent { path }.into()),
            DirectoryState::OtherIdentity | DirectoryState::NotADirectory => {
                Err(EngineError::IdentityMismatch { path }.into())
            }
        }
    }

    /// The handoff in the checkout, or, with the checkout away, the one recorded last.
    pub(crate) async fn get_handoff(&self, key: &Key) -> Result<HandoffFound> {
        let row = self.find(key).await?;
        match self.require_checkout(&row).await {
            Ok(()) => {}
            Err(super::Error::Engine(EngineError::CheckoutAbsent { .. })) => {
                let last = self.registry.last_handoff(row.id()).await?;
                return Ok(HandoffFound {
                    from_history: last.is_some(),
                    handoff: last.map(|last| recorded(&last)).transpose()?,
                    problem: String::new(),
                });
            }
            Err(error) => return Err(error),
        }
        let checkout = row.checkout.clone();
        let read = self
            .block(move |_| Ok(read_handoff(&checkout.path, &checkout.sor_dir)))
            .await?;
        Ok(HandoffFound {
            handoff: read.handoff,
            problem: read.problem.unwrap_or_default(),
            from_history: false,
        })
    }

    /// What a cold runtime needs, for somebody who takes no lease.
    pub(crate) async fn get_resume_state(
        &self,
        key: &Key,
        runtime: String,
    ) -> Result<worktree_engine::sor::ResumeState> {
        let row = self.find(key).await?;
        self.require_checkout(&row).await?;
        self.resume_state_of(&row, runtime).await
    }
}

/// A handoff as the history keeps it.
fn text(handoff: &Handoff) -> String {
    String::from_utf8_lossy(&render_handoff(handoff)).into_owned()
}

/// A handoff of the history.
pub(crate) fn recorded(row: &HandoffRow) -> Result<Handoff> {
    serde_json::from_str(&row.handoff.handoff)
        .map_err(|error| super::Error::Internal(format!("a recorded handoff: {error}")))
}
