//! The one mapping from what can go wrong to what goes over the wire: code, reason, and what a caller can act on.

use std::{collections::HashMap, path::Path, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use worktree_engine::{Error as EngineError, model::NotSaved};
use worktree_proto::{
    ERROR_DOMAIN, policy,
    v1::{self, ErrorReason},
};

use crate::lifecycle::Error;

/// How long a caller that found something busy should wait.
const BUSY_RETRY: Duration = Duration::from_secs(1);
/// The most violations of one answer: what is beyond is counted by the message.
const MAX_VIOLATIONS: usize = 100;

/// What is known of an error before it becomes a status.
struct Answer {
    reason: ErrorReason,
    metadata: HashMap<String, String>,
    details: ErrorDetails,
}

impl Answer {
    fn new(reason: ErrorReason) -> Self {
        Self {
            reason,
            metadata: HashMap::new(),
            details: ErrorDetails::new(),
        }
    }

    fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.metadata.insert(key.to_owned(), value.into());
        self
    }

    fn path(self, key: &str, path: &Path) -> Self {
        self.with(key, path.to_string_lossy())
    }

    fn field(mut self, field: &str, problem: &str) -> Self {
        self.details.add_bad_request_violation(field, problem);
        self
    }

    fn resource(mut self, kind: &str, name: &str, problem: &str) -> Self {
        self.details.set_resource_info(kind, name, "", problem);
        self
    }

    fn retry(mut self, after: Duration) -> Self {
        self.details.set_retry_info(Some(after));
        self
    }

    fn precondition(mut self, kind: &str, subject: &str, problem: &str) -> Self {
        self.details
            .add_precondition_failure_violation(kind, subject, problem);
        self
    }

    fn quota(mut self, subject: &str, problem: &str) -> Self {
        self.details.add_quota_failure_violation(subject, problem);
        self
    }
}

/// The status that answers an error.
pub(crate) fn to_status(error: &Error) -> Status {
    let answer = match error {
        Error::Engine(error) => of_engine(error),
        other => of_service(other),
    };
    let mut message = error.to_string();
    let mut metadata = answer.metadata;
    if answer.reason == ErrorReason::Internal {
        // The cause may name paths and tables that are nobody's business: it goes to the log, under an id.
        let trace_id = uuid::Uuid::now_v7().to_string();
        tracing::error!(trace_id, error = ?error, "internal error");
        message = format!("an internal error; the server's log has it under {trace_id}");
        metadata.insert("trace_id".to_owned(), trace_id);
    }
    let mut details = answer.details;
    details.set_error_info(policy::wire_reason(answer.reason), ERROR_DOMAIN, metadata);
    Status::with_error_details(code_of(answer.reason), message, details)
}

/// The reason and the message that a caller got, for the events that tell of a failure.
pub(crate) fn reason_of(error: &Error) -> ErrorReason {
    match error {
        Error::Engine(error) => of_engine(error).reason,
        other => of_service(other).reason,
    }
}

fn code_of(reason: ErrorReason) -> Code {
    policy::canonical_code(reason).map_or(Code::Unknown, Code::from_i32)
}

