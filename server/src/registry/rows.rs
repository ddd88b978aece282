//! What the registry keeps, in the words of the domain.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use worktree_engine::{
    ids::{CommitId, LeaseEpoch, TaskId, WorktreeId},
    lifecycle::{Operation, State},
    model::{Checkout, RecoveryPoint},
};

/// How a worktree came to be the service's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The service made it.
    Created,
    /// It was there, and was taken over.
    Adopted,
}

impl Origin {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Adopted => "ADOPTED",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Created, Self::Adopted]
            .into_iter()
            .find(|origin| origin.as_str() == name)
    }
}

/// The process of a lease's holder, where it told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderProcess {
    /// Its process id.
    pub pid: i64,
    /// When it started, in clock ticks since boot: tells it from a later process of the same id.
    pub start_ticks: u64,
    /// Its host.
    pub host: String,
}

/// The right to write in a worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub holder: String,
    /// The holder's runtime.
    pub runtime: String,
    /// The fencing token.
    pub epoch: LeaseEpoch,
    /// How long it lives without a renewal.
    pub ttl: Duration,
    /// When it was acquired.
    pub acquire_time: Timestamp,
    /// When it ends, by the server's clock.
    pub expire_time: Timestamp,
    /// The holder's process, where known.
    pub holder_process: Option<HolderProcess>,
}

impl Lease {
    /// Whether it is live at that time.
    pub fn is_live(&self, now: Timestamp) -> bool {
        now < self.expire_time
    }
}

/// One worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorktreeRow {
    /// Where it is, and what it was made of.
    pub checkout: Checkout,
    /// The repository as replies spell it.
    pub repo: String,
    /// The repository's id.
    pub repo_id: String,
    /// A name for people.
    pub display_name: String,
    /// What the base was given as.
    pub base_ref: String,
    /// HEAD as of the last operation.
    pub head: Option<CommitId>,
    /// The committer time of that commit, in seconds since the epoch.
    pub head_time: Option<i64>,
    /// Where it stands.
    pub state: State,
    /// What is being done to it.
    pub pending_operation: Option<Operation>,
    /// The task's kind.
    pub kind: String,
    /// The isolation level.
    pub isolation: String,
    /// How it came to be.
    pub origin: Origin,
    /// Kind and id of the owner.
    pub owner: Option<(String, String)>,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// The host that its directory is on.
    pub host_id: String,
    /// The version as it was read; 0 for a row not stored yet. A commit stores it one higher.
    pub version: i64,
    /// When the row was made.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// The last mutation or lease call.
    pub last_active_time: Timestamp,
    /// The lease, live or not swept yet.
    pub lease: Option<Lease>,
    /// The highest epoch given out.
    pub last_epoch: u64,
    /// What a resume has to put back.
    pub restore: Option<RecoveryPoint>,
    /// Whether a removal counted the task as done.
    pub task_completed: bool,
    /// Whether the branch was made by this service.
    pub owns_branch: bool,
}

impl WorktreeRow {
    /// The row's id.
    pub fn id(&self) -> WorktreeId {
        self.checkout.id
    }

    /// The task.
    pub fn task_id(&self) -> &TaskId {
        &self.checkout.task_id
    }

    /// The etag of the row as it stands.
    pub fn etag(&self) -> String {
        format!("{:x}", self.version)
    }

    /// The row as a commit will store it: what an event of that commit shows.
    pub fn as_committed(&self) -> Self {
        Self {
            version: self.version + 1,
            ..self.clone()
        }
    }

    /// The lease if it is live at that time.
    pub fn live_lease(&self, now: Timestamp) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.is_live(now))
    }
}

/// One repository, as first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryRow {
    /// The id, computed once.
    pub repo_id: String,
    /// The canonical common directory.
    pub common_dir: String,
    /// The path as replies spell it.
    pub path: String,
    /// The URL of `origin` at first sight.
    pub origin_url: Option<String>,
}

/// An event to be appended. The registry gives it its sequence and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// The number of the contract's `EventKind`.
    pub kind: i32,
    /// The repository's id; empty where none is concerned.
    pub repo_id: String,
    /// The task; empty where none is concerned.
    pub task_id: String,
    /// The encoded `worktree.v1.Event` without position, sequence and time.
    pub payload: Vec<u8>,
}

/// An event of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its number: one more than that of the event before it.
    pub sequence: i64,
    /// When it was committed.
    pub time: Timestamp,
    /// The number of the contract's `EventKind`.
    pub kind: i32,
    /// The repository's id; empty where none is concerned.
    pub repo_id: String,
    /// The task; empty where none is concerned.
    pub task_id: String,
    /// The encoded `worktree.v1.Event` without position, sequence and time.
    pub payload: Vec<u8>,
}

