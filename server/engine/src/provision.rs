//! Making a task's worktree: planned without a trace, then materialised whole.

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::branches::{branch_holder, read_ref};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{Deadline, GitCommand, GitDir};
use crate::ids::{CommitId, SorDir, TaskId, WorktreeId, branch_name_for_task};
use crate::lifecycle::needs_worktree;
use crate::materialise::{Materialise, Provisioned};
use crate::model::{Checkout, MaterialisePlan, Observer, Warning};
use crate::objects::ObjectWriter;
use crate::registration::NewHead;
use crate::repository::Repository;
use crate::save::tree::object_id;
use crate::sor;

/// What a branch is cut from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// HEAD of the checkout that was named.
    Head,
    /// A commit by its full id.
    Sha(CommitId),
    /// Anything that resolves to a commit.
    Ref(String),
}

/// A wish for a worktree.
#[derive(Debug, Clone)]
pub struct ProvisionRequest {
    /// The new row's id.
    pub id: WorktreeId,
    /// The task.
    pub task_id: TaskId,
    /// The repository's stored id.
    pub repo_id: String,
    /// The task's kind; empty and unknown count as `code`.
    pub kind: String,
    /// The isolation asked for; empty means `worktree`.
    pub isolation: String,
    /// The base.
    pub base: Base,
    /// What the system of record begins with.
    pub scaffold: sor::ScaffoldRequest,
    /// Where it lives.
    pub sor_dir: SorDir,
    /// The last worktree of this task whose branch was kept: re-attached at its tip, its baseline kept.
    pub known_branch: Option<Checkout>,
}

/// What [`Engine::provision`] will do.
#[derive(Debug, Clone)]
pub struct ProvisionPlan {
    /// The checkout to be made.
    pub checkout: Checkout,
    /// The base as it was given, or `HEAD`.
    pub base_ref: String,
    /// What the caller should know.
    pub warnings: Vec<Warning>,
    files: Vec<sor::SorFile>,
    removals: Vec<Vec<u8>>,
    attach: bool,
}

impl Engine {
    /// Checks a wish and resolves its base. Changes nothing.
    pub fn plan_provision(
        &self,
        repository: &Repository,
        request: &ProvisionRequest,
    ) -> Result<ProvisionPlan> {
        if !needs_worktree(&request.kind) {
            return Err(Error::TaskNeedsNoWorktree {
                kind: request.kind.clone(),
            });
        }
        if !matches!(&*request.isolation, "" | "worktree") {
            return Err(Error::IsolationNotProvisioned {
                isolation: request.isolation.clone(),
            });
        }
        sor::validate(&request.scaffold)?;
        self.refuse_mirror(repository)?;
        if repository.common_dir.join("reftable").is_dir() {
            return Err(Error::RepositoryUnsupported {
                path: repository.common_dir.clone(),
                problem: "its refs are in a reftable; convert it with `git refs migrate --ref-format=files`".to_owned(),
            });
        }
        let base_sha = self.resolve_base(repository, &request.base)?;
        let (base_sha, base_commit, attach) = match &request.known_branch {
            Some(known) if self.branch_tip(known)?.is_some() => {
                (known.base_sha.clone(), known.base_commit.clone(), true)
            }
            _ => (base_sha.clone(), base_sha, false),
        };
        let branch = branch_name_for_task(&self.config().namespace, &request.task_id);
        let branch = request
            .known_branch
            .as_ref()
            .map_or(branch, |known| known.branch.clone());
        let sor_dir = match &request.known_branch {
            Some(known) if attach => known.sor_dir.clone(),
            _ => request.sor_dir.clone(),
        };
        let checkout = Checkout {
            id: request.id,
            task_id: request.task_id.clone(),
            namespace: self.config().namespace.clone(),
            common_dir: repository.common_dir.clone(),
            path: self
                .config()
                .root
                .join(&request.repo_id)
                .join(request.task_id.as_str()),
            admin_id: request.id.to_string(),
            branch,
            base_sha,
            base_commit,
            sor_dir,
            identity: None,
            filter_fingerprint: repository.config.filter_fingerprint(),
        };
        if !attach {
            harmless_tip(&checkout)?;
        }
        let odb = repository.odb()?;
        let base = BaseTree {
            odb: &odb,
            root: tree_of(&odb, &checkout.base_sha)?,
        };
        let (files, removals) = if attach {
            (Vec::new(), Vec::new())
        } else {
            (
                sor::render(&request.task_id, &request.scaffold, &checkout.sor_dir),
                base.settle_sor(&checkout.sor_dir)?,
            )
        };
        let base_ref = match &request.base {
            Base::Head => "HEAD".to_owned(),
            Base::Sha(sha) => sha.to_string(),
            Base::Ref(name) => name.clone(),
        };
        Ok(ProvisionPlan {
            warnings: base.warnings()?,
            checkout,
            base_ref,
            files,
            removals,
            attach,
        })
    }

