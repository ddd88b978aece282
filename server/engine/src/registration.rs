//! Registering a checkout with its repository by hand: built beside, swapped in whole, taken out the same way.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FlockOperation, RenameFlags};

use crate::branches::branch_holder;
use crate::engine::{Engine, make_private};
use crate::error::{Error, Result};
use crate::ids::{BranchName, CommitId};
use crate::model::Checkout;
use crate::objects::sync_directory;

/// The exclusive right to change refs and registrations of one repository, across processes. Dropping it gives it back.
#[derive(Debug)]
pub struct RepositoryLock {
    _directory: File,
}

/// What a new checkout's HEAD is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewHead {
    /// On a branch.
    Branch(BranchName),
    /// At a commit.
    Detached(CommitId),
}

impl NewHead {
    fn file_content(&self) -> String {
        match self {
            Self::Branch(branch) => format!("ref: {}\n", branch.full_ref()),
            Self::Detached(commit) => format!("{commit}\n"),
        }
    }
}

/// The bytes of the `.git` file that belongs into a checkout.
pub(crate) fn git_file_content(checkout: &Checkout) -> Vec<u8> {
    let mut content = b"gitdir: ".to_vec();
    content.extend_from_slice(checkout.admin_dir().as_os_str().as_bytes());
    content.push(b'\n');
    content
}

impl Engine {
    /// Takes the repository's lock by flock on the common directory itself, which writes nothing; waits at most the
    /// configured time.
    pub fn lock_repository(&self, common_dir: &Path) -> Result<RepositoryLock> {
        let directory =
            File::open(common_dir).map_err(|error| Error::io("open", common_dir, error))?;
        let until = Instant::now() + self.config().lock_wait;
        let mut pause = Duration::from_micros(200);
        loop {
            match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(RepositoryLock {
                        _directory: directory,
                    });
                }
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(Error::io("lock", common_dir, error.into())),
            }
            if Instant::now() >= until {
                return Err(Error::Busy {
                    path: common_dir.to_owned(),
                    problem: "another process holds the repository's lock".to_owned(),
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Registers `checkout`, whose directory exists and is empty. `needs_own_bare_setting` is for a bare repository
    /// with per-worktree configuration, where git would otherwise call every checkout bare. A branch born by this very
    /// operation is free; any other is looked for in all checkouts again.
    pub(crate) fn register(
        &self,
        checkout: &Checkout,
        head: &NewHead,
        lock_reason: &str,
        needs_own_bare_setting: bool,
        branch_is_new: bool,
    ) -> Result<()> {
        let beside = self.beside(checkout);
        make_private(&beside)?;
        let mut gitdir = checkout.path.join(".git").as_os_str().as_bytes().to_vec();
        gitdir.push(b'\n');
        // Locked first: from its first moment under `worktrees/` no prune may take it.
        write_synced(&beside.join("locked"), lock_reason.as_bytes())?;
        write_synced(&beside.join("HEAD"), head.file_content().as_bytes())?;
        write_synced(&beside.join("commondir"), b"../..\n")?;
        write_synced(&beside.join("gitdir"), &gitdir)?;
        if needs_own_bare_setting {
            write_synced(&beside.join("config.worktree"), b"[core]\n\tbare = false\n")?;
        }
        sync_directory(&beside)?;
        crate::crash_point!("register.built");
        write_synced(&checkout.path.join(".git"), &git_file_content(checkout))?;
        sync_directory(&checkout.path)?;
        crate::crash_point!("register.git_file_written");
        let _lock = self.lock_repository(&checkout.common_dir)?;
        // Looked at again: the files took time, and plumbing has no guard against a second checkout of a branch.
        if let NewHead::Branch(branch) = head
            && !branch_is_new
            && let Some(path) = branch_holder(&checkout.common_dir, branch)?
        {
            return Err(Error::BranchCheckedOut {
                branch: branch.clone(),
                path,
            });
        }
        move_in(&beside, &checkout.admin_dir())?;
        crate::crash_point!("register.moved_in");
        Ok(())
    }

    /// Takes the registration out, whole, and then deletes it. One that is gone already is fine.
    pub(crate) fn unregister(&self, checkout: &Checkout, _lock: &RepositoryLock) -> Result<()> {
        let admin = checkout.admin_dir();
        let beside = self.beside(checkout);
        // The only home of a submodule's commits: whoever asks, it is not deleted with the entry.
        crate::save::admin::refuse_submodule(&admin, &checkout.path)?;
        match rustix::fs::renameat_with(CWD, &admin, CWD, &beside, RenameFlags::NOREPLACE) {
            Ok(()) => sync_directory(&checkout.common_dir.join("worktrees"))?,
            Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(Error::io("unregister", &admin, error.into())),
        }
        crate::crash_point!("unregister.moved_out");
        self.delete_beside(checkout)
    }

    /// Deletes what [`Engine::register`] builds beside, if it is there: the name holds an id of ours that nobody else has.
    pub(crate) fn delete_beside(&self, checkout: &Checkout) -> Result<()> {
        let beside = self.beside(checkout);
        match std::fs::symlink_metadata(&beside) {
            Ok(metadata) if metadata.is_dir() => crate::trash::delete_tree(&beside),
            Ok(_) => Err(Error::Internal(format!(
                "{} is not a directory",
                beside.display()
            ))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io("examine", &beside, error)),
        }
    }

    fn beside(&self, checkout: &Checkout) -> PathBuf {
        let name = format!("{}-tmp-{}", checkout.namespace, checkout.admin_id);
        checkout.common_dir.join(name)
    }
}

fn move_in(beside: &Path, admin: &Path) -> Result<()> {
    let worktrees = admin
        .parent()
        .ok_or_else(|| Error::Internal("an admin directory has no parent".to_owned()))?;
    // A prune that removes the last entry removes the directory too, at any moment.
    for _ in 0..100 {
        match std::fs::create_dir(worktrees) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", worktrees, error)),
        }
        match rustix::fs::renameat_with(CWD, beside, CWD, admin, RenameFlags::NOREPLACE) {
            Ok(()) => return sync_directory(worktrees),
            Err(rustix::io::Errno::NOENT) if beside.exists() => {}
            Err(error) => return Err(Error::io("register", admin, error.into())),
        }
    }
    Err(Error::Busy {
        path: worktrees.to_owned(),
        problem: "it disappears as soon as it is made".to_owned(),
    })
}

/// Makes a new file with that content, durable.
pub(crate) fn write_synced(path: &Path, content: &[u8]) -> Result<()> {
    File::create_new(path)
        .and_then(|mut file| {
            file.write_all(content)?;
            file.sync_all()
        })
        .map_err(|error| Error::io("write", path, error))
}
