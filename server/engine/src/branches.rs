//! Reading refs and HEADs without a process, and seeing who has a branch checked out.

use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{Deadline, GitCommand, GitDir};
use crate::ids::{BranchName, CommitId};
use crate::model::Checkout;
use crate::repository::{Repository, read_pointer};

/// A branch of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its name without `refs/heads/`, as bytes.
    pub name: Vec<u8>,
    /// Its tip.
    pub tip: CommitId,
    /// When the commit at its tip was made, in seconds since 1970.
    pub commit_time: Option<i64>,
    /// The checkout that has it.
    pub checked_out_at: Option<PathBuf>,
}

impl Engine {
    /// The tip of the task's branch; none if the branch is gone.
    pub fn branch_tip(&self, checkout: &Checkout) -> Result<Option<CommitId>> {
        read_ref(&checkout.common_dir, &checkout.branch.full_ref())
    }

    /// How many commits `head` has beyond the task's baseline.
    pub fn count_commits(&self, checkout: &Checkout, head: &CommitId) -> Result<u64> {
        if *head == checkout.base_commit {
            return Ok(0);
        }
        let range = format!("{}..{head}", checkout.base_commit);
        let command = GitCommand::new(Some(&GitDir::bare(&checkout.common_dir))).args([
            "rev-list",
            "--count",
            "--end-of-options",
            &range,
        ]);
        let output = self.git().run(command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim()
            .parse()
            .map_err(|_| Error::Internal(format!("rev-list counted {text:?}")))
    }

    /// Every branch, in git's order, and who has it checked out.
    pub fn list_branches(&self, repository: &Repository) -> Result<Vec<Branch>> {
        let command = GitCommand::new(Some(&GitDir::bare(&repository.common_dir)))
            .args([
                "for-each-ref",
                "--format=%(objectname) %(committerdate:unix) %(refname:lstrip=2)",
                "refs/heads/",
            ])
            .deadline(Deadline::Probe);
        let listing = self.git().run(command)?.stdout;
        let holders = holders(&repository.common_dir)?;
        let mut branches = Vec::new();
        for line in listing
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let mut words = line.splitn(3, |&byte| byte == b' ');
            let (Some(tip), Some(time), Some(name)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let name = name.to_vec();
            let held = holders.iter().find(|(branch, _)| *branch == name);
            branches.push(Branch {
                tip: String::from_utf8_lossy(tip).into_owned().try_into()?,
                commit_time: std::str::from_utf8(time)
                    .ok()
                    .and_then(|time| time.parse().ok()),
                checked_out_at: held.map(|(_, path)| path.clone()),
                name,
            });
        }
        Ok(branches)
    }
}

/// The value of a ref in the files storage (git-pack-refs(1), gitrepository-layout(5)); none if it does not exist.
pub(crate) fn read_ref(common_dir: &Path, name: &str) -> Result<Option<CommitId>> {
    let loose = common_dir.join(name);
    match std::fs::read(&loose) {
        Ok(content) => {
            let text = String::from_utf8_lossy(&content);
            return text.trim().parse().map(Some).map_err(|_| {
                Error::Internal(format!("{} does not hold an object id", loose.display()))
            });
        }
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound
                    | std::io::ErrorKind::IsADirectory
                    | std::io::ErrorKind::NotADirectory
            ) => {}
        Err(error) => return Err(Error::io("read", &loose, error)),
    }
    let packed = common_dir.join("packed-refs");
    let content = match std::fs::read(&packed) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", &packed, error)),
    };
    let found = content.split(|&byte| byte == b'\n').find_map(|line| {
        let (id, rest) = line.split_at_checked(line.iter().position(|&byte| byte == b' ')?)?;
        (rest[1..] == *name.as_bytes()).then_some(id)
    });
    match found {
        Some(id) => Ok(Some(String::from_utf8_lossy(id).into_owned().try_into()?)),
        None => Ok(None),
    }
}

/// The checkout that has `branch`, in whatever way: plumbing has no guard of its own against a second one.
pub(crate) fn branch_holder(common_dir: &Path, branch: &BranchName) -> Result<Option<PathBuf>> {
    let name = branch.as_str().as_bytes();
    Ok(holders(common_dir)?
        .into_iter()
        .find(|(held, _)| held == name)
        .map(|(_, path)| path))
}

