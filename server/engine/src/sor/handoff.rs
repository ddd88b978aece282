//! The values of a handoff.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// The version of the file that this service writes.
pub const SCHEMA_VERSION: u32 = 1;

/// What one runtime tells the next; the twin of `AGENT_HANDOFF.json`. As JSON it has the form of the file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "Value")]
pub struct Handoff {
    /// Who hands off. Required.
    pub handoff_from: String,
    /// The runtime that hands off: any executor id, or `human`. Required.
    pub runtime: String,
    /// When, in ISO 8601; another form is kept as it is. Empty if the file does not say.
    pub timestamp: String,
    /// What is done.
    pub completed_subtasks: Vec<String>,
    /// What is broken, or done and not verified.
    pub broken_or_unverified: Vec<String>,
    /// What to do next; empty if nobody said.
    pub next_best_step: String,
    /// Why the work cannot go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_blocked: Option<String>,
    /// How the checkout is brought to life.
    pub commands: Commands,
    /// What the agent claims to have seen.
    pub evidence: Evidence,
    /// What the next runtime should beware of.
    pub warnings: Vec<String>,
    /// The session in the runtime's own terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_session_id: Option<String>,
    /// How far the runtime had read in a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_cursor: Option<RoomCursor>,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The version of the file's schema; 0 if the file does not say.
    #[serde(skip_serializing_if = "is_zero")]
    pub schema_version: u32,
    /// Who wrote it. What a file says here is a claim like the rest of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<HandoffOrigin>,
    /// What the service saw itself. In a file that a runtime wrote this too is only a claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed: Option<HandoffObserved>,
    /// Keys that are not known, kept as they are.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn is_zero(version: &u32) -> bool {
    *version == 0
}

/// The shell commands that bring a checkout to life; an empty one is not given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Commands {
    /// Prepares the checkout.
    pub init: String,
    /// Checks the work.
    pub verify: String,
    /// Starts what is being built.
    pub start: String,
    /// Keys that are not known.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// What the agent claims to have seen, in its own words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Evidence {
    /// The outcome of the tests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub test_results: Option<String>,
    /// The outcome of the linters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lint_results: Option<String>,
    /// Keys that are not known.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// How far a runtime had read in a conversation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomCursor {
    /// The room.
    pub room_id: String,
    /// The last message seen, counted by the room; never negative.
    pub last_seen_seq: i64,
    /// Keys that are not known.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Who wrote a handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HandoffOrigin {
    /// A runtime, through the service or by writing the file itself.
    Agent,
    /// The service, for a runtime that went away without one.
    Service,
}

/// What the service saw itself when the handoff was recorded, kept apart from what the agent claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HandoffObserved {
    /// HEAD of the checkout.
    pub head: String,
    /// The commits from the baseline to HEAD.
    pub commits_since_baseline: u64,
    /// Files that differ from the baseline.
    pub files_changed: u64,
    /// Lines added.
    pub insertions: u64,
    /// Lines taken away.
    pub deletions: u64,
    /// Whether something is not committed.
    pub dirty: bool,
    /// How many paths are not committed, those that are not listed included.
    #[serde(default)]
    pub dirty_path_count: u64,
    /// The first of the paths that are not committed.
    #[serde(default)]
    pub dirty_paths: Vec<RepositoryPath>,
}

/// A path inside a repository. git has bytes and JSON has text: a path that is not UTF-8 stands in JSON as a list of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RepositoryPath {
    /// A path that is text.
    Text(String),
    /// Any other.
    Bytes(Vec<u8>),
}

impl From<Vec<u8>> for RepositoryPath {
    fn from(path: Vec<u8>) -> Self {
        String::from_utf8(path).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }
}

impl RepositoryPath {
    /// The path as git has it.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The top-level keys that have a field of their own.
pub(super) const KNOWN: [&str; 16] = [
    "handoffFrom",
    "runtime",
    "timestamp",
    "completedSubtasks",
    "brokenOrUnverified",
    "nextBestStep",
    "whyBlocked",
    "commands",
    "evidence",
    "warnings",
    "nativeSessionId",
    "roomCursor",
    "taskId",
    "schemaVersion",
    "origin",
    "observed",
];

impl Handoff {
    /// Refuses a handoff that does not say who hands off, or that could not be read back.
    pub fn validate(&self) -> Result<()> {
        let refuse = |problem: &str| {
            Err(Error::HandoffInvalid {
                problem: problem.to_owned(),
            })
        };
        if self.handoff_from.trim().is_empty() {
            return refuse("handoff_from is required");
        }
        if self.runtime.trim().is_empty() {
            return refuse("runtime is required");
        }
        if self
            .room_cursor
            .as_ref()
            .is_some_and(|cursor| cursor.last_seen_seq < 0)
        {
            return refuse("room_cursor.last_seen_seq must not be negative");
        }
        match self.extra.keys().find(|key| KNOWN.contains(&key.as_str())) {
            Some(key) => refuse(&format!(
                "extra_json must not hold {key:?}, which has a field of its own"
            )),
            None => Ok(()),
        }
    }

    /// Everything that has no field, as one JSON object; unknown keys of `commands`, `evidence` and `roomCursor` stand in objects of
    /// that name. Empty if there is none.
    pub fn extra_json(&self) -> String {
        let mut all = self.extra.clone();
        let cursor = self.room_cursor.as_ref().map(|cursor| &cursor.extra);
        let nested = [
            ("commands", Some(&self.commands.extra)),
            ("evidence", Some(&self.evidence.extra)),
            ("roomCursor", cursor),
        ];
        for (name, extra) in nested {
            if let Some(extra) = extra.filter(|extra| !extra.is_empty()) {
                all.insert(name.to_owned(), Value::Object(extra.clone()));
            }
        }
        if all.is_empty() {
            String::new()
        } else {
            Value::Object(all).to_string()
        }
    }

    /// Takes what [`extra_json`](Self::extra_json) gave. A key that has a field of its own is refused: it would say another thing than
    /// the field does.
    pub fn set_extra_json(&mut self, text: &str) -> Result<()> {
        let refuse = |problem: String| Error::HandoffInvalid { problem };
        let mut all = match text.trim() {
            "" => Map::new(),
            text => serde_json::from_str::<Map<String, Value>>(text)
                .map_err(|error| refuse(format!("extra_json is not a JSON object: {error}")))?,
        };
        let mut nested = |name: &str, own: &[&str]| match all.remove(name) {
            None => Ok(Map::new()),
            Some(Value::Object(extra)) if !extra.keys().any(|key| own.contains(&key.as_str())) => {
                Ok(extra)
            }
            Some(_) => Err(refuse(format!(
                "extra_json must not hold {name:?} but for keys unknown there"
            ))),
        };
        let commands = nested("commands", &["init", "verify", "start"])?;
        let evidence = nested("evidence", &["testResults", "lintResults"])?;
        let cursor = nested("roomCursor", &["roomId", "lastSeenSeq"])?;
        if let Some(key) = all.keys().find(|key| KNOWN.contains(&key.as_str())) {
            return Err(refuse(format!(
                "extra_json must not hold {key:?}, which has a field of its own"
            )));
        }
        match &mut self.room_cursor {
            Some(room) => room.extra = cursor,
            None if cursor.is_empty() => {}
            None => {
                return Err(refuse(
                    "extra_json holds \"roomCursor\" without a room_cursor".to_owned(),
                ));
            }
        }
        self.commands.extra = commands;
        self.evidence.extra = evidence;
        self.extra = all;
        Ok(())
    }
}
