//! Outcomes of operations as the contract's answers: for the call itself, and for recovery, which answers its repeat.

use worktree_proto::v1;

use super::{save, worktree};
use crate::lifecycle::{CompleteOutcome, SavedOutcome};

/// The answer to a checkpoint.
pub(crate) fn checkpointed(outcome: &SavedOutcome) -> v1::CheckpointWorktreeResponse {
    v1::CheckpointWorktreeResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        head: outcome.saved.head.to_string(),
        committed: outcome.saved.committed,
        not_saved: save::not_saved(&outcome.saved.not_saved),
        recovery_point: save::recovery_ref(outcome.saved.recovery_point.as_ref()),
        warnings: save::warnings(&outcome.saved.warnings),
    }
}

/// The answer to a pause.
pub(crate) fn paused(outcome: &SavedOutcome) -> v1::PauseWorktreeResponse {
    v1::PauseWorktreeResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        head: outcome.saved.head.to_string(),
        committed: outcome.saved.committed,
        not_saved: save::not_saved(&outcome.saved.not_saved),
        recovery_point: save::recovery_ref(outcome.saved.recovery_point.as_ref()),
        warnings: save::warnings(&outcome.saved.warnings),
    }
}

/// The answer to a completion.
pub(crate) fn completed(outcome: &CompleteOutcome) -> v1::CompleteWorktreeResponse {
    let saved = &outcome.completed.saved;
    v1::CompleteWorktreeResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        diff_stat: Some(save::diff_stat(&outcome.completed.stat)),
        cleaned: outcome.completed.cleaned,
        head: saved.head.to_string(),
        not_saved: save::not_saved(&saved.not_saved),
        recovery_point: save::recovery_ref(saved.recovery_point.as_ref()),
        warnings: save::warnings(&saved.warnings),
    }
}

/// The answer to a removal.
pub(crate) fn removed(outcome: &SavedOutcome) -> v1::RemoveWorktreeResponse {
    v1::RemoveWorktreeResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        recovery_point: save::recovery_ref(outcome.saved.recovery_point.as_ref()),
        not_saved: save::not_saved(&outcome.saved.not_saved),
        warnings: save::warnings(&outcome.saved.warnings),
    }
}
