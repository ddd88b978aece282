//! A commit for people: git's own, filtered content through a private index, moved onto the branch by compare-and-swap.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::attributes::Conversion;
use super::dir::{Kind, split};
use super::index::{IndexCopy, scratch_directory};
use super::lock::IndexLock;
use super::raw::RawFiles;
use super::subject::{Conversions, Subject, lossy};
use super::tree::{FlatTree, commit_id, object_id};
use super::walk::Walk;
use crate::error::{Error, Result};
use crate::ids::CommitId;
use crate::objects::ObjectWriter;
use crate::refs::RefEdit;

/// A private index that holds a checkout's content, and where it is.
pub(crate) struct PrivateIndex {
    directory: tempfile::TempDir,
}

impl PrivateIndex {
    /// The index's path.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("index")
    }
}

/// Fills a private index with what `git add --all` would take, whatever flags or stale times the live index has:
/// HEAD's tree without any stat data, then every path that differs from it, by name. `environment` is given to git.
pub(crate) fn private_index(
    subject: &Subject<'_>,
    walk: &Walk,
    environment: &[(&str, &Path)],
) -> Result<PrivateIndex> {
    let paths = paths_to_add(subject, walk, None)?;
    fill(subject, &paths, environment)
}

/// What a save has found out already: the raw blobs, and which files git converts.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// The raw blobs.
    pub(crate) raw: &'a RawFiles,
    /// How each file is converted.
    pub(crate) conversions: &'a Conversions,
}

impl Known<'_> {
    /// Whether `git add` would leave HEAD's entry of `path` as it is.
    fn is_unchanged(&self, subject: &Subject<'_>, path: &[u8]) -> bool {
        self.conversions.of(path) == Conversion::None
            && self.raw.blobs.contains_key(path)
            && self.raw.blobs.get(path) == subject.head_tree.get(path)
    }
}

fn fill(
    subject: &Subject<'_>,
    paths: &Paths,
    environment: &[(&str, &Path)],
) -> Result<PrivateIndex> {
    let index = PrivateIndex {
        directory: scratch_directory(&subject.engine.scratch())?,
    };
    let path = index.path();
    let git = |arguments: &[&str], input: Vec<u8>| {
        let mut command = subject.git(&path).args(arguments).stdin(input);
        for (name, value) in environment {
            command = command.env(name, value);
        }
        subject.engine.git().run(command)
    };
    match &subject.head.commit {
        Some(head) => git(
            &["read-tree", "--no-sparse-checkout", head.as_str()],
            Vec::new(),
        )?,
        None => git(&["read-tree", "--empty"], Vec::new())?,
    };
    if !paths.gone.is_empty() {
        let input = nul_terminated(&paths.gone);
        git(&["update-index", "-z", "--force-remove", "--stdin"], input)?;
    }
    if !paths.add.is_empty() {
        let input = nul_terminated(&paths.add);
        git(
            &[
                "update-index",
                "-z",
                "--add",
                "--remove",
                "--replace",
                "--stdin",
            ],
            input,
        )?;
    }
    Ok(index)
}

/// What differs from HEAD, as `git add --all` sees it.
struct Paths {
    add: BTreeSet<Vec<u8>>,
    gone: BTreeSet<Vec<u8>>,
}

fn paths_to_add(subject: &Subject<'_>, walk: &Walk, known: Option<Known<'_>>) -> Result<Paths> {
    let ignored = subject.ignored_on_disk(walk)?;
    let mut add = BTreeSet::new();
    for (path, stamp) in &walk.files {
        let entry = subject.index.entry(path);
        let head = subject.head_tree.get(path);
        let proven = entry.is_some_and(|entry| {
            head.is_some_and(|head| head.1 == entry.id)
                && subject.index.proves_unchanged(entry, stamp)
        });
        let proven = proven || known.is_some_and(|known| known.is_unchanged(subject, path));
        let untracked = head.is_none() && !subject.index.tracks(path, false);
        // What the agent's own rules ignore stays out of the commit; the recovery point beside it has it.
        if proven || untracked && (ignored.ignores(path) || is_below_submodule(subject, path)) {
            continue;
        }
        // An unreadable file would make git refuse all the others; the walk's caller reports it.
        if stamp.kind() == Kind::File && subject.root.read(path).is_err() {
            continue;
        }
        add.insert(path.clone());
    }
    Ok(Paths {
        gone: paths_gone(&subject.head_tree, subject, walk),
        add,
    })
}

