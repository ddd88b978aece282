//! Recovery points: one commit that holds a checkout as it was, pinned by a private ref before a step that could lose it.
//!
//! Its tree: `files/` (raw bytes), `admin/` (index, log, own refs), `stage0` to `stage3` (what only the index had) and
//! `manifest`. Its parents: HEAD, the branch's tip, and every commit that only the admin directory names.

use std::collections::{BTreeMap, BTreeSet};
use std::time::UNIX_EPOCH;

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::CommitId;
use crate::model::{Checkout, RecoveryPoint};
use crate::objects::ObjectWriter;
use crate::orphan::{Staged, staged};
use crate::refs::RefEdit;
use crate::save::admin;
use crate::save::manifest::{Manifest, PathText, Purpose, VERSION};
use crate::save::raw::RawFiles;
use crate::save::subject::Subject;
use crate::save::tree::{FlatTree, commit_id, flat_tree_of_commit, object_id};
use crate::save::walk::Walk;

/// What goes into a recovery point, gathered before anything is written.
pub(crate) struct Contents<'a> {
    subject: &'a Subject<'a>,
    walk: &'a Walk,
    raw: &'a RawFiles,
    admin_files: Vec<admin::AdminFile>,
    /// Where HEAD is by now: the commit just made, or where it was.
    head: Option<CommitId>,
    tree: FlatTree,
    modes: BTreeMap<PathText, u32>,
}

impl<'a> Contents<'a> {
    /// Gathers; `head` is HEAD's commit by now.
    pub(crate) fn gather(
        subject: &'a Subject<'a>,
        walk: &'a Walk,
        raw: &'a RawFiles,
        head: Option<CommitId>,
    ) -> Result<Self> {
        let tree = match &head {
            Some(head) if subject.head.commit.as_ref() == Some(head) => subject.head_tree.clone(),
            Some(head) => flat_tree_of_commit(&subject.odb, head)?,
            None => FlatTree::new(),
        };
        Ok(Self {
            subject,
            walk,
            raw,
            admin_files: admin_files(subject)?,
            head,
            tree,
            modes: modes(subject, walk),
        })
    }

    /// Whether the commit at HEAD alone would not bring everything back.
    pub(crate) fn exceeds_commit(&self, dropping: bool) -> Result<bool> {
        let beyond = !self
            .raw
            .changes(self.walk, self.subject, &self.tree)
            .is_empty()
            || !self.raw.converted.is_empty()
            || !self.modes.is_empty()
            || !self.walk.directory_modes.is_empty()
            || !self.walk.empty_directories.is_empty()
            || self.has_staged_only();
        Ok(beyond || dropping && self.has_other_commits()?)
    }

    /// Whether the commit at HEAD, or the one that HEAD was at before the save, has this blob there.
    fn is_committed(&self, path: &[u8], id: ObjectId) -> bool {
        let has = |tree: &FlatTree| tree.get(path).is_some_and(|entry| entry.1 == id);
        has(&self.tree) || has(&self.subject.head_tree)
    }

    /// Whether the index has content that is neither in the commit nor on disk.
    pub(crate) fn has_staged_only(&self) -> bool {
        let mut known: Option<BTreeSet<ObjectId>> = None;
        self.subject.index.entries().any(|(path, entry)| {
            if self.is_committed(path, entry.id)
                || entry.id.is_empty_blob()
                || entry.mode.is_submodule()
            {
                return false;
            }
            let known = known.get_or_insert_with(|| {
                let committed = self.tree.values().map(|entry| entry.1);
                committed
                    .chain(self.raw.blobs.values().map(|blob| blob.1))
                    .collect()
            });
            !known.contains(&entry.id)
        })
    }

    /// The commits that the admin directory names, HEAD's and the branch's first.
    fn parents(&self) -> Result<Vec<ObjectId>> {
        let mut parents = Vec::new();
        let tip = self.subject.engine.branch_tip(self.subject.checkout)?;
        for commit in self
            .head
            .iter()
            .chain(&self.subject.head.commit)
            .chain(&tip)
        {
            let id = object_id(commit)?;
            if !parents.contains(&id) {
                parents.push(id);
            }
        }
        add_commits(&mut parents, &self.subject.odb, &self.admin_files);
        add_commits(
            &mut parents,
            &self.subject.odb,
            &branch_log(self.subject.checkout)?,
        );
        Ok(parents)
    }

    /// Whether a commit would be unreachable once the admin directory is gone.
    fn has_other_commits(&self) -> Result<bool> {
        let Some(head) = &self.head else {
            return Ok(true);
        };
        let others: Vec<String> = self
            .parents()?
            .into_iter()
            .map(|id| id.to_hex().to_string())
            .filter(|id| id != head.as_str() && id != self.subject.checkout.base_sha.as_str())
            .collect();
        if others.is_empty() {
            return Ok(false);
        }
        let mut input = others.join("\n");
        input.push_str(&format!("\n^{head}\n"));
        let command = self
            .subject
            .git(&self.subject.index.path())
            .args(["rev-list", "--max-count=1", "--stdin"])
            .stdin(input.into_bytes());
        Ok(!self.subject.engine.git().run(command)?.stdout.is_empty())
    }

