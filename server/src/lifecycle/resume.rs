//! The directory of a worktree, built again from its branch and from what was pinned beside it.

use std::sync::Arc;

use worktree_engine::{
    Error as EngineError,
    lifecycle::{Operation, State, check},
    model::{DropPlan, Warning},
    probe::{DirectoryState, Probe, RegistrationState},
};
use worktree_proto::v1::{EventKind, ResumedDetail, event::Detail};

use super::{
    Answer, Call, Error, Key, Lifecycle, Result, begin::Intent, event, lookup::Held,
    provision::touch,
};
use crate::{
    api::convert::{save, worktree},
    registry::{Change, JournalChange, WorktreeRow},
};

/// A worktree whose directory is there.
#[derive(Debug)]
pub(crate) struct ResumeOutcome {
    /// Its row.
    pub(crate) row: WorktreeRow,
    /// What the caller should know.
    pub(crate) warnings: Vec<Warning>,
}

impl Lifecycle {
    /// Builds the directory of a paused or reaped worktree again; answers any other live one as it is, its directory
    /// rebuilt if it is gone.
    pub(crate) async fn resume(
        self: &Arc<Self>,
        call: Call<ResumeOutcome>,
        key: Key,
    ) -> Result<Answer<ResumeOutcome>> {
        self.mutate(call, move |this, call| async move {
            let Held { row, lock } = this.hold(&key).await?;
            check(row.state, Operation::Resume)?;
            let outcome = this.ensure_checkout(row, &call.trace_id).await?;
            if let Some(reply) = call.reply(&outcome) {
                let change = Change {
                    reply: Some(reply),
                    ..Change::default()
                };
                this.registry.commit(change).await?;
            }
            drop(lock);
            Ok(outcome)
        })
        .await
    }

    /// Sees to it that the directory of a held row is there.
    pub(crate) async fn ensure_checkout(
        &self,
        row: WorktreeRow,
        trace_id: &str,
    ) -> Result<ResumeOutcome> {
        if matches!(row.state, State::Paused | State::Reaped) {
            return self.rebuild_held(row, trace_id).await;
        }
        let probe = self.probe(&row).await?;
        match (probe.directory, probe.registration) {
            (DirectoryState::Present, RegistrationState::Present) => Ok(ResumeOutcome {
                row,
                warnings: Vec::new(),
            }),
            (DirectoryState::Missing, _) => {
                let mut outcome = self.rebuild_held(row, trace_id).await?;
                outcome.warnings.push(Warning::new(
                    "CHECKOUT_REBUILT",
                    "the directory was gone and was rebuilt from the branch; what was not committed in it is lost",
                ));
                Ok(outcome)
            }
            (DirectoryState::Present, _) => Err(EngineError::CheckoutRetargeted {
                path: row.checkout.path,
            }
            .into()),
            (DirectoryState::OtherIdentity | DirectoryState::NotADirectory, _) => {
                Err(EngineError::IdentityMismatch {
                    path: row.checkout.path,
                }
                .into())
            }
        }
    }

    /// Looks at the checkout of a row.
    pub(crate) async fn probe(&self, row: &WorktreeRow) -> Result<Probe> {
        let checkout = row.checkout.clone();
        self.block(move |engine| engine.probe(&checkout)).await
    }

    /// Rebuilds the directory of a held row. A paused or reaped one is WORKING afterwards; another keeps its state.
    pub(crate) async fn rebuild_held(
        &self,
        row: WorktreeRow,
        trace_id: &str,
    ) -> Result<ResumeOutcome> {
        let from = row.state;
        let intent = Intent::new(Operation::Resume, from, from);
        let running = self.begin(row, intent, None, None, trace_id).await?;
        let checkout = running.row.checkout.clone();
        let restore = running.row.restore.clone();
        let point = restore.clone();
        let unexpected = |_: DropPlan| Err(EngineError::Internal("a resume dropped".to_owned()));
        let built = self
            .work(&running, None, unexpected, move |engine, journal| {
                Ok(Ok(engine.resume(&checkout, point.as_ref(), journal)?))
            })
            .await?
            .map_err(Error::Engine)?;
        let mut row = running.row.clone();
        row.checkout = built.checkout;
        row.head = Some(built.head);
        row.head_time = Some(Self::now().as_second());
        row.pending_operation = None;
        row.restore = None;
        if matches!(from, State::Paused | State::Reaped) {
            row.state = State::Working;
        }
        touch(&mut row);
        let detail = Detail::Resumed(ResumedDetail {
            from_state: worktree::state(from) as i32,
            rebuilt: true,
            recovery_point: save::recovery_ref(restore.as_ref()),
            warnings: save::warnings(&built.warnings),
        });
        let events = vec![event::about(
            EventKind::Resumed,
            &row,
            Some(detail),
            trace_id,
        )];
        let change = Change {
            events,
            rows: vec![row],
            journal: JournalChange::End(running.id),
            ..Change::default()
        };
        Ok(ResumeOutcome {
            row: self.commit_row(change).await?,
            warnings: built.warnings,
        })
    }
}