    /// Makes the worktree; what a failure leaves is taken back, and it is tried once more.
    pub fn provision(
        &self,
        repository: &Repository,
        plan: &ProvisionPlan,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        let mut warnings = plan.warnings.clone();
        match self.provision_once(repository, plan, &mut warnings, observer) {
            // Passing causes: a prune that took fresh objects, a lock of the moment.
            Err(Error::GitFailed { .. } | Error::Io { .. } | Error::Internal(_)) => {
                self.provision_once(repository, plan, &mut warnings, observer)
            }
            result => result,
        }
    }

    fn provision_once(
        &self,
        repository: &Repository,
        plan: &ProvisionPlan,
        warnings: &mut Vec<Warning>,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        let mut checkout = plan.checkout.clone();
        let branch = checkout.branch.clone();
        let (mut creates_refs, mut moves_refs) = (Vec::new(), Vec::new());
        if !plan.attach {
            let tip = harmless_tip(&checkout)?;
            checkout.base_commit = self.write_scaffold(repository, plan)?;
            crate::crash_point!("provision.objects_written");
            let name = branch.full_ref();
            match tip {
                None => creates_refs.push((name, checkout.base_commit.clone())),
                Some(tip) => moves_refs.push((name, checkout.base_commit.clone(), tip)),
            }
        }
        creates_refs.push((checkout.base_ref(), checkout.base_commit.clone()));
        let plan_to_make = MaterialisePlan {
            checkout,
            creates_refs,
            moves_refs,
        };
        let work = Materialise {
            repository,
            plan: &plan_to_make,
            head: NewHead::Branch(branch),
        };
        let mut provisioned = self.materialise(&work, warnings, observer)?;
        provisioned
            .warnings
            .extend(converted(&provisioned.checkout, &plan.files));
        Ok(provisioned)
    }

    /// The scaffold commit, straight into the object database: no index, no hook, no filter.
    fn write_scaffold(&self, repository: &Repository, plan: &ProvisionPlan) -> Result<CommitId> {
        let mut objects = ObjectWriter::new(repository.odb()?);
        let base = object_id(&plan.checkout.base_sha)?;
        let mut upserts = Vec::new();
        for file in &plan.files {
            let kind = if file.executable {
                EntryKind::BlobExecutable
            } else {
                EntryKind::Blob
            };
            let path = plan.checkout.sor_dir.join(file.name).into_bytes();
            upserts.push((path, kind, objects.write_blob(&file.content)?));
        }
        let tree = objects.commit_tree(base)?;
        let tree = objects.edit_tree(Some(tree), &upserts, &plan.removals)?;
        let message = format!(
            "{}: scaffold task {}",
            plan.checkout.namespace, plan.checkout.task_id
        );
        let commit = objects.write_commit(tree, &[base], &message)?;
        objects.flush()?;
        Ok(commit.to_hex().to_string().parse()?)
    }

    /// The commit that a base stands for.
    pub fn resolve_base(&self, repository: &Repository, base: &Base) -> Result<CommitId> {
        let name = match base {
            Base::Head => "HEAD",
            Base::Sha(sha) => sha.as_str(),
            Base::Ref(name) => name,
        };
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_control) {
            return Err(Error::invalid(
                "base_ref",
                format!("{name:?} is not the name of a commit"),
            ));
        }
        let command = GitCommand::new(Some(&GitDir::bare(&repository.git_dir)))
            .args([
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &format!("{name}^{{commit}}"),
            ])
            .accept(&[1, 128])
            .deadline(Deadline::Probe);
        let output = self.git().run(command)?;
        if output.exit_code == 0
            && let Ok(id) = String::from_utf8_lossy(&output.stdout).trim().parse()
        {
            return Ok(id);
        }
        if *base == Base::Head && !self.has_any_branch(repository)? {
            return Err(Error::RepositoryHasNoCommits {
                path: repository.path.clone(),
            });
        }
        Err(Error::BaseNotFound {
            base: name.to_owned(),
        })
    }

    /// Tells a repository without commits from one whose HEAD names a branch that is gone.
    fn has_any_branch(&self, repository: &Repository) -> Result<bool> {
        Ok(!self.list_branches(repository)?.is_empty())
    }
}

/// Where the task's branch is, if nothing is lost by moving it on: it is not there, or at the branch point. Anything else
/// is somebody's work, and never reset.
fn harmless_tip(checkout: &Checkout) -> Result<Option<CommitId>> {
    let branch = checkout.branch.clone();
    match read_ref(&checkout.common_dir, &branch.full_ref())? {
        Some(tip) if tip != checkout.base_sha => {
            Err(match branch_holder(&checkout.common_dir, &branch)? {
                Some(path) => Error::BranchCheckedOut { branch, path },
                None => Error::BranchExists {
                    branch,
                    tip,
                    holder: None,
                },
            })
        }
        tip => Ok(tip),
    }
}

