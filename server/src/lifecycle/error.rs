//! What can stop an operation of the service, on top of what can stop the engine.

use std::time::Duration;

use jiff::Timestamp;
use worktree_engine::ids::InvalidId;

use crate::registry;

/// The result of an operation of the service.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of the service ended without its effect.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The engine refused or failed.
    #[error(transparent)]
    Engine(#[from] worktree_engine::Error),
    /// The registry failed.
    #[error("the registry cannot be used: {0}")]
    Registry(#[source] registry::Error),
    /// A field of the request is missing or malformed.
    #[error("{field} {problem}")]
    Invalid {
        /// Its path, as the contract spells it.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The page token was not given out for this request.
    #[error("page_token is not one that this request was answered with")]
    PageTokenInvalid,
    /// The contract names it and this version does not do it.
    #[error("{feature} is not implemented by this version")]
    NotImplemented {
        /// What.
        feature: &'static str,
    },
    /// The repository is neither configured nor under an allowed root.
    #[error("the repository {repo:?} is not allowed: {hint}")]
    RepositoryNotAllowed {
        /// As the caller spelled it: what it leads to is not told.
        repo: String,
        /// How an operator allows it.
        hint: String,
    },
    /// No configured repository has that name.
    #[error("no repository is configured under the name {name:?}, and it is not an absolute path")]
    RepositoryUnknown {
        /// The name.
        name: String,
    },
    /// No worktree has this key.
    #[error("task {task:?} has no worktree in {repo:?}")]
    WorktreeNotFound {
        /// The repository.
        repo: String,
        /// The task.
        task: String,
    },
    /// No worktree has this id.
    #[error("no worktree has the id {id:?}")]
    WorktreeIdNotFound {
        /// The id.
        id: String,
    },
    /// No review has this id.
    #[error("no review has the id {id:?}")]
    ReviewNotFound {
        /// The id.
        id: String,
    },
    /// A lease is live, and it is not the caller's.
    #[error("{holder:?} holds the lease until {expire_time}; wait, or take it over with a reason")]
    LeaseHeld {
        /// The holder.
        holder: String,
        /// Its runtime.
        runtime: String,
        /// When the lease ends unless renewed.
        expire_time: Timestamp,
        /// How long that is from now.
        retry_after: Duration,
    },
    /// The epoch is not that of the live lease.
    #[error(
        "epoch {given} is not that of a live lease: it has expired, was released or taken over"
    )]
    LeaseFenced {
        /// The epoch given.
        given: u64,
        /// Holder and epoch of the live lease.
        live: Option<(String, u64)>,
    },
    /// The worktree changed since the etag was read.
    #[error("the worktree changed; its etag is {etag:?} now")]
    EtagMismatch {
        /// The etag now.
        etag: String,
    },
    /// Another operation did not end within the lock wait.
    #[error("{what} is busy with another operation")]
    Busy {
        /// What is busy.
        what: String,
    },
    /// Too many operations wait.
    #[error("too many operations wait")]
    QueueFull,
    /// Too many watchers.
    #[error("no more than {limit} watchers at a time")]
    TooManyWatchers {
        /// The limit.
        limit: usize,
    },
    /// The id was used for another request.
    #[error("request_id {id} was used before with another request of {method}")]
    RequestIdReused {
        /// The id.
        id: String,
        /// The method.
        method: &'static str,
    },
    /// The events after the position are gone.
    #[error("the events after this position are no longer kept; read the state anew")]
    EventsCompacted {
        /// The oldest sequence that is kept.
        oldest: i64,
    },
    /// The position is of another log, or in the future.
    #[error("the position is not one of this log")]
    PositionUnknown,
    /// The server shuts down.
    #[error("the server is shutting down")]
    Draining {
        /// The last position of a watch.
        position: Option<String>,
    },
    /// A fault of the service.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// A field that is not as it should be.
    pub(crate) fn invalid(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// An identifier that is not as it should be, in the field `field`.
    pub(crate) fn invalid_id(field: impl Into<String>, invalid: &InvalidId) -> Self {
        Self::invalid(field, invalid.to_string())
    }
}

impl From<registry::Error> for Error {
    fn from(error: registry::Error) -> Self {
        Self::Registry(error)
    }
}
