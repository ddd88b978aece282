//! Registrations whose directory is gone: taken out so that they hold no branch, after what only they name was pinned.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::index::State;
use gix::objs::tree::EntryKind;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{Deadline, GitCommand, GitDir};
use crate::identity::{Standing, standing};
use crate::ids::CommitId;
use crate::model::{Checkout, RecoveryPoint};
use crate::probe::Head;
use crate::recovery::{add_commits, pin_without_directory};
use crate::save::admin;
use crate::save::index::IndexCopy;
use crate::save::tree::{FlatTree, flat_tree_of_commit, object_id};

/// The blobs of each index stage that a tree does not have at that path.
pub(crate) type Staged = BTreeMap<u32, Vec<(Vec<u8>, EntryKind, ObjectId)>>;

impl Engine {
    /// Takes out the registration of a checkout whose directory is gone. One that was taken out already is fine.
    pub(crate) fn take_out_orphan(&self, checkout: &Checkout) -> Result<()> {
        if standing(&checkout.path)? != Standing::Missing {
            return Err(Error::Busy {
                path: checkout.path.clone(),
                problem: "a directory stands where the checkout was".to_owned(),
            });
        }
        self.refuse_foreign_lock(checkout)?;
        self.pin_orphan(checkout)?;
        let lock = self.lock_repository(&checkout.common_dir)?;
        self.unregister(checkout, &lock)
    }

    /// Pins what only the registration names: commits of HEAD, its log and its own refs, content that was staged and
    /// not committed, the state of an operation. With the files gone it is all that is left of the work.
    pub(crate) fn pin_orphan(&self, checkout: &Checkout) -> Result<Option<RecoveryPoint>> {
        let admin = checkout.admin_dir();
        if standing(&admin)? == Standing::Missing {
            return Ok(None);
        }
        admin::refuse_submodule(&admin, &checkout.path)?;
        let tip = match (self.branch_tip(checkout)?, self.probe(checkout)?.head) {
            (Some(tip), _) | (None, Head::Detached(tip)) => tip,
            (None, _) => checkout.base_commit.clone(),
        };
        let needed = admin::refuse_operation(&admin, &checkout.path).is_err()
            || self.names_other_commits(checkout, &tip)?
            || !self.staged_in_orphan(checkout, &tip)?.is_empty();
        if !needed {
            return Ok(None);
        }
        pin_without_directory(self, checkout, &tip).map(Some)
    }

    fn names_other_commits(&self, checkout: &Checkout, tip: &CommitId) -> Result<bool> {
        let odb = self.open_repository(&checkout.common_dir)?.odb()?;
        let mut commits = vec![object_id(tip)?];
        add_commits(&mut commits, &odb, &admin::files(&checkout.admin_dir())?);
        if commits.len() == 1 {
            return Ok(false);
        }
        let mut input = format!("^{tip}\n");
        for commit in &commits[1..] {
            input.push_str(&format!("{commit}\n"));
        }
        let command = GitCommand::new(Some(&GitDir::bare(&checkout.common_dir)))
            .args(["rev-list", "--max-count=1", "--stdin"])
            .stdin(input.into_bytes())
            .deadline(Deadline::Ordinary);
        Ok(!self.git().run(command)?.stdout.is_empty())
    }

    /// What the registration's index has beyond the commit `tip`. An index that cannot be read is kept as bytes only:
    /// it must not hold the task up for ever.
    pub(crate) fn staged_in_orphan(&self, checkout: &Checkout, tip: &CommitId) -> Result<Staged> {
        let odb = self.open_repository(&checkout.common_dir)?.odb()?;
        match IndexCopy::read(&checkout.admin_dir(), &self.scratch(), odb.object_hash()) {
            Ok(index) => Ok(staged(&index.state, &flat_tree_of_commit(&odb, tip)?, &odb)),
            Err(error) => {
                tracing::warn!(path = %checkout.admin_dir().display(), %error, "what was staged in a lost checkout cannot be told");
                Ok(Staged::new())
            }
        }
    }
}

/// The blobs of `index` that `tree` does not have at that path.
pub(crate) fn staged(index: &State, tree: &FlatTree, odb: &gix::Repository) -> Staged {
    let mut stages = Staged::new();
    for entry in index.entries() {
        let path: &[u8] = entry.path(index);
        let same = tree.get(path).is_some_and(|known| known.1 == entry.id);
        let Some(mode) = entry.mode.to_tree_entry_mode() else {
            continue;
        };
        // An intent-to-add entry names the empty blob, which need not exist.
        if same || mode.is_commit() || odb.find_header(entry.id).is_err() {
            continue;
        }
        let stage = stages.entry(entry.stage_raw()).or_default();
        stage.push((path.to_vec(), mode.kind(), entry.id));
    }
    stages
}