    /// Writes the recovery commit and pins it.
    pub(crate) fn pin(
        &self,
        objects: &mut ObjectWriter,
        purpose: Purpose,
        message: &str,
    ) -> Result<RecoveryPoint> {
        let manifest = objects.write_blob(&to_json(&self.manifest(purpose))?)?;
        let mut entries = vec![(b"manifest".to_vec(), EntryKind::Blob, manifest)];
        entries.push((
            b"files".to_vec(),
            EntryKind::Tree,
            self.files_tree(objects)?,
        ));
        let admin = write_files(objects, &self.admin_files)?;
        entries.push((b"admin".to_vec(), EntryKind::Tree, admin));
        for (stage, tree) in self.stage_trees(objects)? {
            entries.push((format!("stage{stage}").into_bytes(), EntryKind::Tree, tree));
        }
        let tree = objects.edit_tree(None, &entries, &[])?;
        let commit = objects.write_commit(tree, &self.parents()?, message)?;
        objects.flush()?;
        crate::crash_point!("save.objects_written");
        let point = pin_ref(self.subject.engine, self.subject.checkout, commit)?;
        crate::crash_point!("save.recovery_pinned");
        self.read_back(commit)?;
        Ok(point)
    }

    /// Whether what was just written is there: a destructive step follows.
    fn read_back(&self, commit: ObjectId) -> Result<()> {
        let lost = |what: &dyn std::fmt::Display| {
            Error::Internal(format!("a recovery point cannot be read back: {what}"))
        };
        let commit = commit_id(commit)?;
        for (path, (kind, id)) in flat_tree_of_commit(&self.subject.odb, &commit)? {
            let known = path
                .strip_prefix(b"files/")
                .is_some_and(|path| self.tree.get(path).is_some_and(|known| known.1 == id));
            if !known && kind != EntryKind::Commit && self.subject.odb.find_header(id).is_err() {
                return Err(lost(&crate::save::subject::lossy(&path)));
            }
        }
        Ok(())
    }

    fn files_tree(&self, objects: &mut ObjectWriter) -> Result<ObjectId> {
        let changes = self.raw.changes(self.walk, self.subject, &self.tree);
        let base = match &self.head {
            Some(head) => Some(objects.commit_tree(object_id(head)?)?),
            None => None,
        };
        objects.edit_tree(base, &changes.upserts, &changes.removals)
    }

    /// A tree for each index stage, of the blobs that the commit does not have at that path.
    fn stage_trees(&self, objects: &mut ObjectWriter) -> Result<Vec<(u32, ObjectId)>> {
        let index = &self.subject.index.state;
        write_stages(objects, staged(index, &self.tree, &self.subject.odb))
    }

    fn manifest(&self, purpose: Purpose) -> Manifest {
        let texts = |map: &BTreeMap<Vec<u8>, u32>| -> BTreeMap<PathText, u32> {
            map.iter()
                .map(|(path, &mode)| (PathText(path.clone()), mode))
                .collect()
        };
        let index = &self.subject.index;
        let mtime = index.mtime.duration_since(UNIX_EPOCH).unwrap_or_default();
        Manifest {
            version: VERSION,
            purpose,
            head: self.head.clone(),
            head_ref: self.subject.head.symbolic.clone(),
            umask: self.subject.umask,
            modes: self.modes.clone(),
            directory_modes: texts(&self.walk.directory_modes),
            empty_directories: texts(&self.walk.empty_directories),
            raw: self.raw.converted.iter().cloned().map(PathText).collect(),
            index_mtime: index
                .bytes
                .is_some()
                .then(|| (mtime.as_secs(), mtime.subsec_nanos())),
            shared_index: index.shared.as_ref().map(|(name, _)| name.clone()),
            not_saved: self.walk.not_saved.clone(),
        }
    }
}

