//! The operations that save: checkpoint, pause, complete, and the removals.

use std::path::Path;

use crate::branches::may_delete;
use crate::diff::Completed;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::identity::{Standing, standing};
use crate::ids::CommitId;
use crate::model::{Checkout, DiffStat, DropPlan, Observer, RecoveryPoint, SaveMode, Saved};
use crate::recovery::pin_without_directory;
use crate::refs::RefEdit;
use crate::save::run::{Done, Request, look, save};
use crate::save::subject::read_head;

/// How the removal of a review ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewRemoved {
    /// Whether the reviewer changed nothing.
    pub tree_unchanged: bool,
    /// What the reviewer changed, pinned; none where there was nothing.
    pub recovery_point: Option<RecoveryPoint>,
}

impl Engine {
    /// Saves the work and keeps the directory.
    pub fn checkpoint(
        &self,
        checkout: &Checkout,
        mode: SaveMode,
        message: &str,
        observer: &mut dyn Observer,
    ) -> Result<Saved> {
        let request = Request {
            mode,
            message,
            dropping: false,
            always_pin: false,
            force: false,
        };
        Ok(save(self, checkout, request, observer)?.saved)
    }

    /// Saves the work and drops the directory; the branch stays. What cannot be saved stops it unless `force`.
    pub fn pause(
        &self,
        checkout: &Checkout,
        mode: SaveMode,
        force: bool,
        message: &str,
        observer: &mut dyn Observer,
    ) -> Result<Saved> {
        let request = Request {
            mode,
            message,
            dropping: true,
            // What is forced past is lost; everything else must be there to go back to.
            always_pin: force,
            force,
        };
        let done = save(self, checkout, request, observer)?;
        self.drop_saved(done, Vec::new(), observer)
    }

    /// Ends the task: where nothing differs from the baseline, directory, registration and branch go; else nothing is
    /// touched.
    pub fn complete(
        &self,
        checkout: &Checkout,
        force: bool,
        observer: &mut dyn Observer,
    ) -> Result<Completed> {
        let stat = self.diff_stat(checkout, false)?;
        let head = read_head(self, checkout)?;
        let tip = self
            .branch_tip(checkout)?
            .ok_or_else(|| Error::BranchGone {
                branch: checkout.branch.clone(),
            })?;
        let on_branch = head.symbolic.as_deref() == Some(&*checkout.branch.full_ref());
        if !stat.is_empty() || !on_branch || !self.tree_is_at_baseline(checkout, &tip)? {
            return Ok(Completed {
                stat,
                cleaned: false,
                saved: untouched(head.commit.unwrap_or(tip)),
            });
        }
        let message = format!("{}: complete", checkout.namespace);
        let request = Request {
            mode: SaveMode::Snapshot,
            message: &message,
            dropping: true,
            always_pin: true,
            force,
        };
        let done = save(self, checkout, request, observer)?;
        let deletes = vec![
            (checkout.branch.full_ref(), tip),
            (checkout.base_ref(), checkout.base_commit.clone()),
        ];
        let saved = self.drop_saved(done, deletes, observer)?;
        Ok(Completed {
            stat,
            cleaned: self.is_gone(checkout)?,
            saved,
        })
    }

    /// Whether directory, registration and branch are all gone, by a fresh look: a branch that moved meanwhile was kept.
    fn is_gone(&self, checkout: &Checkout) -> Result<bool> {
        Ok(standing(&checkout.path)? == Standing::Missing
            && standing(&checkout.admin_dir())? == Standing::Missing
            && self.branch_tip(checkout)?.is_none())
    }

    /// Drops the task's checkout by request; a recovery point comes first, always.
    pub fn remove(
        &self,
        checkout: &Checkout,
        discard_changes: bool,
        keep_branch: bool,
        observer: &mut dyn Observer,
    ) -> Result<Saved> {
        let tip = self.branch_tip(checkout)?;
        if standing(&checkout.path)? == Standing::Missing {
            return self.remove_absent(checkout, tip, discard_changes, keep_branch);
        }
        let stat = self.diff_stat(checkout, false)?;
        if !discard_changes {
            self.refuse_discard(checkout, &stat, tip.as_ref(), keep_branch)?;
        }
        let message = format!("{}: remove", checkout.namespace);
        let request = Request {
            mode: SaveMode::Snapshot,
            message: &message,
            dropping: true,
            always_pin: true,
            force: discard_changes,
        };
        let done = save(self, checkout, request, observer)?;
        self.drop_saved(done, removed_refs(checkout, tip, keep_branch), observer)
    }