fn of_service(error: &Error) -> Answer {
    let text = error.to_string();
    match error {
        Error::Engine(error) => of_engine(error),
        Error::Registry(crate::registry::Error::DiskFull(_)) => Answer::new(ErrorReason::DiskFull)
            .with("path", "the state directory")
            .quota("disk", "the filesystem of the state directory is full"),
        Error::Registry(_) | Error::Internal(_) => Answer::new(ErrorReason::Internal),
        Error::Invalid { field, problem } => {
            Answer::new(ErrorReason::InvalidField).field(field, problem)
        }
        Error::PageTokenInvalid => Answer::new(ErrorReason::PageTokenInvalid)
            .field("page_token", "was not given out for this request"),
        Error::NotImplemented { feature } => {
            Answer::new(ErrorReason::NotImplemented).with("feature", *feature)
        }
        Error::RepositoryNotAllowed { repo, hint } => {
            Answer::new(ErrorReason::RepositoryNotAllowed)
                .with("repo", repo)
                .resource("repository", repo, hint)
        }
        Error::RepositoryUnknown { name } => Answer::new(ErrorReason::RepositoryNotFound)
            .with("repo", name)
            .resource("repository", name, &text),
        Error::WorktreeNotFound { repo, task } => Answer::new(ErrorReason::WorktreeNotFound)
            .with("repo", repo)
            .with("task_id", task)
            .resource("worktree", &format!("{repo}#{task}"), &text),
        Error::WorktreeIdNotFound { id } => Answer::new(ErrorReason::WorktreeNotFound)
            .with("id", id)
            .resource("worktree", id, &text),
        Error::ReviewNotFound { id } => Answer::new(ErrorReason::ReviewNotFound)
            .with("id", id)
            .resource("review", id, &text),
        Error::LeaseHeld {
            holder,
            runtime,
            expire_time,
            retry_after,
        } => Answer::new(ErrorReason::LeaseHeld)
            .with("holder", holder)
            .with("runtime", runtime)
            .with("expire_time", expire_time.to_string())
            .precondition("LEASE_HELD", holder, &text)
            .retry(*retry_after),
        Error::LeaseFenced { live, .. } => {
            let answer = Answer::new(ErrorReason::LeaseFenced);
            match live {
                Some((holder, epoch)) => answer
                    .with("holder", holder)
                    .with("epoch", epoch.to_string()),
                None => answer,
            }
        }
        Error::EtagMismatch { etag } => Answer::new(ErrorReason::EtagMismatch).with("etag", etag),
        Error::Busy { .. } => Answer::new(ErrorReason::WorktreeBusy).retry(BUSY_RETRY),
        Error::QueueFull => Answer::new(ErrorReason::QueueFull)
            .quota("operations", &text)
            .retry(BUSY_RETRY),
        Error::TooManyWatchers { .. } => {
            Answer::new(ErrorReason::CapacityExhausted).quota("watchers", &text)
        }
        Error::RequestIdReused { id, method } => Answer::new(ErrorReason::RequestIdReused)
            .with("request_id", id)
            .with("method", *method)
            .field("request_id", "was used before with another request"),
        Error::EventsCompacted { oldest } => {
            Answer::new(ErrorReason::EventsCompacted).with("oldest", oldest.to_string())
        }
        Error::PositionUnknown => Answer::new(ErrorReason::PositionUnknown),
        Error::Draining { position } => {
            let answer = Answer::new(ErrorReason::ServerDraining);
            match position {
                Some(position) => answer.with("position", position),
                None => answer,
            }
        }
    }
}

fn of_engine(error: &EngineError) -> Answer {
    match error {
        EngineError::Invalid { .. }
        | EngineError::TaskNeedsNoWorktree { .. }
        | EngineError::IsolationNotProvisioned { .. }
        | EngineError::HandoffInvalid { .. }
        | EngineError::BaseNotFound { .. }
        | EngineError::RepositoryNotFound { .. }
        | EngineError::RepositoryUnsupported { .. }
        | EngineError::RepositoryOwnerMismatch { .. }
        | EngineError::RepositoryHasNoCommits { .. }
        | EngineError::RepositoryIsMirror { .. } => of_request(error),
        EngineError::BranchExists { .. }
        | EngineError::BranchCheckedOut { .. }
        | EngineError::BranchNamespaceBlocked { .. }
        | EngineError::BranchGone { .. }
        | EngineError::BranchMoved { .. }
        | EngineError::SorFileConflict { .. }
        | EngineError::IllegalTransition { .. } => of_branch(error),
        EngineError::CheckoutAbsent { .. }
        | EngineError::CheckoutRetargeted { .. }
        | EngineError::IdentityMismatch { .. }
        | EngineError::UnsavedWork { .. }
        | EngineError::ForeignLock { .. }
        | EngineError::OperationInProgress { .. }
        | EngineError::NestedRepository { .. }
        | EngineError::SubmoduleRepository { .. }
        | EngineError::UnrepresentableName { .. } => of_checkout(error),
        EngineError::Busy { .. } => Answer::new(ErrorReason::WorktreeBusy).retry(BUSY_RETRY),
        EngineError::DiskFull { path } => Answer::new(ErrorReason::DiskFull)
            .path("path", path)
            .quota("disk", &error.to_string()),
        EngineError::GitTooOld { found, minimum } => Answer::new(ErrorReason::GitTooOld)
            .with("found", found)
            .with("required", *minimum),
        EngineError::GitTimeout { arguments, seconds } => Answer::new(ErrorReason::GitTimeout)
            .with("command", arguments)
            .with("timeout", format!("{seconds}s")),
        EngineError::GitFailed {
            arguments,
            exit_code,
            stderr,
        } => Answer::new(ErrorReason::GitFailed)
            .with("command", arguments)
            .with("exit_code", exit_code.to_string())
            .with("stderr", stderr),
        EngineError::Io { .. } | EngineError::Internal(_) => Answer::new(ErrorReason::Internal),
    }
}

