//! Resuming: the branch is checked out again, then a recovery point's raw files, modes, directories and index are put
//! back over it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::{BranchName, CommitId};
use crate::materialise::Provisioned;
use crate::model::{Checkout, MaterialisePlan, Observer, RecoveryPoint, Warning};
use crate::registration::NewHead;
use crate::repository::Repository;
use crate::save::dir::{Root, split};
use crate::save::index::write_with_mtime;
use crate::save::lock::IndexLock;
use crate::save::manifest::{Manifest, PathText, Purpose, VERSION};
use crate::save::put;
use crate::save::subject::{current_umask, filters_are_known, git_command, git_permissions, lossy};
use crate::save::tree::{FlatTree, blob, flat_tree, flat_tree_of_commit, object_id};

/// Blobs above this size are streamed by git instead of being held in memory.
const IN_MEMORY: u64 = 32 << 20;

/// What of the admin directory is put back beside the index; the rest is made anew or is only kept for its commits.
const ADMIN_FILES: [&str; 3] = ["ORIG_HEAD", "logs/HEAD", "config.worktree"];

/// Directories of the admin directory that are put back whole.
const ADMIN_DIRECTORIES: [&str; 3] = ["info/", "refs/worktree/", "refs/rewritten/"];

impl Engine {
    /// Rebuilds the directory: the branch at its tip, and over it what `restore` holds.
    pub fn resume(
        &self,
        checkout: &Checkout,
        restore: Option<&RecoveryPoint>,
        observer: &mut dyn Observer,
    ) -> Result<Provisioned> {
        let branch = NewHead::Branch(checkout.branch.clone());
        let Some(point) = restore else {
            return self.rebuild(checkout, &branch, observer);
        };
        let repository = self.open_repository(&checkout.common_dir)?;
        let saved = SavedState::read(&repository, point)?;
        let on_branch = saved.manifest.head_ref.as_deref() == Some(&*checkout.branch.full_ref());
        let head = match (&saved.manifest.head, saved.manifest.purpose) {
            (Some(head), Purpose::Snapshot) if !on_branch => NewHead::Detached(head.clone()),
            _ => branch,
        };
        let mut provisioned = self.rebuild(checkout, &head, observer)?;
        let mut put_back = || {
            PutBack {
                engine: self,
                checkout: &provisioned.checkout,
                repository: &repository,
                saved: &saved,
                root: Root::open(&provisioned.checkout.path)?,
                materialised: flat_tree_of_commit(&saved.odb, &provisioned.head)?,
            }
            .run(&provisioned.head, on_branch, observer)
        };
        let mut warnings = match put_back() {
            Ok(warnings) => warnings,
            Err(error) => {
                // Half of the work must not be handed out as if it were all of it: everything is still pinned.
                self.undo_materialise(&MaterialisePlan {
                    checkout: provisioned.checkout.clone(),
                    creates_refs: Vec::new(),
                    moves_refs: Vec::new(),
                })?;
                return Err(error);
            }
        };
        provisioned.warnings.append(&mut warnings);
        Ok(provisioned)
    }
}

/// A recovery point, read.
struct SavedState {
    odb: gix::Repository,
    manifest: Manifest,
    files: FlatTree,
    admin: FlatTree,
}

impl SavedState {
    fn read(repository: &Repository, point: &RecoveryPoint) -> Result<Self> {
        let odb = repository.odb()?;
        let damaged = |what: &str| {
            Error::Internal(format!("the recovery point {} has {what}", point.ref_name))
        };
        let tree = odb
            .find_commit(object_id(&point.commit)?)
            .ok()
            .and_then(|commit| commit.tree_id().ok().map(|id| id.detach()))
            .ok_or_else(|| damaged("no tree"))?;
        let entry = |name: &str| -> Result<Option<ObjectId>> {
            let tree = odb.find_tree(tree).map_err(|_| damaged("no tree"))?;
            Ok(tree.find_entry(name).map(|entry| entry.object_id()))
        };
        let manifest = entry("manifest")?.ok_or_else(|| damaged("no manifest"))?;
        let manifest: Manifest = serde_json::from_slice(&blob(&odb, manifest)?)
            .map_err(|_| damaged("a manifest that is not understood"))?;
        if manifest.version != VERSION {
            return Err(damaged("a layout of another version"));
        }
        let files = entry("files")?.ok_or_else(|| damaged("no files"))?;
        let files = flat_tree(&odb, files)?;
        let admin = match entry("admin")? {
            Some(admin) => flat_tree(&odb, admin)?,
            None => FlatTree::new(),
        };
        Ok(Self {
            odb,
            manifest,
            files,
            admin,
        })
    }
}

struct PutBack<'a> {
    engine: &'a Engine,
    checkout: &'a Checkout,
    repository: &'a Repository,
    saved: &'a SavedState,
    root: Root,
    materialised: FlatTree,
}