    /// Drops a review's directory; what the reviewer changed is pinned first.
    pub fn remove_review(
        &self,
        checkout: &Checkout,
        observer: &mut dyn Observer,
    ) -> Result<ReviewRemoved> {
        if standing(&checkout.path)? == Standing::Missing {
            return self.remove_review_without_directory(checkout);
        }
        let message = format!("{}: review", checkout.namespace);
        let looked = look(self, checkout)?;
        let tree_unchanged = looked.is_unchanged()?;
        let request = Request {
            mode: SaveMode::Snapshot,
            message: &message,
            dropping: true,
            always_pin: true,
            force: true,
        };
        if tree_unchanged {
            self.drop_saved(looked, Vec::new(), observer)?;
            return Ok(ReviewRemoved {
                tree_unchanged,
                recovery_point: None,
            });
        }
        let done = save(self, checkout, request, observer)?;
        let saved = self.drop_saved(done, Vec::new(), observer)?;
        Ok(ReviewRemoved {
            tree_unchanged,
            recovery_point: saved.recovery_point,
        })
    }

    /// Nobody can tell what a reviewer did in a directory that is gone; the commits that are left are kept.
    fn remove_review_without_directory(&self, checkout: &Checkout) -> Result<ReviewRemoved> {
        self.refuse_foreign_lock(checkout)?;
        let recovery_point = self.pin_orphan(checkout)?;
        let lock = self.lock_repository(&checkout.common_dir)?;
        self.unregister(checkout, &lock)?;
        Ok(ReviewRemoved {
            tree_unchanged: false,
            recovery_point,
        })
    }

    fn drop_saved(
        &self,
        done: Done<'_>,
        deletes_refs: Vec<(String, CommitId)>,
        observer: &mut dyn Observer,
    ) -> Result<Saved> {
        let plan = DropPlan {
            checkout: done.subject.checkout.clone(),
            trash: self.new_trash_path(),
            deletes_refs,
            saved: done.saved.clone(),
        };
        let mut verify = |path: &Path| done.verify_at(path);
        self.drop_checkout(&plan, &mut verify, observer)?;
        Ok(done.saved)
    }

    fn refuse_discard(
        &self,
        checkout: &Checkout,
        stat: &DiffStat,
        tip: Option<&CommitId>,
        keep_branch: bool,
    ) -> Result<()> {
        let unsaved = |first: String| {
            Err(Error::UnsavedWork {
                path: checkout.path.clone(),
                first,
                total: 1,
                not_saved: Vec::new(),
            })
        };
        if stat.dirty {
            return unsaved("uncommitted changes".to_owned());
        }
        if let Some(tip) = tip
            && !keep_branch
            && *tip != checkout.base_commit
        {
            return unsaved(format!("commits on {}", checkout.branch));
        }
        Ok(())
    }

    /// Removes what is left of a task whose directory is away: only refs.
    fn remove_absent(
        &self,
        checkout: &Checkout,
        tip: Option<CommitId>,
        discard_changes: bool,
        keep_branch: bool,
    ) -> Result<Saved> {
        if !discard_changes {
            self.refuse_discard(checkout, &DiffStat::default(), tip.as_ref(), keep_branch)?;
        }
        let head = tip.clone().unwrap_or_else(|| checkout.base_commit.clone());
        self.refuse_foreign_lock(checkout)?;
        crate::save::admin::refuse_submodule(&checkout.admin_dir(), &checkout.path)?;
        let mut saved = untouched(head);
        saved.recovery_point = match tip.as_ref().filter(|_| !keep_branch) {
            Some(tip) => Some(pin_without_directory(self, checkout, tip)?),
            None => self.pin_orphan(checkout)?,
        };
        let lock = self.lock_repository(&checkout.common_dir)?;
        self.unregister(checkout, &lock)?;
        crate::crash_point!("remove.unregistered");
        let mut edits = Vec::new();
        for (name, value) in removed_refs(checkout, tip, keep_branch) {
            if may_delete(checkout, &name, &value)? {
                edits.push(RefEdit::delete(&name, &value));
            }
        }
        self.update_refs_locked(&lock, &checkout.common_dir, &edits)?;
        Ok(saved)
    }
}

fn removed_refs(
    checkout: &Checkout,
    tip: Option<CommitId>,
    keep_branch: bool,
) -> Vec<(String, CommitId)> {
    let base = (checkout.base_ref(), checkout.base_commit.clone());
    tip.filter(|_| !keep_branch)
        .map(|tip| (checkout.branch.full_ref(), tip))
        .into_iter()
        .chain([base])
        .collect()
}

/// The answer of an operation that saved nothing.
pub(crate) fn untouched(head: CommitId) -> Saved {
    Saved {
        head,
        committed: false,
        recovery_point: None,
        not_saved: Vec::new(),
        warnings: Vec::new(),
    }
}