/// Pins what is left of a checkout whose directory is away: the branch's tip and whatever its registration names.
pub(crate) fn pin_without_directory(
    engine: &Engine,
    checkout: &Checkout,
    tip: &CommitId,
) -> Result<RecoveryPoint> {
    let repository = engine.open_repository(&checkout.common_dir)?;
    let odb = repository.odb()?;
    let mut objects = ObjectWriter::new(repository.odb()?);
    let admin = checkout.admin_dir();
    let files = if admin.is_dir() {
        admin::files(&admin)?
    } else {
        Vec::new()
    };
    let manifest = Manifest {
        version: VERSION,
        purpose: Purpose::BesideCommit,
        head: Some(tip.clone()),
        head_ref: Some(checkout.branch.full_ref()),
        umask: crate::save::subject::current_umask(),
        modes: BTreeMap::new(),
        directory_modes: BTreeMap::new(),
        empty_directories: BTreeMap::new(),
        raw: Vec::new(),
        index_mtime: None,
        shared_index: None,
        not_saved: Vec::new(),
    };
    let mut parents = vec![object_id(tip)?];
    add_commits(&mut parents, &odb, &files);
    add_commits(&mut parents, &odb, &branch_log(checkout)?);
    let mut entries = vec![
        (
            b"manifest".to_vec(),
            EntryKind::Blob,
            objects.write_blob(&to_json(&manifest)?)?,
        ),
        (
            b"files".to_vec(),
            EntryKind::Tree,
            objects.commit_tree(object_id(tip)?)?,
        ),
        (
            b"admin".to_vec(),
            EntryKind::Tree,
            write_files(&mut objects, &files)?,
        ),
    ];
    for (stage, tree) in write_stages(&mut objects, engine.staged_in_orphan(checkout, tip)?)? {
        entries.push((format!("stage{stage}").into_bytes(), EntryKind::Tree, tree));
    }
    let tree = objects.edit_tree(None, &entries, &[])?;
    let message = format!(
        "{}: recovery of task {}",
        checkout.namespace, checkout.task_id
    );
    let commit = objects.write_commit(tree, &parents, &message)?;
    objects.flush()?;
    pin_ref(engine, checkout, commit)
}

/// A tree for each index stage.
fn write_stages(objects: &mut ObjectWriter, stages: Staged) -> Result<Vec<(u32, ObjectId)>> {
    stages
        .into_iter()
        .map(|(stage, entries)| Ok((stage, objects.edit_tree(None, &entries, &[])?)))
        .collect()
}

fn pin_ref(engine: &Engine, checkout: &Checkout, commit: ObjectId) -> Result<RecoveryPoint> {
    let id = uuid::Uuid::now_v7();
    let point = RecoveryPoint {
        ref_name: format!("refs/{}/recovery/{id}", checkout.namespace),
        commit: commit_id(commit)?,
    };
    let create = RefEdit::create(&point.ref_name, &point.commit);
    engine.update_refs(&checkout.common_dir, &[create])?;
    Ok(point)
}

/// The log of the task's branch, in the form of an admin file: it goes when the branch goes, and may be the only one to
/// name a commit that was amended or reset away.
fn branch_log(checkout: &Checkout) -> Result<Vec<admin::AdminFile>> {
    let path = checkout
        .common_dir
        .join("logs")
        .join(checkout.branch.full_ref());
    match std::fs::read(&path) {
        Ok(content) => Ok(vec![(b"logs/branch".to_vec(), content)]),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(Error::io("read", &path, error)),
    }
}

/// Adds the commits that admin files name and that are there.
pub(crate) fn add_commits(
    parents: &mut Vec<ObjectId>,
    odb: &gix::Repository,
    files: &[admin::AdminFile],
) {
    let mut known: BTreeSet<ObjectId> = parents.iter().copied().collect();
    for id in admin::named_objects(files, odb.object_hash()) {
        let is_commit = odb
            .find_header(id)
            .is_ok_and(|header| header.kind() == gix::objs::Kind::Commit);
        if is_commit && known.insert(id) {
            parents.push(id);
        }
    }
}

fn to_json(manifest: &Manifest) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(manifest)
        .map_err(|error| Error::Internal(format!("a manifest cannot be written: {error}")))
}

/// A tree of these files; names that git refuses are no state of its own and are left out.
fn write_files(objects: &mut ObjectWriter, files: &[admin::AdminFile]) -> Result<ObjectId> {
    let mut entries = Vec::new();
    for (path, content) in files {
        let acceptable = path
            .split(|&byte| byte == b'/')
            .all(|part| crate::save::walk::is_acceptable(part, false));
        if acceptable {
            entries.push((path.clone(), EntryKind::Blob, objects.write_blob(content)?));
        }
    }
    objects.edit_tree(None, &entries, &[])
}

/// The admin files, with the index that was parsed and not whatever is there by now.
fn admin_files(subject: &Subject<'_>) -> Result<Vec<admin::AdminFile>> {
    let mut files = admin::files(&subject.admin)?;
    files.retain(|(path, _)| path != b"index" && !path.starts_with(b"sharedindex."));
    let index = subject.index.bytes.iter();
    files.extend(index.map(|bytes| (b"index".to_vec(), bytes.clone())));
    let shared = subject.index.shared.iter();
    files.extend(shared.map(|(name, bytes)| (name.clone().into_bytes(), bytes.clone())));
    Ok(files)
}

fn modes(subject: &Subject<'_>, walk: &Walk) -> BTreeMap<PathText, u32> {
    walk.files
        .iter()
        .filter(|(_, stamp)| stamp.kind() == crate::save::dir::Kind::File)
        .filter(|(_, stamp)| stamp.permissions() != subject.git_permissions(stamp.is_executable()))
        .map(|(path, stamp)| (PathText(path.clone()), stamp.permissions()))
        .collect()
}
