//! What is true of a checkout now, asked of files alone.

use crate::branches::{GitFile, git_file, read_ref};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::identity::{Standing, standing};
use crate::ids::{BranchName, CommitId};
use crate::lock::LockState;
use crate::model::Checkout;
use crate::repository::read_pointer;

/// What stands at the checkout's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectoryState {
    /// The directory that was provisioned.
    Present,
    /// Nothing.
    Missing,
    /// Another directory.
    OtherIdentity,
    /// A file or a link.
    NotADirectory,
}

/// What stands at the registration's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationState {
    /// An entry that points to the checkout.
    Present,
    /// Nothing.
    Missing,
    /// An entry that is torn or points elsewhere.
    Broken,
}

/// Where HEAD is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// On a branch, with its tip; no tip while it is unborn or gone.
    Branch(BranchName, Option<CommitId>),
    /// At a commit.
    Detached(CommitId),
    /// Not to be told.
    Unknown,
}

/// The answer of [`Engine::probe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The directory.
    pub directory: DirectoryState,
    /// The entry below `worktrees/`.
    pub registration: RegistrationState,
    /// The `.git` file.
    pub git_file: GitFile,
    /// git's worktree lock.
    pub lock: LockState,
    /// HEAD.
    pub head: Head,
}

impl Probe {
    /// Whether everything is as the service made it.
    pub fn is_sound(&self) -> bool {
        self.directory == DirectoryState::Present
            && self.registration == RegistrationState::Present
            && self.git_file == GitFile::Ours
    }
}

impl Engine {
    /// Looks at a checkout. Starts no process.
    pub fn probe(&self, checkout: &Checkout) -> Result<Probe> {
        let directory = match standing(&checkout.path)? {
            Standing::Missing => DirectoryState::Missing,
            Standing::NotADirectory => DirectoryState::NotADirectory,
            Standing::Directory(found) if checkout.identity.as_ref() == Some(&found) => {
                DirectoryState::Present
            }
            Standing::Directory(_) => DirectoryState::OtherIdentity,
        };
        let git_file = match directory {
            DirectoryState::Missing | DirectoryState::NotADirectory => GitFile::Missing,
            DirectoryState::Present | DirectoryState::OtherIdentity => git_file(checkout)?,
        };
        Ok(Probe {
            directory,
            registration: registration(checkout)?,
            git_file,
            lock: self.lock_state(checkout)?,
            head: head(checkout)?,
        })
    }

    /// Refuses a checkout that is not, in every respect, the one that was made.
    pub(crate) fn refuse_unsound(&self, checkout: &Checkout) -> Result<()> {
        let probe = self.probe(checkout)?;
        let path = || checkout.path.clone();
        match probe.directory {
            DirectoryState::Missing => return Err(Error::CheckoutAbsent { path: path() }),
            DirectoryState::OtherIdentity | DirectoryState::NotADirectory => {
                return Err(Error::IdentityMismatch { path: path() });
            }
            DirectoryState::Present => {}
        }
        if probe.git_file != GitFile::Ours || probe.registration != RegistrationState::Present {
            return Err(Error::CheckoutRetargeted { path: path() });
        }
        match probe.lock {
            LockState::Foreign(reason) => Err(Error::ForeignLock {
                path: path(),
                reason,
            }),
            LockState::Ours | LockState::None => Ok(()),
        }
    }
}

fn registration(checkout: &Checkout) -> Result<RegistrationState> {
    let admin = checkout.admin_dir();
    match standing(&admin)? {
        Standing::Missing => return Ok(RegistrationState::Missing),
        Standing::NotADirectory => return Ok(RegistrationState::Broken),
        Standing::Directory(_) => {}
    }
    let points_here = read_pointer(&admin.join("gitdir"))? == Some(checkout.path.join(".git"));
    let common = read_pointer(&admin.join("commondir"))?;
    let shared = common.is_some_and(|common| common.as_os_str() == "../..");
    Ok(if points_here && shared {
        RegistrationState::Present
    } else {
        RegistrationState::Broken
    })
}

fn head(checkout: &Checkout) -> Result<Head> {
    let Some(content) = read_pointer(&checkout.admin_dir().join("HEAD"))? else {
        return Ok(Head::Unknown);
    };
    let Some(content) = content.to_str() else {
        return Ok(Head::Unknown);
    };
    if let Some(branch) = content.strip_prefix("ref: refs/heads/") {
        return match branch.parse::<BranchName>() {
            Ok(branch) => {
                let tip = read_ref(&checkout.common_dir, &branch.full_ref())?;
                Ok(Head::Branch(branch, tip))
            }
            Err(_) => Ok(Head::Unknown),
        };
    }
    Ok(content.parse().map_or(Head::Unknown, Head::Detached))
}
