//! Checkouts at commits that exist already: a task's, rebuilt, and a reviewer's.

use std::os::unix::fs::PermissionsExt as _;

use crate::branches::branch_holder;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::{CommitId, SorDir, TaskId, WorktreeId};
use crate::materialise::{Materialise, Provisioned};
use crate::model::{Checkout, MaterialisePlan, Observer};
use crate::registration::NewHead;
use crate::repository::Repository;

/// A wish for a review checkout.
#[derive(Debug, Clone)]
pub struct ReviewRequest {
    /// The review's id.
    pub id: WorktreeId,
    /// The repository's stored id.
    pub repo_id: String,
    /// The task under review; for a review without one, any label.
    pub task_id: TaskId,
    /// The commit.
    pub sha: CommitId,
    /// The filter definitions that may run: those recorded for the task, or, without one, those of now.
    pub filter_fingerprint: String,
}

impl Engine {
    /// Makes the directory of `checkout` anew, with HEAD on its branch at the tip, or detached. Never moves or makes a
    /// branch. A registration that was left without its directory is taken out first.
    pub fn rebuild(
        &self,
        checkout: &Checkout,
        head: &NewHead,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        let repository = self.open_repository(&checkout.common_dir)?;
        if let NewHead::Branch(branch) = head
            && self
                .branch_tip(&Checkout {
                    branch: branch.clone(),
                    ..checkout.clone()
                })?
                .is_none()
        {
            return Err(Error::BranchGone {
                branch: branch.clone(),
            });
        }
        self.take_out_orphan(checkout)?;
        if let NewHead::Branch(branch) = head
            && let Some(path) = branch_holder(&checkout.common_dir, branch)?
        {
            return Err(Error::BranchCheckedOut {
                branch: branch.clone(),
                path,
            });
        }
        let mut checkout = checkout.clone();
        checkout.identity = None;
        let plan = MaterialisePlan {
            checkout,
            creates_refs: Vec::new(),
            moves_refs: Vec::new(),
        };
        self.materialise(
            &Materialise {
                repository: &repository,
                plan: &plan,
                head: head.clone(),
            },
            &mut Vec::new(),
            observer,
        )
    }

    /// Makes a detached checkout whose files cannot be written.
    pub fn create_review(
        &self,
        repository: &Repository,
        request: &ReviewRequest,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        let sha = request.sha.clone();
        let checkout = Checkout {
            id: request.id,
            task_id: request.task_id.clone(),
            namespace: self.config().namespace.clone(),
            common_dir: repository.common_dir.clone(),
            path: self
                .reviews_dir(&request.repo_id)
                .join(request.id.to_string()),
            admin_id: request.id.to_string(),
            // Never made: a review has nothing to push.
            branch: format!("{}/review-{}", self.config().namespace, request.id).try_into()?,
            base_sha: sha.clone(),
            base_commit: sha.clone(),
            sor_dir: SorDir::try_from(String::new())?,
            identity: None,
            filter_fingerprint: request.filter_fingerprint.clone(),
        };
        let plan = MaterialisePlan {
            checkout,
            creates_refs: Vec::new(),
            moves_refs: Vec::new(),
        };
        let work = Materialise {
            repository,
            plan: &plan,
            head: NewHead::Detached(sha),
        };
        let provisioned = self.materialise(&work, &mut Vec::new(), observer)?;
        if let Err(error) = close_for_writing(&provisioned.checkout.path) {
            self.undo_materialise(&plan)?;
            return Err(error);
        }
        Ok(provisioned)
    }
}

/// Takes the write bits of every file below `path`. Links are left alone.
fn close_for_writing(path: &std::path::Path) -> Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        let failed = |error| Error::io("close for writing", &directory, error);
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                let mode = entry.metadata().map_err(failed)?.permissions().mode();
                let closed = std::fs::Permissions::from_mode(mode & !0o222);
                std::fs::set_permissions(entry.path(), closed).map_err(failed)?;
            }
        }
    }
    Ok(())
}