impl PutBack<'_> {
    fn run(
        &self,
        head: &CommitId,
        on_branch: bool,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Warning>> {
        let mut warnings = Vec::new();
        let manifest = &self.saved.manifest;
        let moved_on = self.moved_on(head)?;
        self.files(&moved_on, observer)?;
        self.modes(&moved_on)?;
        if manifest.purpose == Purpose::Snapshot {
            self.admin_files()?;
            // A saved index is relative to the commit that HEAD was at: over another it would stage the undoing of
            // whatever came since.
            if manifest.head.as_ref() == Some(head) {
                self.index()?;
            }
            if !on_branch {
                warnings.extend(self.attach_head(head)?);
            }
        }
        if filters_are_known(self.repository, self.checkout) {
            let index = self.checkout.admin_dir().join("index");
            let refresh = git_command(self.checkout, &index)
                .args(["update-index", "-q", "--refresh"])
                .accept(&[1]);
            self.engine.git().run(refresh)?;
        }
        Ok(warnings)
    }

    /// Paths that somebody committed to after the save, and that the save has no work of its own on: they stay as the
    /// branch has them. Beside a commit, and where git converts a file, other bytes than the blob's are no such work.
    fn moved_on(&self, head: &CommitId) -> Result<BTreeSet<Vec<u8>>> {
        let manifest = &self.saved.manifest;
        let Some(saved_head) = manifest.head.as_ref().filter(|saved| *saved != head) else {
            return Ok(BTreeSet::new());
        };
        let then = flat_tree_of_commit(&self.saved.odb, saved_head)?;
        let now = &self.materialised;
        let files = &self.saved.files;
        let is_work = |path: &Vec<u8>| {
            manifest.purpose == Purpose::Snapshot
                && files.get(path) != then.get(path)
                && !manifest.raw.iter().any(|raw| raw.0 == *path)
        };
        Ok(then
            .keys()
            .chain(now.keys())
            .filter(|path| then.get(*path) != now.get(*path) && !is_work(path))
            .cloned()
            .collect())
    }

    fn files(&self, moved_on: &BTreeSet<Vec<u8>>, observer: &mut dyn Observer) -> Result<()> {
        let files = &self.saved.files;
        for (path, (kind, _)) in files {
            put::refuse_hostile(&self.root, path, *kind == EntryKind::Link)?;
        }
        let gone = self.materialised.iter().filter(|(path, (kind, _))| {
            *kind != EntryKind::Commit && !files.contains_key(*path) && !moved_on.contains(*path)
        });
        for (path, _) in gone {
            put::remove(&self.root, path)?;
        }
        let raw: BTreeSet<&[u8]> = self
            .saved
            .manifest
            .raw
            .iter()
            .map(|path| &*path.0)
            .collect();
        let wanted: Vec<_> = files
            .iter()
            .filter(|(path, entry)| {
                let other = self.materialised.get(*path) != Some(entry) || raw.contains(&***path);
                other && entry.0 != EntryKind::Commit && !moved_on.contains(*path)
            })
            .collect();
        for (done, (path, (kind, id))) in wanted.iter().enumerate() {
            if done % 256 == 0 {
                observer.progress("restore", done as u64, wanted.len() as u64);
            }
            self.write(path, *kind, *id)?;
        }
        Ok(())
    }

    fn write(&self, path: &[u8], kind: EntryKind, id: ObjectId) -> Result<()> {
        if kind == EntryKind::Link {
            return put::write_link(&self.root, path, &blob(&self.saved.odb, id)?);
        }
        let executable = kind == EntryKind::BlobExecutable;
        let mode = self
            .saved
            .manifest
            .modes
            .get(&PathText(path.to_vec()))
            .copied();
        let mode = mode.unwrap_or_else(|| git_permissions(executable, self.saved.manifest.umask));
        put::write_file(&self.root, path, mode & 0o7777, &mut |file| {
            self.fill(file, path, id)
        })
    }

    fn fill(&self, file: &mut File, path: &[u8], id: ObjectId) -> Result<()> {
        let failed = |error| Error::io("write", &self.root.path().join(lossy(path)), error);
        let size = self
            .saved
            .odb
            .find_header(id)
            .map_err(|_| Error::Internal(format!("object {id} is missing")))?
            .size();
        if size <= IN_MEMORY {
            return file.write_all(&blob(&self.saved.odb, id)?).map_err(failed);
        }
        let index = self.checkout.admin_dir().join("index");
        let command =
            git_command(self.checkout, &index).args(["cat-file", "blob", &id.to_hex().to_string()]);
        self.engine
            .git()
            .run_streaming(command, &mut |chunk| file.write_all(chunk).map_err(failed))
            .map(drop)
    }

    /// Modes of files that were not written, empty directories, and last the directories' own modes: one without write
    /// permission could not be filled afterwards.
    fn modes(&self, moved_on: &BTreeSet<Vec<u8>>) -> Result<()> {
        let manifest = &self.saved.manifest;
        if manifest.umask != current_umask() {
            for (path, (kind, _)) in &self.saved.files {
                let executable = *kind == EntryKind::BlobExecutable;
                if executable || *kind == EntryKind::Blob {
                    let mode = git_permissions(executable, manifest.umask);
                    self.set_mode(path, false, mode, moved_on)?;
                }
            }
        }
        for (PathText(path), mode) in &manifest.modes {
            self.set_mode(path, false, *mode, moved_on)?;
        }
        for PathText(path) in manifest.empty_directories.keys() {
            put::refuse_hostile(&self.root, path, false)?;
            put::make_directories(&self.root, path)?;
        }
        let directories = manifest.empty_directories.iter();
        // Deeper ones first: a directory that may not be entered hides what is below it.
        for (PathText(path), mode) in directories.chain(&manifest.directory_modes).rev() {
            self.set_mode(path, true, *mode, &BTreeSet::new())?;
        }
        Ok(())
    }

    fn set_mode(
        &self,
        path: &[u8],
        is_dir: bool,
        mode: u32,
        moved_on: &BTreeSet<Vec<u8>>,
    ) -> Result<()> {
        put::refuse_hostile(&self.root, path, false)?;
        let permissions = mode & 0o7777;
        let current = self.root.stamp(path);
        let same_kind = current.is_ok_and(|stamp| {
            let found = stamp.kind() == crate::save::dir::Kind::Directory;
            found == is_dir && stamp.permissions() != permissions
        });
        if !same_kind || moved_on.contains(path) {
            return Ok(());
        }
        put::set_permissions(&self.root, path, is_dir, permissions)
    }

    fn admin_files(&self) -> Result<()> {
        let admin = Root::open(&self.checkout.admin_dir())?;
        for (path, (kind, id)) in &self.saved.admin {
            let wanted = ADMIN_FILES.iter().any(|file| file.as_bytes() == &**path)
                || ADMIN_DIRECTORIES
                    .iter()
                    .any(|directory| path.starts_with(directory.as_bytes()));
            if !wanted || *kind != EntryKind::Blob {
                continue;
            }
            put::refuse_hostile(&admin, path, false)?;
            let content = blob(&self.saved.odb, *id)?;
            let target = admin.path().join(crate::save::dir::as_path(path));
            put::write_file(
                &admin,
                path,
                git_permissions(false, current_umask()),
                &mut |file| {
                    file.write_all(&content)
                        .and_then(|()| file.sync_all())
                        .map_err(|error| Error::io("write", &target, error))
                },
            )?;
        }
        Ok(())
    }

    /// The saved index, with its time: git compares entries with it to find those that it must not trust.
    fn index(&self) -> Result<()> {
        let manifest = &self.saved.manifest;
        let (Some((seconds, nanos)), Some((_, id))) =
            (manifest.index_mtime, self.saved.admin.get(&b"index"[..]))
        else {
            return Ok(());
        };
        let admin = self.checkout.admin_dir();
        let mtime = UNIX_EPOCH + Duration::new(seconds, nanos.min(999_999_999));
        if let Some(name) = &manifest.shared_index {
            let plain = name.starts_with("sharedindex.") && split(name.as_bytes()).0.is_empty();
            let shared = self.saved.admin.get(name.as_bytes()).filter(|_| plain);
            let (_, shared) = shared.ok_or_else(|| {
                Error::Internal("a recovery point lacks its shared index".to_owned())
            })?;
            write_with_mtime(&admin.join(name), &blob(&self.saved.odb, *shared)?, mtime)?;
        }
        let instance = &self.engine.config().instance_id;
        let lock = IndexLock::take(&admin, instance)?.ok_or_else(|| Error::Busy {
            path: admin.join("index.lock"),
            problem: "the index is locked".to_owned(),
        })?;
        lock.replace(&blob(&self.saved.odb, *id)?, mtime)
    }

    /// Puts HEAD back on the other branch that it was on, where that is still possible.
    fn attach_head(&self, head: &CommitId) -> Result<Option<Warning>> {
        let detached = |why: &str| {
            let text = format!("HEAD was restored detached at {head}: {why}");
            Ok(Some(Warning::new("HEAD_RESTORED_DETACHED", text)))
        };
        let Some(name) = &self.saved.manifest.head_ref else {
            return detached("it was detached when it was saved");
        };
        let branch: Option<BranchName> = name
            .strip_prefix("refs/heads/")
            .and_then(|branch| branch.parse().ok());
        let Some(branch) = branch else {
            return detached("it named no branch");
        };
        let branches = self.engine.list_branches(self.repository)?;
        let found = branches
            .iter()
            .find(|candidate| candidate.name == branch.as_str().as_bytes());
        match found {
            None => detached("the branch that was checked out is gone"),
            Some(found) if found.tip != *head => {
                detached("the branch that was checked out moved on")
            }
            Some(found) if found.checked_out_at.is_some() => {
                detached("the branch is checked out elsewhere")
            }
            Some(_) => {
                let index = self.checkout.admin_dir().join("index");
                let attach =
                    git_command(self.checkout, &index).args(["symbolic-ref", "HEAD", name]);
                self.engine.git().run(attach)?;
                Ok(None)
            }
        }
    }
}
