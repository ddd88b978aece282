//! What can go wrong, said so that a caller can act on it: what happened, to what, and what to do next.

use std::path::{Path, PathBuf};

use crate::ids::{BranchName, CommitId, InvalidId};
use crate::lifecycle::{Operation, State};
use crate::model::NotSaved;

/// The engine's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way an operation of the engine ends without its effect. Unless a variant says otherwise nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value from the caller is malformed.
    #[error("{field} {problem}")]
    Invalid {
        /// The field of the request, as the contract spells it.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The task's kind changes no files.
    #[error("a task of kind {kind:?} changes no files and needs no worktree")]
    TaskNeedsNoWorktree {
        /// The kind as given.
        kind: String,
    },
    /// The isolation level is named, never provisioned, by this service.
    #[error("isolation {isolation:?} is not provisioned by this service; ask for \"worktree\"")]
    IsolationNotProvisioned {
        /// The isolation as given.
        isolation: String,
    },
    /// No repository is there.
    #[error("no git repository at {}: {problem}", path.display())]
    RepositoryNotFound {
        /// The path as given.
        path: PathBuf,
        /// Missing, a file, not git.
        problem: String,
    },
    /// The repository has a format, an extension or a damage that the service does not handle.
    #[error("the repository {} cannot be used: {problem}", path.display())]
    RepositoryUnsupported {
        /// The common directory.
        path: PathBuf,
        /// The extension or setting, and what would settle it.
        problem: String,
    },
    /// The common directory belongs to another user (what `safe.directory` guards against).
    #[error("the repository {} belongs to user {owner}, not to the service's user", path.display())]
    RepositoryOwnerMismatch {
        /// The common directory.
        path: PathBuf,
        /// The owner's uid.
        owner: u32,
    },
    /// HEAD is unborn and no base was given.
    #[error("the repository {} has no commits yet; commit once, or name a base", path.display())]
    RepositoryHasNoCommits {
        /// The repository.
        path: PathBuf,
    },
    /// A fetch of this repository would delete the service's refs.
    #[error("the repository {} is a mirror: remote {remote:?} fetches over the service's refs", path.display())]
    RepositoryIsMirror {
        /// The repository.
        path: PathBuf,
        /// The remote whose refspec does so.
        remote: String,
    },
    /// The base does not resolve to a commit.
    #[error("the base {base:?} does not resolve to a commit in this repository")]
    BaseNotFound {
        /// The base as given.
        base: String,
    },
    /// The task's branch is there and is not known to be this task's.
    #[error(
        "the branch {branch} exists at {tip} and is not this task's; rename or delete it, or choose another task id"
    )]
    BranchExists {
        /// The branch.
        branch: BranchName,
        /// Where it points.
        tip: CommitId,
        /// The checkout that has it, if any.
        holder: Option<PathBuf>,
    },
    /// The branch is checked out in another worktree.
    #[error("the branch {branch} is checked out at {}", path.display())]
    BranchCheckedOut {
        /// The branch.
        branch: BranchName,
        /// That checkout.
        path: PathBuf,
    },
    /// A branch named like the namespace makes every branch below it impossible.
    #[error("the branch {branch} stands where the service's branches have to go; rename it")]
    BranchNamespaceBlocked {
        /// The blocking branch.
        branch: String,
    },
    /// The task's branch was deleted by somebody.
    #[error("the branch {branch} is gone; recreate it at the wanted commit to resume")]
    BranchGone {
        /// The branch.
        branch: BranchName,
    },
    /// The branch is not where it was when the operation began.
    #[error("the branch {branch} moved from {expected} to {found} during the operation")]
    BranchMoved {
        /// The branch.
        branch: BranchName,
        /// Where it was.
        expected: CommitId,
        /// Where it is now, or `none`.
        found: String,
    },
    /// The base tracks a file that the system of record needs.
    #[error(
        "the base already has {path:?}; set sor_dir to a directory of its own, such as \".task\""
    )]
    SorFileConflict {
        /// The path in the base tree.
        path: String,
    },
    /// There is no checkout to act on.
    #[error("there is no checkout at {}; acquire a lease or resume to rebuild it", path.display())]
    CheckoutAbsent {
        /// Where it would be.
        path: PathBuf,
    },
    /// The `.git` file of the checkout is not the one that the service wrote.
    #[error("{} no longer points to its own registration; put its `.git` file back or remove the worktree by hand", path.display())]
    CheckoutRetargeted {
        /// The checkout.
        path: PathBuf,
    },
    /// Another directory stands where the checkout was.
    #[error("{} is not the directory that was provisioned there", path.display())]
    IdentityMismatch {
        /// The path.
        path: PathBuf,
    },
    /// The step would lose something.
    #[error("{total} path(s) in {} are not saved, the first is {first:?}", path.display())]
    UnsavedWork {
        /// The checkout.
        path: PathBuf,
        /// The first of them, for the message.
        first: String,
        /// How many there are.
        total: usize,
        /// All of them, collapsed.
        not_saved: Vec<NotSaved>,
    },
    /// Somebody else locked the worktree.
    #[error("{} is locked by somebody else: {reason:?}", path.display())]
    ForeignLock {
        /// The checkout.
        path: PathBuf,
        /// The lock's reason.
        reason: String,
    },
    /// A rebase, merge, cherry-pick, revert, bisect or `git am` is in progress.
    #[error("a {operation} is in progress in {}; finish or abort it first", path.display())]
    OperationInProgress {
        /// The checkout.
        path: PathBuf,
        /// Which one.
        operation: String,
    },
    /// The checkout holds another repository.
    #[error("{nested:?} in {} is a repository of its own; move it out first", path.display())]
    NestedRepository {
        /// The checkout.
        path: PathBuf,
        /// The inner path.
        nested: String,
    },
    /// The checkout holds the repository of a submodule.
    #[error("{submodule:?} in {} is a submodule with a repository; deinitialise it first", path.display())]
    SubmoduleRepository {
        /// The checkout.
        path: PathBuf,
        /// The submodule.
        submodule: String,
    },
    /// A file has a name that git cannot hold in a tree.
    #[error("{name:?} in {} is a name that git refuses; rename it", path.display())]
    UnrepresentableName {
        /// The checkout.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// Something changed or is held while we worked; trying again can succeed.
    #[error("{} is busy: {problem}", path.display())]
    Busy {
        /// What is busy.
        path: PathBuf,
        /// By what.
        problem: String,
    },
    /// The disk (or a quota) is full.
    #[error("no space left for {}", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// The handoff is not acceptable.
    #[error("the handoff is not acceptable: {problem}")]
    HandoffInvalid {
        /// What is wrong, naming the field.
        problem: String,
    },
    /// git is missing or older than the minimum.
    #[error("git {found} cannot be used: at least {minimum} is needed")]
    GitTooOld {
        /// The version found, or why none was.
        found: String,
        /// The minimum.
        minimum: &'static str,
    },
    /// A git command did not end in time and was stopped with its children.
    #[error("git {arguments} did not end within {seconds} s and was stopped")]
    GitTimeout {
        /// The arguments.
        arguments: String,
        /// The deadline.
        seconds: u64,
    },
    /// A git command failed in a way that has no name of its own.
    #[error("git {arguments} failed with exit code {exit_code}: {stderr}")]
    GitFailed {
        /// The arguments.
        arguments: String,
        /// The exit code, or `128 + signal`.
        exit_code: i32,
        /// The tail of standard error.
        stderr: String,
    },
    /// The state does not allow the operation.
    #[error("{operation} is not possible in state {from}")]
    IllegalTransition {
        /// The state.
        from: State,
        /// The operation.
        operation: Operation,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, such as `read`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// An invariant does not hold; a fault of the service or a damaged repository.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// Wraps an I/O error; a full disk gets its own variant, because the caller can do something about it.
    pub fn io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::DiskFull {
                path: path.to_owned(),
            },
            _ => Self::Io {
                action,
                path: path.to_owned(),
                source,
            },
        }
    }

    /// An invalid field of a request.
    pub fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Invalid {
            field,
            problem: problem.into(),
        }
    }
}

impl From<InvalidId> for Error {
    fn from(invalid: InvalidId) -> Self {
        let field = match invalid.what {
            "task id" => "key.task_id",
            "object id" => "base_sha",
            "sor_dir" => "sor_dir",
            "namespace" => "namespace",
            _ => "branch",
        };
        Self::Invalid {
            field,
            problem: invalid.to_string(),
        }
    }
}