/// An operation on its way: stands in the journal until it is finished or undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its id.
    pub id: Uuid,
    /// The worktree, where there is one.
    pub worktree_id: Option<WorktreeId>,
    /// What is being done, in the lifecycle's own word.
    pub operation: String,
    /// All that a restart needs, as JSON.
    pub payload: serde_json::Value,
}

/// What becomes of the journal in a commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum JournalChange {
    /// Nothing.
    #[default]
    None,
    /// The entry is added, or replaced by this one.
    Put(JournalEntry),
    /// The entry is finished.
    End(Uuid),
}

/// Whose answer, and to what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplyKey {
    /// Who asked.
    pub principal: String,
    /// The full name of the RPC.
    pub method: String,
    /// The caller's id of the request.
    pub request_id: Uuid,
}

/// A remembered answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReply {
    /// Whose.
    pub key: ReplyKey,
    /// The digest of the request: the same id with another request is refused.
    pub request_digest: Vec<u8>,
    /// The encoded response.
    pub response: Vec<u8>,
}

/// Who wrote a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffOrigin {
    /// It came through the service.
    Service,
    /// The agent wrote the file.
    Agent,
}

impl HandoffOrigin {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Service => "SERVICE",
            Self::Agent => "AGENT",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Service, Self::Agent]
            .into_iter()
            .find(|origin| origin.as_str() == name)
    }
}

/// A handoff to be recorded; its number is the next one of the worktree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewHandoff {
    /// The worktree.
    pub worktree_id: WorktreeId,
    /// Who wrote it.
    pub origin: HandoffOrigin,
    /// The digest of the file: tells whether a file was recorded already.
    pub digest: String,
    /// The handoff as JSON.
    pub handoff: String,
}

/// A recorded handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandoffRow {
    /// Its number in the worktree's history, from 1.
    pub number: i64,
    /// When it was recorded.
    pub create_time: Timestamp,
    /// The rest.
    pub handoff: NewHandoff,
}

/// A reviewer's checkout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewRow {
    /// Its directory; its id is the review's id.
    pub checkout: Checkout,
    /// The repository as replies spell it.
    pub repo: String,
    /// The repository's id.
    pub repo_id: String,
    /// The task; empty for a review of a bare commit.
    pub task_id: String,
    /// The worktree, where there is one.
    pub worktree_id: Option<WorktreeId>,
    /// What is reviewed.
    pub sha: CommitId,
    /// Who reviews.
    pub reviewer: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it ends.
    pub expire_time: Timestamp,
}

/// What becomes of a review in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewChange {
    /// It is there.
    Put(Box<ReviewRow>),
    /// It is gone.
    Remove(WorktreeId),
}

/// A pinned recovery point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryPointRow {
    /// The ref and its commit.
    pub point: RecoveryPoint,
    /// The repository's id.
    pub repo_id: String,
    /// The worktree or review that it was made of.
    pub worktree_id: Option<WorktreeId>,
    /// Why it was pinned, in the lifecycle's own word.
    pub operation: String,
    /// When.
    pub create_time: Timestamp,
}

/// All that one commit changes: everything, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Rows to insert (version 0) or to update (the version as read).
    pub rows: Vec<WorktreeRow>,
    /// Events, in their order.
    pub events: Vec<NewEvent>,
    /// The journal.
    pub journal: JournalChange,
    /// The answer to remember.
    pub reply: Option<StoredReply>,
    /// The handoff to record.
    pub handoff: Option<NewHandoff>,
    /// Recovery points that were pinned.
    pub recovery_points: Vec<RecoveryPointRow>,
    /// Reviews made or removed.
    pub reviews: Vec<ReviewChange>,
    /// The repository, where it is seen for the first time.
    pub repository: Option<RepositoryRow>,
}

/// What a commit made of a [`Change`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed {
    /// The rows with their new versions.
    pub rows: Vec<WorktreeRow>,
    /// The events with their sequences.
    pub events: Vec<StoredEvent>,
    /// The number of the recorded handoff.
    pub handoff_number: Option<i64>,
}

/// Which worktrees a list is of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorktreeQuery {
    /// Only of this repository (by id).
    pub repo_id: Option<String>,
    /// Only in these states; empty: all that are not terminal.
    pub states: Vec<State>,
    /// Only those after this id.
    pub after: Option<WorktreeId>,
    /// How many at most.
    pub limit: usize,
}
