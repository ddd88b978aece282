//! Arguments that several commands share.

use std::path::{Path, PathBuf};

use clap::Args;
use worktreed_client::proto::WorktreeKey;

use crate::failure::Failure;

/// The repository of a command that needs one.
#[derive(Debug, Args)]
pub(crate) struct RepoArgs {
    /// The repository: a path on the server's host, or the name of a configured one
    #[arg(
        long,
        env = "WORKTREE_REPO",
        default_value = ".",
        value_name = "PATH|NAME"
    )]
    repo: String,
}

impl RepoArgs {
    /// Returns the repository as the server wants it: a path is made absolute, a bare name stays a name.
    pub(crate) fn resolve(&self) -> Result<String, Failure> {
        resolve_repo(&self.repo)
    }
}

/// The repository of a command that can also act on all.
#[derive(Debug, Args)]
pub(crate) struct RepoScopeArgs {
    #[command(flatten)]
    repo: RepoArgs,
    /// All repositories, and not only one
    #[arg(long, short)]
    all_repos: bool,
}

impl RepoScopeArgs {
    /// Returns the repository, or nothing for all.
    pub(crate) fn resolve(&self) -> Result<String, Failure> {
        if self.all_repos {
            Ok(String::new())
        } else {
            self.repo.resolve()
        }
    }
}

/// The worktree of a task.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The id of the task
    task: String,
    #[command(flatten)]
    repo: RepoArgs,
}

impl KeyArgs {
    pub(crate) fn resolve(&self) -> Result<WorktreeKey, Failure> {
        Ok(WorktreeKey {
            repo: self.repo.resolve()?,
            task_id: self.task.clone(),
        })
    }
}

/// What a mutation carries.
#[derive(Debug, Args)]
pub(crate) struct MutationArgs {
    /// The epoch of the live lease; 0 if there is none
    #[arg(
        long,
        env = "WORKTREE_LEASE_EPOCH",
        default_value_t = 0,
        value_name = "N"
    )]
    pub(crate) epoch: i64,
    /// Only if the worktree still has this etag
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "ETAG"
    )]
    pub(crate) etag: String,
    /// A UUID to repeat the call by; a new one if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "UUID"
    )]
    pub(crate) request_id: String,
}

/// How much of a list.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Show at most so many; all if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

/// The largest page that a server gives out.
const LARGEST_PAGE: i32 = 1000;

impl PageArgs {
    /// Returns the size of the next page after so many entries; `None` when there are enough.
    pub(crate) fn next_size(&self, so_far: usize) -> Option<i32> {
        let Some(limit) = self.limit else {
            return Some(LARGEST_PAGE);
        };
        let left = usize::try_from(limit)
            .unwrap_or(usize::MAX)
            .saturating_sub(so_far);
        let left = i32::try_from(left)
            .unwrap_or(LARGEST_PAGE)
            .min(LARGEST_PAGE);
        (left > 0).then_some(left)
    }
}

/// Makes a path absolute without resolving links: that is for the server, which may see other ones.
pub(crate) fn resolve_repo(repo: &str) -> Result<String, Failure> {
    let looks_like_path = repo.starts_with('.') || repo.contains('/');
    if !looks_like_path {
        return if repo.is_empty() {
            Err(Failure::usage("the repository is empty"))
        } else {
            Ok(repo.to_owned())
        };
    }
    let path: PathBuf = std::path::absolute(Path::new(repo))?.components().collect();
    path.into_os_string().into_string().map_err(|path| {
        Failure::usage(format!(
            "the path of the repository is not UTF-8: {}",
            path.to_string_lossy()
        ))
    })
}
