//! The values that operations take and give; what of them is stored is serialisable.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::ids::{BranchName, CommitId, Namespace, SorDir, TaskId, WorktreeId};

/// Which directory this is, whatever its name: survives renames, and differs for a directory made anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryIdentity {
    /// `f_fsid` of statfs, as hexadecimal digits. Not `st_dev`, which changes over a remount on some filesystems.
    pub filesystem: String,
    /// The inode number.
    pub inode: u64,
    /// The birth time in nanoseconds since the epoch, where the filesystem has one.
    pub birth_nanos: Option<i128>,
}

/// Everything needed to find, save, drop and rebuild one worktree. Stored when made, never derived again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// The row's id.
    pub id: WorktreeId,
    /// The task.
    pub task_id: TaskId,
    /// The namespace it was made with.
    pub namespace: Namespace,
    /// The repository's canonical common directory.
    pub common_dir: PathBuf,
    /// The checkout's directory.
    pub path: PathBuf,
    /// The name of its entry below `<common dir>/worktrees/`.
    pub admin_id: String,
    /// The task's branch.
    pub branch: BranchName,
    /// The branch point.
    pub base_sha: CommitId,
    /// The baseline: the scaffold commit.
    pub base_commit: CommitId,
    /// Where the system of record lives.
    pub sor_dir: SorDir,
    /// The directory as it was made; absent while there is none.
    pub identity: Option<DirectoryIdentity>,
    /// SHA-256 (hex) over the filter definitions seen at provision: filters run only while it is unchanged.
    pub filter_fingerprint: String,
}

impl Checkout {
    /// Its entry below `<common dir>/worktrees/`.
    pub fn admin_dir(&self) -> PathBuf {
        self.common_dir.join("worktrees").join(&self.admin_id)
    }

    /// The ref that keeps the baseline: `refs/<namespace>/base/<id>`.
    pub fn base_ref(&self) -> String {
        format!("refs/{}/base/{}", self.namespace, self.id)
    }
}

/// How work is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaveMode {
    /// A commit on the task's branch, as `git add` would have made it.
    Commit,
    /// A recovery point beside the branch: raw bytes and the index as it is.
    Snapshot,
}

/// Why a path is not in what was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotSavedReason {
    /// Ignored by the rules of the branch point; does not stop a drop.
    Ignored,
    /// Ignored, but on the keep list: stops a drop.
    IgnoredKept,
    /// Could not be read: stops a drop.
    Unreadable,
    /// Over the size cap: stops a drop.
    TooLarge,
    /// A socket, a pipe or a device: stops a drop.
    SpecialFile,
}

impl NotSavedReason {
    /// Whether a destructive step must be forced.
    pub fn stops_a_drop(self) -> bool {
        self != Self::Ignored
    }
}

/// A path (or a whole ignored directory) that was not saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotSaved {
    /// Relative to the checkout, as bytes; a directory stands for all below it.
    pub path: Vec<u8>,
    /// Why.
    pub reason: NotSavedReason,
    /// How many files.
    pub file_count: u64,
    /// Their size together.
    pub size_bytes: u64,
}

/// A recovery point that was pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPoint {
    /// The full ref, `refs/<namespace>/recovery/<uuid>`.
    pub ref_name: String,
    /// The recovery commit.
    pub commit: CommitId,
}

/// Something the caller should know although the operation succeeded. `code` is the contract's `WarningCode` without prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The stable code, such as `SOR_CONVERTED`.
    pub code: String,
    /// The sentence for people.
    pub message: String,
}

impl Warning {
    /// A warning of that code.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

/// What a save did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    /// HEAD after the save.
    pub head: CommitId,
    /// Whether a commit was made on the branch.
    pub committed: bool,
    /// The recovery point pinned: always for a snapshot, for a commit only where it could not hold everything.
    pub recovery_point: Option<RecoveryPoint>,
    /// What was left out.
    pub not_saved: Vec<NotSaved>,
    /// What the caller should know.
    pub warnings: Vec<Warning>,
}

/// Work measured against the baseline, service-made paths left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStat {
    /// Files that differ.
    pub files_changed: u64,
    /// Lines added; 0 for binary files.
    pub insertions: u64,
    /// Lines taken away; 0 for binary files.
    pub deletions: u64,
    /// Whether something is not committed.
    pub dirty: bool,
}

impl DiffStat {
    /// Whether nothing differs from the baseline.
    pub fn is_empty(&self) -> bool {
        self.files_changed == 0
    }
}

/// A directory about to be filled and registered; enough to undo it from any point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaterialisePlan {
    /// The worktree or review to be made (`identity` still absent).
    pub checkout: Checkout,
    /// The refs that this step creates, with their values; undone only while they still have them.
    pub creates_refs: Vec<(String, CommitId)>,
    /// The refs that this step moves: name, new value, old value; moved back only while they have the new one.
    pub moves_refs: Vec<(String, CommitId, CommitId)>,
}

/// A directory about to be dropped after it was saved; enough to finish from any point once it is in the trash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropPlan {
    /// The worktree or review.
    pub checkout: Checkout,
    /// Where its directory is moved until it may be deleted: given by `Engine::new_trash_path`.
    pub trash: PathBuf,
    /// The refs that go with it, and the values that they must still have.
    pub deletes_refs: Vec<(String, CommitId)>,
    /// What the save before it gave.
    pub saved: Saved,
}

/// What is about to be done: handed to the caller for its journal before disk or git are touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Roll back by undoing it, unless it was published.
    Materialise(MaterialisePlan),
    /// Roll forward if the directory has been moved away; else nothing happened.
    Drop(DropPlan),
}

/// How recovery of a [`Step`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// As if it had never begun.
    RolledBack,
    /// As if it had ended well.
    Finished,
}

/// What an operation tells its caller while it runs.
pub trait Observer {
    /// Called before a step touches disk or refs; when it returns the step must be durable. An error stops the operation.
    fn step(&mut self, step: &Step) -> Result<()>;

    /// Called now and then; `total` is 0 where it is not known.
    fn progress(&mut self, stage: &'static str, done: u64, total: u64);
}

/// An observer that keeps nothing: for callers without a journal, who then have no recovery after a crash.
#[derive(Debug, Default, Clone, Copy)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn step(&mut self, _step: &Step) -> Result<()> {
        Ok(())
    }

    fn progress(&mut self, _stage: &'static str, _done: u64, _total: u64) {}
}