/// What is wrong with the request, or with the repository that it names.
fn of_request(error: &EngineError) -> Answer {
    let text = error.to_string();
    match error {
        EngineError::Invalid { field, problem } => {
            Answer::new(ErrorReason::InvalidField).field(field, problem)
        }
        EngineError::TaskNeedsNoWorktree { kind } => Answer::new(ErrorReason::TaskNeedsNoWorktree)
            .with("kind", kind)
            .field("kind", &text),
        EngineError::IsolationNotProvisioned { isolation } => {
            Answer::new(ErrorReason::IsolationNotProvisioned)
                .with("isolation", isolation)
                .field("isolation", &text)
        }
        EngineError::HandoffInvalid { problem } => {
            Answer::new(ErrorReason::HandoffInvalid).field("handoff", problem)
        }
        EngineError::BaseNotFound { base } => Answer::new(ErrorReason::BaseNotFound)
            .with("base", base)
            .resource("commit", base, &text),
        EngineError::RepositoryNotFound { path, .. } => {
            Answer::new(ErrorReason::RepositoryNotFound)
                .path("repo", path)
                .resource("repository", &path.to_string_lossy(), &text)
        }
        EngineError::RepositoryUnsupported { path, problem } => {
            Answer::new(ErrorReason::RepositoryUnsupported)
                .path("repo", path)
                .with("detail", problem)
        }
        EngineError::RepositoryOwnerMismatch { path, .. } => {
            Answer::new(ErrorReason::RepositoryOwnerMismatch).path("repo", path)
        }
        EngineError::RepositoryHasNoCommits { path } => {
            Answer::new(ErrorReason::RepositoryHasNoCommits).path("repo", path)
        }
        EngineError::RepositoryIsMirror { path, remote } => {
            Answer::new(ErrorReason::RepositoryIsMirror)
                .path("repo", path)
                .with("remote", remote)
        }
        _ => Answer::new(ErrorReason::Internal),
    }
}

/// What stands in the way in the repository or in the worktree's state.
fn of_branch(error: &EngineError) -> Answer {
    let text = error.to_string();
    match error {
        EngineError::BranchExists {
            branch,
            tip,
            holder,
        } => {
            let answer = Answer::new(ErrorReason::BranchExists)
                .with("branch", branch.as_str())
                .with("tip", tip.as_str())
                .resource("branch", branch.as_str(), &text);
            match holder {
                Some(holder) => answer.path("holder", holder),
                None => answer,
            }
        }
        EngineError::BranchCheckedOut { branch, path } => {
            Answer::new(ErrorReason::BranchCheckedOut)
                .with("branch", branch.as_str())
                .path("path", path)
                .precondition("BRANCH_CHECKED_OUT", branch.as_str(), &text)
        }
        EngineError::BranchNamespaceBlocked { branch } => {
            Answer::new(ErrorReason::BranchNamespaceBlocked)
                .with("branch", branch)
                .precondition("BRANCH_NAMESPACE_BLOCKED", branch, &text)
        }
        EngineError::BranchGone { branch } => Answer::new(ErrorReason::BranchGone)
            .with("branch", branch.as_str())
            .precondition("BRANCH_GONE", branch.as_str(), &text),
        EngineError::BranchMoved {
            branch,
            expected,
            found,
        } => Answer::new(ErrorReason::BranchMoved)
            .with("branch", branch.as_str())
            .with("expected", expected.as_str())
            .with("found", found),
        EngineError::SorFileConflict { path } => Answer::new(ErrorReason::SorFileConflict)
            .with("path", path)
            .precondition("SOR_FILE_CONFLICT", path, &text),
        EngineError::IllegalTransition { from, operation } => {
            Answer::new(ErrorReason::IllegalTransition)
                .with("from", from.as_str())
                .with("operation", operation.as_str())
                .precondition("ILLEGAL_TRANSITION", from.as_str(), &text)
        }
        _ => Answer::new(ErrorReason::Internal),
    }
}

