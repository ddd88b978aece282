//! The states of a worktree and the one table of legal moves.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

macro_rules! named_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $text)] $variant),+ }

        impl $name {
            /// Every value, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as the contract spells it, without its prefix.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value of that name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named_enum! {
    /// Where a worktree stands.
    State {
        /// Being made; not usable yet.
        Provisioning = "PROVISIONING",
        /// Ready, nobody has clocked in.
        Provisioned = "PROVISIONED",
        /// Somebody clocked in (with or without a live lease).
        Working = "WORKING",
        /// Clocked out with a handoff.
        HandedOff = "HANDED_OFF",
        /// Saved, directory dropped, branch kept.
        Paused = "PAUSED",
        /// A completion is running.
        Completing = "COMPLETING",
        /// Completed with changes; in review.
        Retained = "RETAINED",
        /// Accepted.
        Done = "DONE",
        /// Completed without changes; everything is gone. Terminal.
        DoneClean = "DONE_CLEAN",
        /// Dropped by garbage collection, branch kept.
        Reaped = "REAPED",
        /// Removed by request. Terminal.
        Removed = "REMOVED",
        /// Provisioning failed and was cleaned up. Terminal.
        Failed = "FAILED",
    }
}

named_enum! {
    /// What can be asked of a worktree.
    Operation {
        /// Make it.
        Provision = "PROVISION",
        /// Clock in.
        AcquireLease = "ACQUIRE_LEASE",
        /// Give the lease back.
        ReleaseLease = "RELEASE_LEASE",
        /// Clock out.
        WriteHandoff = "WRITE_HANDOFF",
        /// Save, keep the directory.
        Checkpoint = "CHECKPOINT",
        /// Save, drop the directory.
        Pause = "PAUSE",
        /// Rebuild the directory.
        Resume = "RESUME",
        /// Finish the task.
        Complete = "COMPLETE",
        /// Save and drop because idle.
        Collect = "COLLECT",
        /// Drop by request.
        Remove = "REMOVE",
        /// Check out for a reviewer.
        Review = "REVIEW",
    }
}

named_enum! {
    /// What a task board shows.
    TaskStatus {
        /// Not being worked on.
        Todo = "TODO",
        /// Being worked on.
        InProgress = "IN_PROGRESS",
        /// Waiting for a verdict.
        InReview = "IN_REVIEW",
        /// Finished.
        Done = "DONE",
        /// Given up.
        Cancelled = "CANCELLED",
    }
}

impl State {
    /// Whether no operation leads out of it.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::DoneClean | Self::Removed | Self::Failed)
    }

    /// Whether a directory is expected on disk.
    pub fn has_checkout(self) -> bool {
        matches!(
            self,
            Self::Provisioned
                | Self::Working
                | Self::HandedOff
                | Self::Completing
                | Self::Retained
                | Self::Done
        )
    }

    /// The board's view; `task_completed` is the removal's `complete_task`.
    pub fn task_status(self, task_completed: bool) -> TaskStatus {
        match self {
            Self::Provisioning
            | Self::Provisioned
            | Self::HandedOff
            | Self::Paused
            | Self::Reaped => TaskStatus::Todo,
            Self::Working | Self::Completing => TaskStatus::InProgress,
            Self::Retained => TaskStatus::InReview,
            Self::Done | Self::DoneClean => TaskStatus::Done,
            Self::Removed if task_completed => TaskStatus::Done,
            Self::Removed | Self::Failed => TaskStatus::Cancelled,
        }
    }
}

/// Says whether `operation` may begin in `from`. Lease and lock conditions are checked elsewhere.
pub fn check(from: State, operation: Operation) -> Result<()> {
    use State::{
        Completing, Done, HandedOff, Paused, Provisioned, Provisioning, Reaped, Retained, Working,
    };
    let legal = match operation {
        Operation::Provision => from != Provisioning && from != Completing,
        Operation::AcquireLease => matches!(
            from,
            Provisioned | HandedOff | Retained | Working | Paused | Reaped
        ),
        Operation::ReleaseLease => from == Working,
        Operation::WriteHandoff => matches!(from, Provisioned | Working | HandedOff),
        Operation::Checkpoint => from.has_checkout() && from != Completing,
        Operation::Pause => matches!(from, Provisioned | Working | HandedOff | Paused),
        Operation::Resume => !from.is_terminal() && from != Provisioning && from != Completing,
        Operation::Complete => matches!(from, Provisioned | Working | HandedOff | Retained),
        Operation::Collect => matches!(from, Provisioned | Working | HandedOff | Done),
        Operation::Remove | Operation::Review => {
            !from.is_terminal() && from != Provisioning && from != Completing
        }
    };
    if legal {
        Ok(())
    } else {
        Err(Error::IllegalTransition { from, operation })
    }
}

/// Whether a task of this kind changes files: `research` and `review` do not, every other kind counts as `code`.
pub fn needs_worktree(kind: &str) -> bool {
    !matches!(kind, "research" | "review")
}

/// The isolation that a task of this kind gets when none is asked for.
pub fn isolation_for_task(kind: &str) -> &'static str {
    if needs_worktree(kind) {
        "worktree"
    } else {
        "none"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_out_of_a_terminal_state_but_a_new_row() {
        for &state in State::ALL.iter().filter(|state| state.is_terminal()) {
            for &operation in Operation::ALL {
                assert_eq!(
                    check(state, operation).is_ok(),
                    operation == Operation::Provision,
                    "{state} {operation}"
                );
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for &state in State::ALL {
            assert_eq!(State::from_name(state.as_str()), Some(state));
        }
    }
}
