//! Filling a directory: registered, checked out by git, verified; or taken back as if it had never been.

use std::path::Path;

use crate::branches::{branch_holder, may_delete, read_ref};
use crate::engine::{Engine, make_private};
use crate::error::{Error, Result};
use crate::git::{Deadline, GitCommand, GitDir};
use crate::identity::{Standing, standing};
use crate::ids::CommitId;
use crate::lock::LockReason;
use crate::model::{Checkout, MaterialisePlan, Observer, Step, Warning};
use crate::refs::RefEdit;
use crate::registration::NewHead;
use crate::repository::Repository;

/// A checkout that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provisioned {
    /// The checkout, with its identity.
    pub checkout: Checkout,
    /// Where HEAD is.
    pub head: CommitId,
    /// HEAD's commit time, in seconds since the epoch.
    pub head_time: i64,
    /// What the caller should know.
    pub warnings: Vec<Warning>,
}

/// One materialisation.
pub(crate) struct Materialise<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) plan: &'a MaterialisePlan,
    pub(crate) head: NewHead,
}

impl Materialise<'_> {
    /// Whether the branch is born here.
    fn makes_branch(&self) -> bool {
        matches!(&self.head, NewHead::Branch(branch)
            if self.plan.creates_refs.iter().any(|(name, _)| *name == branch.full_ref()))
    }
}

impl Engine {
    /// Carries a plan out; on failure everything that it made is taken back before the error is returned. What was moved
    /// out of the way stays moved, so `warnings` is the caller's and outlives a failure.
    pub(crate) fn materialise(
        &self,
        work: &Materialise<'_>,
        warnings: &mut Vec<Warning>,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        observer.step(&Step::Materialise(work.plan.clone()))?;
        let result = self.try_materialise(work, warnings, observer);
        if let Err(error) = &result {
            tracing::warn!(path = %work.plan.checkout.path.display(), %error, "materialising failed; taking it back");
            if let Err(undo) = self.undo_materialise(work.plan) {
                tracing::error!(path = %work.plan.checkout.path.display(), error = %undo, "taking it back failed; recovery will try again");
            }
        }
        result
    }

    fn try_materialise(
        &self,
        work: &Materialise<'_>,
        warnings: &mut Vec<Warning>,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        let checkout = &work.plan.checkout;
        if let Some(warning) = self.clear_leftover(&checkout.path)? {
            tracing::warn!("{}", warning.message);
            warnings.push(warning);
        }
        if work.repository.config.filter_fingerprint() != checkout.filter_fingerprint {
            warnings.push(Warning::new(
                "FILTER_CHANGED",
                "the repository's filters are not the ones seen at provision; none of them was run",
            ));
        }
        observer.progress("refs", 0, 4);
        self.create_refs(work)?;
        crate::crash_point!("materialise.refs_made");
        let parent = checkout.path.parent().unwrap_or(&checkout.path);
        make_private(parent)?;
        // The service's directories are followed through no link, however an agent came to write above its checkout.
        if !matches!(standing(parent)?, Standing::Directory(_)) {
            return Err(Error::IdentityMismatch {
                path: parent.to_owned(),
            });
        }
        std::fs::create_dir(&checkout.path)
            .map_err(|error| Error::io("create", &checkout.path, error))?;
        crate::crash_point!("materialise.directory_made");
        observer.progress("register", 1, 4);
        let reason = self.spell_lock_reason(&LockReason {
            task: checkout.task_id.to_string(),
            ..LockReason::default()
        });
        self.register(
            checkout,
            &work.head,
            &reason,
            work.repository.makes_linked_checkouts_bare(),
            work.makes_branch(),
        )?;
        crate::crash_point!("materialise.registered");
        observer.progress("checkout", 2, 4);
        self.check_out(work)?;
        crate::crash_point!("materialise.checked_out");
        observer.progress("verify", 3, 4);
        let mut provisioned = self.verify(work)?;
        provisioned.warnings.clone_from(warnings);
        observer.progress("verify", 4, 4);
        Ok(provisioned)
    }

    fn create_refs(&self, work: &Materialise<'_>) -> Result<()> {
        let checkout = &work.plan.checkout;
        let lock = self.lock_repository(&checkout.common_dir)?;
        if let NewHead::Branch(branch) = &work.head {
            // A branch that is born by compare-and-swap is nobody's; the look at every registration would make a provision
            // dearer with each worktree that exists.
            let made_here = work.makes_branch();
            if !made_here && let Some(path) = branch_holder(&checkout.common_dir, branch)? {
                return Err(Error::BranchCheckedOut {
                    branch: branch.clone(),
                    path,
                });
            }
            if !made_here && read_ref(&checkout.common_dir, &branch.full_ref())?.is_none() {
                return Err(Error::BranchGone {
                    branch: branch.clone(),
                });
            }
        }
        let created = work
            .plan
            .creates_refs
            .iter()
            .map(|(name, value)| RefEdit::create(name, value));
        let moved = work
            .plan
            .moves_refs
            .iter()
            .map(|(name, new, old)| RefEdit::update(name, new, old));
        let edits: Vec<RefEdit> = created.chain(moved).collect();
        self.update_refs_locked(&lock, &checkout.common_dir, &edits)
    }

