//! Identifiers that cannot hold nonsense: each is checked once, at the door, and trusted afterwards.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a string is not the identifier it was given as.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {value:?} {problem}")]
pub struct InvalidId {
    /// The kind of identifier, such as `task id`.
    pub what: &'static str,
    /// The refused value, cut to 64 characters.
    pub value: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl InvalidId {
    fn new(what: &'static str, value: &str, problem: &'static str) -> Self {
        Self {
            what,
            value: value.chars().take(64).collect(),
            problem,
        }
    }
}

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(value: String) -> Result<Self, InvalidId> {
                value.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    };
}

string_id! {
    /// A task's id, owned by the caller: `[A-Za-z0-9][A-Za-z0-9._-]{0,127}` that is also a legal last part of a ref.
    TaskId
}

impl std::str::FromStr for TaskId {
    type Err = InvalidId;

    fn from_str(value: &str) -> Result<Self, InvalidId> {
        let refuse = |problem| Err(InvalidId::new("task id", value, problem));
        let bytes = value.as_bytes();
        match bytes {
            [] => return refuse("is empty"),
            [first, ..] if !first.is_ascii_alphanumeric() => {
                return refuse("must start with a letter or a digit");
            }
            _ => {}
        }
        if bytes.len() > 128 {
            return refuse("is longer than 128 characters");
        }
        if !bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
        {
            return refuse("may hold only letters, digits, `.`, `_` and `-`");
        }
        // git refuses these three as refs (git-check-ref-format(1)); a branch could never be made.
        if value.contains("..")
            || value.ends_with('.')
            || value.to_ascii_lowercase().ends_with(".lock")
        {
            return refuse("must not hold `..`, nor end in `.` or `.lock`");
        }
        Ok(Self(value.to_owned()))
    }
}

string_id! {
    /// A full object id: 40 (SHA-1) or 64 (SHA-256) lowercase hexadecimal digits.
    CommitId
}

impl std::str::FromStr for CommitId {
    type Err = InvalidId;

    fn from_str(value: &str) -> Result<Self, InvalidId> {
        let hex = value
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && matches!(value.len(), 40 | 64) {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidId::new(
                "object id",
                value,
                "is not 40 or 64 lowercase hexadecimal digits",
            ))
        }
    }
}

impl CommitId {
    /// The all-zero id of the same length: `update-ref`'s word for "does not exist".
    pub fn zero(&self) -> String {
        "0".repeat(self.0.len())
    }
}

string_id! {
    /// The prefix of branches, commit messages and private refs: `[a-z0-9][a-z0-9-]{0,31}`.
    Namespace
}

impl std::str::FromStr for Namespace {
    type Err = InvalidId;

    fn from_str(value: &str) -> Result<Self, InvalidId> {
        let legal = value
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        // `refs/<namespace>/` must never be one of git's own directories.
        let taken = matches!(
            value,
            "heads"
                | "tags"
                | "remotes"
                | "notes"
                | "stash"
                | "replace"
                | "bisect"
                | "worktree"
                | "rewritten"
        );
        if legal && !value.is_empty() && value.len() <= 32 && !value.starts_with('-') && !taken {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidId::new(
                "namespace",
                value,
                "must be 1 to 32 of a-z, 0-9 and `-`, not start with `-`, and not be a ref directory of git's own",
            ))
        }
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self("clawboo".to_owned())
    }
}

string_id! {
    /// A branch without `refs/heads/`, such as `clawboo/task-t1`.
    BranchName
}

impl std::str::FromStr for BranchName {
    type Err = InvalidId;

    fn from_str(value: &str) -> Result<Self, InvalidId> {
        let legal = gix::validate::reference::name_partial(value.into()).is_ok();
        if legal && !value.starts_with('-') && value.len() <= 255 {
            Ok(Self(value.to_owned()))
        } else {
            Err(InvalidId::new(
                "branch",
                value,
                "is not a legal branch name",
            ))
        }
    }
}

impl BranchName {
    /// The full ref, `refs/heads/<branch>`.
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

/// The branch of a task: `<namespace>/task-<id>`.
pub fn branch_name_for_task(namespace: &Namespace, task: &TaskId) -> BranchName {
    BranchName(format!("{namespace}/task-{task}"))
}

string_id! {
    /// Where the system of record lives, relative to the checkout: empty for its root, else one to four plain segments.
    SorDir
}

impl std::str::FromStr for SorDir {
    type Err = InvalidId;

    fn from_str(value: &str) -> Result<Self, InvalidId> {
        if value.is_empty() || value == "." {
            return Ok(Self(String::new()));
        }
        let refuse = |problem| Err(InvalidId::new("sor_dir", value, problem));
        let segments: Vec<&str> = value.split('/').collect();
        if segments.len() > 4 {
            return refuse("has more than four segments");
        }
        for segment in segments {
            let plain = segment
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
            if segment.is_empty()
                || segment.len() > 64
                || !plain
                || segment.bytes().all(|b| b == b'.')
            {
                return refuse("must be plain segments of letters, digits, `.`, `_` and `-`");
            }
            if segment.to_ascii_lowercase().starts_with(".git") || segment.starts_with('-') {
                return refuse("must not have a segment that starts with `.git` or `-`");
            }
        }
        Ok(Self(value.to_owned()))
    }
}

impl SorDir {
    /// The path of the file `name` relative to the checkout's root, with `/` between segments.
    pub fn join(&self, name: &str) -> String {
        if self.0.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.0)
        }
    }
}

/// The fencing token of a lease: starts at 1 and only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LeaseEpoch(pub u64);

/// The id of a worktree row, a UUIDv7.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorktreeId(pub uuid::Uuid);

impl WorktreeId {
    /// Makes a new id; ids made later sort later.
    pub fn new() -> Self {
        Self(uuid::Uuid::now_v7())
    }
}

impl Default for WorktreeId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for WorktreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e8_unsafe_task_ids_are_refused() {
        let bad = [
            "", ".", "..", "a..b", "a.lock", "A.LOCK", "a.", "-a", ".a", "_a", "a/b", "/a", "a\\b",
            "a b", "a\n", "a\0", "a~1", "a^", "a:b", "a?", "a*", "a[", "@{", "ä", "a@{u}", "../x",
        ];
        for id in bad {
            assert!(id.parse::<TaskId>().is_err(), "{id:?}");
        }
        assert!("x".repeat(129).parse::<TaskId>().is_err());
        for id in ["t1", "T-1_a.b", &"x".repeat(128)] {
            assert!(id.parse::<TaskId>().is_ok(), "{id:?}");
        }
    }

    #[test]
    fn sor_dir_takes_plain_segments_only() {
        for bad in [
            "/a",
            "a//b",
            "..",
            "a/../b",
            "a/b/c/d/e",
            ".git",
            ".GIT/x",
            "a b",
            "-x",
            ".gitmodules",
        ] {
            assert!(bad.parse::<SorDir>().is_err(), "{bad:?}");
        }
        for good in ["", ".", ".task", "a/b/c/d"] {
            assert!(good.parse::<SorDir>().is_ok(), "{good:?}");
        }
    }
}
