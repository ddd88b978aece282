//! A commit for people: git's own, filtered content through a private index, moved onto the branch by compare-and-swap.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use gix::ObjectId;

use super::dir::{Kind, split};
use super::index::scratch_directory;
use super::subject::{Subject, lossy};
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
    let paths = paths_to_add(subject, walk)?;
    if !paths.gone.is_empty() {
        let input = nul_terminated(&paths.gone);
        git(&["update-index", "-z", "--force-remove", "--stdin"], input)?;
    }
    if !paths.add.is_empty() {
        let input = nul_terminated(&paths.add);
        git(
            &["update-index", "-z", "--add", "--replace", "--stdin"],
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

fn paths_to_add(subject: &Subject<'_>, walk: &Walk) -> Result<Paths> {
    let ignored = subject.ignored_on_disk(walk)?;
    let mut add = BTreeSet::new();
    for (path, stamp) in &walk.files {
        let entry = subject.index.entry(path);
        let head = subject.head_tree.get(path);
        let proven = entry.is_some_and(|entry| {
            head.is_some_and(|head| head.1 == entry.id)
                && subject.index.proves_unchanged(entry, stamp)
        });
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

/// Commits what is in the checkout on the task's branch; none where nothing differs from HEAD.
pub(crate) fn commit(
    subject: &Subject<'_>,
    walk: &Walk,
    objects: &mut ObjectWriter,
    message: &str,
) -> Result<Option<CommitId>> {
    let Some(head) = &subject.head.commit else {
        return Ok(None);
    };
    let index = private_index(subject, walk, &[])?;
    let tree = write_tree(subject, &index, &[])?;
    let parent = object_id(head)?;
    if objects.commit_tree(parent)? == tree {
        return Ok(None);
    }
    let commit = commit_id(objects.write_commit(tree, &[parent], message)?)?;
    objects.flush()?;
    crate::crash_point!("save.commit_written");
    let update = RefEdit::update(&subject.checkout.branch.full_ref(), &commit, head);
    subject
        .engine
        .update_refs(&subject.checkout.common_dir, &[update])?;
    crate::crash_point!("save.branch_moved");
    Ok(Some(commit))
}

/// The tree of a private index.
pub(crate) fn write_tree(
    subject: &Subject<'_>,
    index: &PrivateIndex,
    environment: &[(&str, &Path)],
) -> Result<ObjectId> {
    let mut command = subject
        .git(&index.path())
        .args(["-c", "core.fsync=all", "write-tree"]);
    for (name, value) in environment {
        command = command.env(name, value);
    }
    let output = subject.engine.git().run(command)?.stdout;
    ObjectId::from_hex(output.trim_ascii_end())
        .map_err(|_| Error::Internal(format!("git write-tree answered {:?}", lossy(&output))))
}

/// Makes the live index agree with a commit just made, so that the checkout's own status is clean again. False where
/// somebody holds the index's lock: it is left as it is.
pub(crate) fn settle_index(subject: &Subject<'_>, commit: &CommitId) -> Result<bool> {
    let lock = subject.admin.join("index.lock");
    match OpenOptions::new().write(true).create_new(true).open(&lock) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(Error::io("create", &lock, error)),
    }
    crate::crash_point!("save.index_locked");
    let settled = settle_locked(subject, commit, &lock);
    if !matches!(settled, Ok(true)) {
        // Ours: made by O_EXCL a moment ago, and not renamed away.
        std::fs::remove_file(&lock).map_err(|error| Error::io("remove", &lock, error))?;
    }
    settled
}

fn settle_locked(subject: &Subject<'_>, commit: &CommitId, lock: &Path) -> Result<bool> {
    let live = super::index::IndexCopy::read(
        &subject.admin,
        &subject.engine.scratch(),
        subject.odb.object_hash(),
    )?;
    // An agent that staged something meanwhile keeps its index: it is right with regard to its own additions.
    if live.bytes != subject.index.bytes {
        return Ok(false);
    }
    let copy = live.path();
    // `-m` would refuse an entry whose file differs from it, which is every one that was just committed; no file is
    // touched without `-u`.
    let read = subject
        .git(&copy)
        .args(["read-tree", "--reset", commit.as_str()]);
    subject.engine.git().run(read)?;
    let refresh = subject
        .git(&copy)
        .args(["update-index", "-q", "--refresh"])
        .accept(&[1]);
    subject.engine.git().run(refresh)?;
    let failed = |error| Error::io("replace", &subject.admin.join("index"), error);
    let mtime = std::fs::metadata(&copy)
        .and_then(|metadata| metadata.modified())
        .map_err(failed)?;
    let bytes = std::fs::read(&copy).map_err(failed)?;
    super::index::write_with_mtime(lock, &bytes, mtime)?;
    std::fs::rename(lock, subject.admin.join("index")).map_err(failed)?;
    crate::crash_point!("save.index_replaced");
    Ok(true)
}
