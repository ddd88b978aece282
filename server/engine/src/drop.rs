//! The one way to drop a checkout that was saved, and to finish or forget a step that was cut short.

use std::path::Path;

use rustix::fs::{CWD, RenameFlags};

use crate::branches::{GitFile, git_file_at, held_by_another, may_delete};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::identity::{Standing, standing};
use crate::model::{DropPlan, Observer, Recovered, Step};
use crate::refs::RefEdit;

impl Engine {
    /// Drops a saved checkout. `verify` is given the directory after it was moved away, when nobody can reach it by name
    /// any more; if it refuses, the directory is moved back and the refusal returned.
    pub fn drop_checkout(
        &self,
        plan: &DropPlan,
        verify: &mut dyn FnMut(&Path) -> Result<()>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let checkout = &plan.checkout;
        self.refuse_unsound(checkout)?;
        for (name, _) in &plan.deletes_refs {
            if let Some((branch, path)) = held_by_another(checkout, name)? {
                return Err(Error::BranchCheckedOut { branch, path });
            }
        }
        observer.step(&Step::Drop(plan.clone()))?;
        crate::crash_point!("drop.journalled");
        move_away(&checkout.path, &plan.trash)?;
        crate::crash_point!("drop.renamed");
        if let Err(refusal) = self.check_moved(plan).and_then(|()| verify(&plan.trash)) {
            move_away(&plan.trash, &checkout.path)?;
            return Err(refusal);
        }
        self.finish_drop(plan)
    }

    /// The rename took whatever stood there at that moment: it must be the one that was saved.
    fn check_moved(&self, plan: &DropPlan) -> Result<()> {
        let same = matches!(standing(&plan.trash)?, Standing::Directory(found) if Some(&found) == plan.checkout.identity.as_ref());
        if same && git_file_at(&plan.trash, &plan.checkout)? == GitFile::Ours {
            Ok(())
        } else {
            Err(Error::IdentityMismatch {
                path: plan.checkout.path.clone(),
            })
        }
    }

    fn finish_drop(&self, plan: &DropPlan) -> Result<()> {
        let checkout = &plan.checkout;
        let lock = self.lock_repository(&checkout.common_dir)?;
        self.unregister(checkout, &lock)?;
        crate::crash_point!("drop.unregistered");
        let mut edits = Vec::new();
        for (name, value) in &plan.deletes_refs {
            if may_delete(checkout, name, value)? {
                edits.push(RefEdit::delete(name, value));
            }
        }
        self.update_refs_locked(&lock, &checkout.common_dir, &edits)?;
        crate::crash_point!("drop.refs_deleted");
        // Only now may it be deleted: until here it could still be given back.
        if standing(&plan.trash)? == Standing::Missing {
            return Ok(());
        }
        move_away(&plan.trash, &self.new_deletable_path())
    }

    /// Brings a step that was cut short to one of its ends. Can be repeated.
    pub fn recover(&self, step: &Step) -> Result<Recovered> {
        match step {
            Step::Materialise(plan) => {
                self.undo_materialise(plan)?;
                Ok(Recovered::RolledBack)
            }
            Step::Drop(plan) => self.recover_drop(plan),
        }
    }

    fn recover_drop(&self, plan: &DropPlan) -> Result<Recovered> {
        let checkout = &plan.checkout;
        let moved = standing(&plan.trash)? != Standing::Missing;
        let there = standing(&checkout.path)?;
        let registered = standing(&checkout.admin_dir())? != Standing::Missing;
        if moved && registered {
            // What was written between the save and the rename was not looked at yet: give it back. Whatever took its
            // place meanwhile may be somebody's work too.
            if there != Standing::Missing {
                move_away(&checkout.path, &self.new_custody_path())?;
            }
            move_away(&plan.trash, &checkout.path)?;
            return Ok(Recovered::RolledBack);
        }
        let untouched = match there {
            Standing::Missing => false,
            Standing::Directory(found) if Some(&found) == checkout.identity.as_ref() => true,
            // After a finished drop anybody may have made something of that name.
            Standing::Directory(_) | Standing::NotADirectory => registered,
        };
        if !moved && untouched {
            return Ok(Recovered::RolledBack);
        }
        self.finish_drop(plan)?;
        Ok(Recovered::Finished)
    }
}

/// Renames a directory within its filesystem, never over something.
fn move_away(from: &Path, to: &Path) -> Result<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
        .map_err(|error| Error::io("move", from, error.into()))?;
    for path in [from, to] {
        if let Some(parent) = path.parent() {
            crate::objects::sync_directory(parent)?;
        }
    }
    Ok(())
}