/// What stands in the way in the checkout.
fn of_checkout(error: &EngineError) -> Answer {
    let text = error.to_string();
    match error {
        EngineError::CheckoutAbsent { path } => {
            Answer::new(ErrorReason::CheckoutAbsent).path("path", path)
        }
        EngineError::CheckoutRetargeted { path } => {
            Answer::new(ErrorReason::CheckoutRetargeted).path("path", path)
        }
        EngineError::IdentityMismatch { path } => {
            Answer::new(ErrorReason::IdentityMismatch).path("path", path)
        }
        EngineError::UnsavedWork {
            path, not_saved, ..
        } => not_saved
            .iter()
            .take(MAX_VIOLATIONS)
            .fold(Answer::new(ErrorReason::UnsavedWork), unsaved)
            .path("path", path),
        EngineError::ForeignLock { path, reason } => Answer::new(ErrorReason::ForeignLock)
            .with("lock_reason", reason)
            .path("path", path)
            .precondition("FOREIGN_LOCK", &path.to_string_lossy(), &text),
        EngineError::OperationInProgress { operation, .. } => {
            Answer::new(ErrorReason::OperationInProgress)
                .with("in_progress", operation)
                .precondition("OPERATION_IN_PROGRESS", operation, &text)
        }
        EngineError::NestedRepository { nested, .. } => Answer::new(ErrorReason::NestedRepository)
            .with("path", nested)
            .precondition("NESTED_REPOSITORY", nested, &text),
        EngineError::SubmoduleRepository { submodule, .. } => {
            Answer::new(ErrorReason::SubmoduleRepository)
                .with("path", submodule)
                .precondition("SUBMODULE_REPOSITORY", submodule, &text)
        }
        EngineError::UnrepresentableName { name, .. } => {
            Answer::new(ErrorReason::UnrepresentableName)
                .with("path", name)
                .precondition("UNREPRESENTABLE_NAME", name, &text)
        }
        _ => Answer::new(ErrorReason::Internal),
    }
}

fn unsaved(answer: Answer, not_saved: &NotSaved) -> Answer {
    let reason = super::convert::save::not_saved_reason(not_saved.reason).as_str_name();
    let reason = reason.strip_prefix("NOT_SAVED_REASON_").unwrap_or(reason);
    let problem = format!(
        "{} file(s), {} bytes",
        not_saved.file_count, not_saved.size_bytes
    );
    answer.precondition(reason, &String::from_utf8_lossy(&not_saved.path), &problem)
}

/// The detail of an event that tells of a failure.
pub(crate) fn failed_detail(operation: v1::Operation, error: &Error) -> v1::FailedDetail {
    let status = to_status(error);
    v1::FailedDetail {
        operation: operation as i32,
        reason: reason_of(error) as i32,
        message: status.message().to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::PathBuf;

    use worktree_engine::lifecycle::{Operation, State};

    use super::*;

    fn engine_errors() -> Vec<EngineError> {
        let path = PathBuf::from("/p");
        let branch: worktree_engine::ids::BranchName = "b".parse().unwrap();
        let tip: worktree_engine::ids::CommitId = "0".repeat(40).parse().unwrap();
        vec![
            EngineError::invalid("kind", "is bad"),
            EngineError::TaskNeedsNoWorktree {
                kind: "research".into(),
            },
            EngineError::RepositoryHasNoCommits { path: path.clone() },
            EngineError::BranchExists {
                branch: branch.clone(),
                tip: tip.clone(),
                holder: Some(path.clone()),
            },
            EngineError::BranchGone {
                branch: branch.clone(),
            },
            EngineError::BranchMoved {
                branch,
                expected: tip,
                found: "none".into(),
            },
            EngineError::CheckoutAbsent { path: path.clone() },
            EngineError::DiskFull { path: path.clone() },
            EngineError::Busy {
                path,
                problem: "held".into(),
            },
            EngineError::GitTimeout {
                arguments: "status".into(),
                seconds: 1,
            },
            EngineError::GitFailed {
                arguments: "status".into(),
                exit_code: 128,
                stderr: "fatal".into(),
            },
            EngineError::IllegalTransition {
                from: State::Paused,
                operation: Operation::Checkpoint,
            },
        ]
    }

    #[test]
    fn every_answer_travels_with_the_code_that_the_contract_gives_its_reason() {
        for error in engine_errors() {
            let error = Error::Engine(error);
            let status = to_status(&error);
            let info = status.get_error_details();
            let info = info.error_info().unwrap();
            let reason = policy::parse_wire_reason(&info.reason).unwrap();
            assert_eq!(
                policy::canonical_code(reason),
                Some(status.code() as i32),
                "{error}"
            );
            assert_eq!(info.domain, ERROR_DOMAIN);
        }
    }

    #[test]
    fn an_internal_error_tells_nobody_but_the_log() {
        let status = to_status(&Error::Internal("secret".into()));
        assert!(!status.message().contains("secret"));
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!(info.reason, "INTERNAL");
        assert!(info.metadata.contains_key("trace_id"));
    }

    #[test]
    fn a_held_lease_names_its_holder_and_when_to_try_again() {
        let status = to_status(&Error::LeaseHeld {
            holder: "a".into(),
            runtime: "r".into(),
            expire_time: jiff::Timestamp::UNIX_EPOCH,
            retry_after: Duration::from_secs(7),
        });
        let details = status.get_error_details();
        assert_eq!(
            details.retry_info().unwrap().retry_delay,
            Some(Duration::from_secs(7))
        );
        assert_eq!(details.error_info().unwrap().metadata["holder"], "a");
    }
}