/// The branch that the ref `name` is, and the checkout other than `checkout` that has it.
pub(crate) fn held_by_another(
    checkout: &Checkout,
    name: &str,
) -> Result<Option<(BranchName, PathBuf)>> {
    let Some(Ok(branch)) = name
        .strip_prefix("refs/heads/")
        .map(str::parse::<BranchName>)
    else {
        return Ok(None);
    };
    let bytes = branch.as_str().as_bytes();
    let other = holders(&checkout.common_dir)?
        .into_iter()
        .find(|(held, path)| held == bytes && *path != checkout.path);
    Ok(other.map(|(_, path)| (branch, path)))
}

/// Whether a ref may go with its checkout. One that was moved meanwhile has somebody's commit on it, and one that another
/// checkout has would leave that checkout without a HEAD: both stay.
pub(crate) fn may_delete(checkout: &Checkout, name: &str, value: &CommitId) -> Result<bool> {
    Ok(
        read_ref(&checkout.common_dir, name)?.as_ref() == Some(value)
            && held_by_another(checkout, name)?.is_none(),
    )
}

/// Every branch that a checkout has, with the checkout's path. A torn entry of somebody else's is passed over.
fn holders(common_dir: &Path) -> Result<Vec<(Vec<u8>, PathBuf)>> {
    let mut held = Vec::new();
    let main = match common_dir.file_name() {
        Some(name) if name == ".git" => common_dir.parent().unwrap_or(common_dir),
        _ => common_dir,
    };
    collect_held(common_dir, main, &mut held)?;
    let worktrees = common_dir.join("worktrees");
    let entries = match std::fs::read_dir(&worktrees) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(held),
        Err(error) => return Err(Error::io("list", &worktrees, error)),
    };
    for entry in entries {
        let admin = entry
            .map_err(|error| Error::io("list", &worktrees, error))?
            .path();
        let path = match read_pointer(&admin.join("gitdir")) {
            Ok(Some(file)) => file.parent().map_or_else(|| admin.clone(), Path::to_owned),
            Ok(None) | Err(_) => admin.clone(),
        };
        collect_held(&admin, &path, &mut held)?;
    }
    Ok(held)
}

fn collect_held(git_dir: &Path, path: &Path, held: &mut Vec<(Vec<u8>, PathBuf)>) -> Result<()> {
    let files = [
        "HEAD",
        "rebase-merge/head-name",
        "rebase-apply/head-name",
        "BISECT_START",
        "rebase-merge/update-refs",
    ];
    for file in files {
        let content = match std::fs::read(git_dir.join(file)) {
            Ok(content) => content,
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::NotFound
                        | std::io::ErrorKind::NotADirectory
                        | std::io::ErrorKind::IsADirectory
                ) =>
            {
                continue;
            }
            Err(error) => return Err(Error::io("read", &git_dir.join(file), error)),
        };
        for line in content.split(|&byte| byte == b'\n') {
            let line = line.strip_prefix(b"ref: ").unwrap_or(line).trim_ascii();
            let branch = match line.strip_prefix(b"refs/heads/") {
                Some(branch) => branch,
                // BISECT_START names the branch bare.
                None if file == "BISECT_START" && !line.is_empty() => line,
                None => continue,
            };
            held.push((branch.to_vec(), path.to_owned()));
        }
    }
    Ok(())
}

/// The `.git` file of a checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitFile {
    /// Byte for byte what the service wrote.
    Ours,
    /// Not there.
    Missing,
    /// Something else.
    Retargeted,
}

/// Compares the `.git` file with what was written; a link in its place is something else.
pub(crate) fn git_file(checkout: &Checkout) -> Result<GitFile> {
    git_file_at(&checkout.path, checkout)
}

/// The same for a checkout whose directory is elsewhere by now.
pub(crate) fn git_file_at(directory: &Path, checkout: &Checkout) -> Result<GitFile> {
    let path = directory.join(".git");
    match std::fs::symlink_metadata(&path) {
        Ok(metadata) if !metadata.is_file() || metadata.len() > 1 << 16 => Ok(GitFile::Retargeted),
        Ok(_) => {
            let content = std::fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
            let ours = content == crate::registration::git_file_content(checkout);
            Ok(if ours {
                GitFile::Ours
            } else {
                GitFile::Retargeted
            })
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(GitFile::Missing),
        Err(error) => Err(Error::io("examine", &path, error)),
    }
}
