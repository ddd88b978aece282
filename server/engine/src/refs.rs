//! Refs change in one place: one transaction of `git update-ref`, each edit with the value it expects to find.

use std::path::Path;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{GitCommand, GitDir};
use crate::ids::CommitId;
use crate::registration::RepositoryLock;

/// One compare-and-swap on a ref. Symbolic refs are never followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefEdit {
    name: String,
    edit: Edit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Edit {
    Create(CommitId),
    Update { new: CommitId, old: CommitId },
    Delete(CommitId),
}

impl RefEdit {
    /// Makes a ref that must not exist.
    pub fn create(name: &str, value: &CommitId) -> Self {
        Self {
            name: name.to_owned(),
            edit: Edit::Create(value.clone()),
        }
    }

    /// Moves a ref that must be at `old`.
    pub fn update(name: &str, new: &CommitId, old: &CommitId) -> Self {
        Self {
            name: name.to_owned(),
            edit: Edit::Update {
                new: new.clone(),
                old: old.clone(),
            },
        }
    }

    /// Deletes a ref that must be at `old`.
    pub fn delete(name: &str, old: &CommitId) -> Self {
        Self {
            name: name.to_owned(),
            edit: Edit::Delete(old.clone()),
        }
    }

    fn spell(&self, input: &mut Vec<u8>) {
        let (verb, values) = match &self.edit {
            Edit::Create(value) => ("create", vec![value]),
            Edit::Update { new, old } => ("update", vec![new, old]),
            Edit::Delete(old) => ("delete", vec![old]),
        };
        input.extend_from_slice(format!("{verb} {}\0", self.name).as_bytes());
        for value in values {
            input.extend_from_slice(value.as_str().as_bytes());
            input.push(0);
        }
    }
}

impl Engine {
    /// Applies all edits or none, under the repository's lock.
    pub fn update_refs(&self, common_dir: &Path, edits: &[RefEdit]) -> Result<()> {
        let lock = self.lock_repository(common_dir)?;
        self.update_refs_locked(&lock, common_dir, edits)
    }

    /// The same for a caller who has the lock already.
    pub(crate) fn update_refs_locked(
        &self,
        _lock: &RepositoryLock,
        common_dir: &Path,
        edits: &[RefEdit],
    ) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let mut input = Vec::new();
        for edit in edits {
            edit.spell(&mut input);
        }
        let command = GitCommand::new(Some(&GitDir::bare(common_dir)))
            .args(["-c", "core.fsync=all", "-c", "core.logAllRefUpdates=true"])
            .args(["update-ref", "--no-deref", "--stdin", "-z"])
            .stdin(input);
        match self.git().run(command) {
            Ok(_) => Ok(()),
            Err(Error::GitFailed {
                arguments,
                exit_code,
                stderr,
            }) => Err(refused(common_dir, edits, arguments, exit_code, stderr)),
            Err(error) => Err(error),
        }
    }
}

/// What git's words mean. They are read under `LC_ALL=C`; what is not understood stays what it is.
fn refused(
    common_dir: &Path,
    edits: &[RefEdit],
    arguments: String,
    exit_code: i32,
    stderr: String,
) -> Error {
    let between = |start: &str, end: &str| {
        let (_, rest) = stderr.split_once(start)?;
        rest.split_once(end).map(|(found, _)| found.to_owned())
    };
    if let Some(blocking) = between("fatal: ", "' exists; cannot create")
        .or_else(|| between(": '", "' exists; cannot create"))
    {
        let blocking = blocking.rsplit('\'').next().unwrap_or_default();
        return Error::BranchNamespaceBlocked {
            branch: blocking.trim_start_matches("refs/heads/").to_owned(),
        };
    }
    let moved = edits.iter().find(|edit| stderr.contains(&edit.name));
    let found = between("is at ", " but expected");
    let gone = stderr.contains("unable to resolve reference") || stderr.contains("doesn't exist");
    if let (Some(edit), true) = (moved, found.is_some() || gone)
        && let Some(branch) = edit.name.strip_prefix("refs/heads/")
        && let (Ok(branch), Edit::Update { old, .. } | Edit::Delete(old)) =
            (branch.parse(), &edit.edit)
    {
        return Error::BranchMoved {
            branch,
            expected: old.clone(),
            found: found.unwrap_or_else(|| "none".to_owned()),
        };
    }
    if stderr.contains("Unable to create") && stderr.contains("File exists") {
        return Error::Busy {
            path: common_dir.to_owned(),
            problem: format!("a ref is locked by another process: {stderr}"),
        };
    }
    Error::GitFailed {
        arguments,
        exit_code,
        stderr,
    }
}