fn tree_of(odb: &gix::Repository, commit: &CommitId) -> Result<ObjectId> {
    let unreadable = |error: &dyn std::fmt::Display| {
        Error::Internal(format!("the commit {commit} cannot be read: {error}"))
    };
    let found = odb
        .find_commit(object_id(commit)?)
        .map_err(|error| unreadable(&error))?;
    Ok(found
        .tree_id()
        .map_err(|error| unreadable(&error))?
        .detach())
}

/// The tree of the branch point.
struct BaseTree<'a> {
    odb: &'a gix::Repository,
    root: ObjectId,
}

struct Entry {
    name: Vec<u8>,
    kind: EntryKind,
    id: ObjectId,
}

impl BaseTree<'_> {
    fn unreadable(error: &dyn std::fmt::Display) -> Error {
        Error::Internal(format!("the base's tree cannot be read: {error}"))
    }

    /// The entries of `tree` whose names equal `name` but for case: on some disks they are one file.
    fn twins(&self, tree: ObjectId, name: &str) -> Result<Vec<Entry>> {
        let tree = self
            .odb
            .find_tree(tree)
            .map_err(|error| Self::unreadable(&error))?;
        let mut found = Vec::new();
        for entry in tree.iter() {
            let entry = entry.map_err(|error| Self::unreadable(&error))?;
            let entry_name: &[u8] = entry.filename();
            if entry_name.eq_ignore_ascii_case(name.as_bytes()) {
                found.push(Entry {
                    name: entry_name.to_vec(),
                    kind: entry.mode().kind(),
                    id: entry.object_id(),
                });
            }
        }
        Ok(found)
    }

    /// Refuses a base that owns a path of the system of record; gives what an earlier task left there, to be removed.
    fn settle_sor(&self, sor_dir: &SorDir) -> Result<Vec<Vec<u8>>> {
        let conflict = |path: String| Err(Error::SorFileConflict { path });
        let mut directory = self.root;
        let mut walked = String::new();
        for segment in sor_dir
            .as_str()
            .split('/')
            .filter(|segment| !segment.is_empty())
        {
            walked = if walked.is_empty() {
                segment.to_owned()
            } else {
                format!("{walked}/{segment}")
            };
            match &*self.twins(directory, segment)? {
                [] => return Ok(Vec::new()),
                [only] if only.name == segment.as_bytes() && only.kind == EntryKind::Tree => {
                    directory = only.id
                }
                _ => return conflict(walked),
            }
        }
        let mut removals = Vec::new();
        for name in sor::SOR_FILES {
            for entry in self.twins(directory, name)? {
                let path = sor_dir.join(&String::from_utf8_lossy(&entry.name));
                let file = matches!(entry.kind, EntryKind::Blob | EntryKind::BlobExecutable);
                if entry.name != name.as_bytes()
                    || !file
                    || !self.is_service_made(name, entry.id)?
                {
                    return conflict(path);
                }
                removals.push(path.into_bytes());
            }
        }
        Ok(removals)
    }

    fn is_service_made(&self, name: &str, id: ObjectId) -> Result<bool> {
        let blob = self
            .odb
            .find_blob(id)
            .map_err(|error| Self::unreadable(&error))?;
        Ok(sor::is_service_scaffold(name, &blob.data))
    }

    fn warnings(&self) -> Result<Vec<Warning>> {
        let mut warnings = Vec::new();
        let has = |name: &str, kind: EntryKind| -> Result<bool> {
            Ok(self
                .twins(self.root, name)?
                .iter()
                .any(|entry| entry.name == name.as_bytes() && entry.kind == kind))
        };
        if has(".gitmodules", EntryKind::Blob)? {
            warnings.push(Warning::new(
                "SUBMODULES_NOT_INITIALISED",
                "the base has submodules; they are left empty",
            ));
        }
        if has(".devcontainer", EntryKind::Tree)?
            || has(".devcontainer.json", EntryKind::Blob)?
            || has("devcontainer.json", EntryKind::Blob)?
        {
            warnings.push(Warning::new(
                "DEVCONTAINER_PRESENT",
                "the base describes a development container; this service starts none",
            ));
        }
        Ok(warnings)
    }
}

/// Attributes of the base may have changed the files on their way to disk.
fn converted(checkout: &Checkout, files: &[sor::SorFile]) -> Option<Warning> {
    let differs = files.iter().find(|file| {
        let path = checkout.sor_dir.join(file.name);
        let read = crate::guard::read_file(&checkout.path, &path, sor::MAX_FILE_BYTES);
        !matches!(read, Ok(Some(content)) if content == file.content)
    })?;
    let message = format!(
        "the repository's attributes changed {} on its way to disk",
        differs.name
    );
    Some(Warning::new("SOR_CONVERTED", message))
}