    /// Whatever already stands at the path goes to custody: it is not ours to judge, and never wiped.
    fn clear_leftover(&self, path: &Path) -> Result<Option<Warning>> {
        if standing(path)? == Standing::Missing {
            return Ok(None);
        }
        let custody = self.new_custody_path();
        std::fs::rename(path, &custody)
            .map_err(|error| Error::io("move to custody", path, error))?;
        Ok(Some(Warning::new(
            "LEFTOVER_MOVED",
            format!(
                "{} was already there; it is now at {}",
                path.display(),
                custody.display()
            ),
        )))
    }

    fn check_out(&self, work: &Materialise<'_>) -> Result<()> {
        let checkout = &work.plan.checkout;
        let directory = GitDir {
            git_dir: checkout.admin_dir(),
            work_tree: Some(checkout.path.clone()),
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = GitCommand::new(Some(&directory))
            .args(["-c", &format!("checkout.workers={workers}")])
            // A sparse source would give the task half a checkout without a word.
            .args(["-c", "core.sparseCheckout=false", "-c", "core.fsync=all"])
            .args(["read-tree", "-m", "-u", "--no-recurse-submodules", "HEAD"])
            .deadline(Deadline::Checkout);
        let config = &work.repository.config;
        if config.filter_fingerprint() != checkout.filter_fingerprint {
            // Defined since, perhaps by the agent itself: the files come as they are stored (law 10).
            for (key, value) in config.filters_off() {
                command = command.config(&key, value);
            }
        }
        match self.git().run(command) {
            // git names the file that it could not write, and not why.
            Err(Error::GitFailed { stderr, .. })
                if stderr.contains("unable to write") && is_full(&checkout.path) =>
            {
                Err(Error::DiskFull {
                    path: checkout.path.clone(),
                })
            }
            ended => ended.map(drop),
        }
    }

    /// Both sides are looked at again: the directory, and what git knows of it.
    fn verify(&self, work: &Materialise<'_>) -> Result<Provisioned> {
        let mut checkout = work.plan.checkout.clone();
        let Standing::Directory(identity) = standing(&checkout.path)? else {
            return Err(Error::CheckoutAbsent {
                path: checkout.path,
            });
        };
        checkout.identity = Some(identity);
        self.refuse_unsound(&checkout)?;
        let index = checkout.admin_dir().join("index");
        if !index.is_file() {
            return Err(Error::Internal(format!(
                "{} was not written",
                index.display()
            )));
        }
        let head = match &work.head {
            NewHead::Detached(commit) => commit.clone(),
            NewHead::Branch(branch) => read_ref(&checkout.common_dir, &branch.full_ref())?
                .ok_or_else(|| Error::BranchGone {
                    branch: branch.clone(),
                })?,
        };
        let head_time = commit_time(&work.repository.odb()?, &head)?;
        Ok(Provisioned {
            checkout,
            head,
            head_time,
            warnings: Vec::new(),
        })
    }

    /// Takes back whatever of a plan was done: nothing in it was handed out. Can be repeated from any point.
    pub(crate) fn undo_materialise(&self, plan: &MaterialisePlan) -> Result<()> {
        let checkout = &plan.checkout;
        let lock = self.lock_repository(&checkout.common_dir)?;
        self.unregister(checkout, &lock)?;
        if self.is_this_plans_directory(checkout)? {
            let trash = self.new_deletable_path();
            std::fs::rename(&checkout.path, &trash)
                .map_err(|error| Error::io("drop", &checkout.path, error))?;
        }
        let mut edits = Vec::new();
        for (name, value) in &plan.creates_refs {
            if may_delete(checkout, name, value)? {
                edits.push(RefEdit::delete(name, value));
            }
        }
        for (name, new, old) in &plan.moves_refs {
            // The same holds for moving it back under another checkout's feet.
            if may_delete(checkout, name, new)? {
                edits.push(RefEdit::update(name, old, new));
            }
        }
        self.update_refs_locked(&lock, &checkout.common_dir, &edits)
    }

    /// Whether the directory at the path was made by this plan: empty, or holding the `.git` file that names its own
    /// admin id. Anything else belongs to somebody.
    fn is_this_plans_directory(&self, checkout: &Checkout) -> Result<bool> {
        if !matches!(standing(&checkout.path)?, Standing::Directory(_)) {
            return Ok(false);
        }
        if crate::branches::git_file(checkout)? == crate::branches::GitFile::Ours {
            return Ok(true);
        }
        let failed = |error| Error::io("list", &checkout.path, error);
        Ok(std::fs::read_dir(&checkout.path)
            .map_err(failed)?
            .next()
            .is_none())
    }
}

/// When a commit was made, in seconds since the epoch.
pub(crate) fn commit_time(odb: &gix::Repository, commit: &CommitId) -> Result<i64> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::Internal(format!("the commit {commit} cannot be read: {error}"))
    };
    let id = crate::save::tree::object_id(commit)?;
    let found = odb.find_commit(id).map_err(|error| failed(&error))?;
    Ok(found.time().map_err(|error| failed(&error))?.seconds)
}

/// Whether there is no room to speak of on the filesystem of a path.
fn is_full(path: &Path) -> bool {
    // What git could not write is gone again: there was less room than one file needs, which may be a large one.
    const LITTLE: u64 = 1 << 30;
    rustix::fs::statvfs(path).is_ok_and(|found| {
        found.f_bavail.saturating_mul(found.f_frsize) < LITTLE
            || (found.f_files > 0 && found.f_favail == 0)
    })
}