fn paths_gone(head: &FlatTree, subject: &Subject<'_>, walk: &Walk) -> BTreeSet<Vec<u8>> {
    head.iter()
        .filter(|(path, _)| !walk.files.contains_key(*path) && !walk.is_unknown(path))
        .filter(|(path, (kind, _))| !super::raw::is_left_out(subject, path, *kind))
        .map(|(path, _)| path.clone())
        .collect()
}

fn is_below_submodule(subject: &Subject<'_>, path: &[u8]) -> bool {
    let mut parent = split(path).0;
    while !parent.is_empty() {
        if subject
            .index
            .entry(parent)
            .is_some_and(|entry| entry.mode.is_submodule())
        {
            return true;
        }
        parent = split(parent).0;
    }
    false
}

fn nul_terminated(paths: &BTreeSet<Vec<u8>>) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(path);
        input.push(0);
    }
    input
}

/// A commit made on the task's branch.
pub(crate) struct Made {
    /// The commit.
    pub(crate) commit: CommitId,
    /// The live index by now.
    pub(crate) index: Vec<u8>,
}

/// Commits what is in the checkout on the task's branch; none where nothing differs from HEAD.
pub(crate) fn commit(
    subject: &Subject<'_>,
    walk: &Walk,
    known: Known<'_>,
    objects: &mut ObjectWriter,
    message: &str,
) -> Result<Option<Made>> {
    let Some(head) = &subject.head.commit else {
        return Ok(None);
    };
    let paths = paths_to_add(subject, walk, Some(known))?;
    if paths.add.is_empty() && paths.gone.is_empty() {
        return Ok(None);
    }
    let index = fill(subject, &paths, &[])?;
    let tree = write_tree(subject, &index, &[])?;
    let parent = object_id(head)?;
    if objects.commit_tree(parent)? == tree {
        return Ok(None);
    }
    let commit = commit_id(objects.write_commit(tree, &[parent], message)?)?;
    objects.flush()?;
    objects.sync_directories()?;
    crate::crash_point!("save.commit_written");
    // The index first: were the branch to move and the index not, the agent's next commit would undo this one. The other
    // way round everything is merely staged.
    let lock = IndexLock::take(&subject.admin, &subject.engine.config().instance_id)?;
    let lock = lock.ok_or_else(|| super::raw::changed(subject, b"index"))?;
    crate::crash_point!("save.index_locked");
    let settled = settle_index(subject, &commit, &lock)?;
    let update = RefEdit::update(&subject.checkout.branch.full_ref(), &commit, head);
    subject
        .engine
        .update_refs(&subject.checkout.common_dir, &[update])?;
    crate::crash_point!("save.branch_moved");
    Ok(Some(Made {
        commit,
        index: settled,
    }))
}

/// The tree of a private index.
pub(crate) fn write_tree(
    subject: &Subject<'_>,
    index: &PrivateIndex,
    environment: &[(&str, &Path)],
) -> Result<ObjectId> {
    let mut command = subject.git(&index.path()).args(["write-tree"]);
    for (name, value) in environment {
        command = command.env(name, value);
    }
    let output = subject.engine.git().run(command)?.stdout;
    ObjectId::from_hex(output.trim_ascii_end())
        .map_err(|_| Error::Internal(format!("git write-tree answered {:?}", lossy(&output))))
}

/// Makes the live index agree with a commit, so that the checkout's own status is clean with it, and gives its bytes.
fn settle_index(subject: &Subject<'_>, commit: &CommitId, lock: &IndexLock) -> Result<Vec<u8>> {
    let live = IndexCopy::read(
        &subject.admin,
        &subject.engine.scratch(),
        subject.odb.object_hash(),
    )?;
    if live.bytes != subject.index.bytes {
        return Err(super::raw::changed(subject, b"index"));
    }
    let copy = live.path();
    // Without `-i` an entry whose file differs from it is refused, which is every one that was just committed; no file is
    // touched without `-u`.
    let read = subject
        .git(&copy)
        .args(["read-tree", "-i", "--reset", commit.as_str()]);
    subject.engine.git().run(read)?;
    let refresh = subject
        .git(&copy)
        .args(["update-index", "-q", "--refresh"])
        .accept(&[1]);
    subject.engine.git().run(refresh)?;
    let failed = |error| Error::io("read", &copy, error);
    let mtime = std::fs::metadata(&copy)
        .and_then(|metadata| metadata.modified())
        .map_err(failed)?;
    let bytes = std::fs::read(&copy).map_err(failed)?;
    lock.replace(&bytes, mtime)?;
    crate::crash_point!("save.index_replaced");
    Ok(bytes)
}
