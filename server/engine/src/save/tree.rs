//! A whole tree in one map, by path.

use std::collections::BTreeMap;

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::index::IndexCopy;
use super::walk::Tracked;
use crate::error::{Error, Result};
use crate::ids::CommitId;

/// Every entry of a tree that is not itself a tree.
pub(crate) type FlatTree = BTreeMap<Vec<u8>, (EntryKind, ObjectId)>;

/// The object id that a [`CommitId`] spells.
pub(crate) fn object_id(commit: &CommitId) -> Result<ObjectId> {
    ObjectId::from_hex(commit.as_str().as_bytes())
        .map_err(|_| Error::Internal(format!("{commit} is not an object id")))
}

/// The [`CommitId`] that spells an object id.
pub(crate) fn commit_id(id: ObjectId) -> Result<CommitId> {
    Ok(id.to_hex().to_string().parse()?)
}

/// The tree of `commit` in one map.
pub(crate) fn flat_tree_of_commit(odb: &gix::Repository, commit: &CommitId) -> Result<FlatTree> {
    let tree = odb
        .find_commit(object_id(commit)?)
        .map_err(|error| unreadable(commit.as_str(), &error))?
        .tree_id()
        .map_err(|error| unreadable(commit.as_str(), &error))?
        .detach();
    flat_tree(odb, tree)
}

/// The tree `id` in one map.
pub(crate) fn flat_tree(odb: &gix::Repository, id: ObjectId) -> Result<FlatTree> {
    let name = id.to_hex().to_string();
    let entries = odb
        .find_tree(id)
        .map_err(|error| unreadable(&name, &error))?
        .traverse()
        .breadthfirst
        .files()
        .map_err(|error| unreadable(&name, &error))?;
    Ok(entries
        .into_iter()
        .filter(|entry| !entry.mode.is_tree())
        .map(|entry| (entry.filepath.into(), (entry.mode.kind(), entry.oid)))
        .collect())
}

/// The content of the blob `id`.
pub(crate) fn blob(odb: &gix::Repository, id: ObjectId) -> Result<Vec<u8>> {
    odb.find_blob(id)
        .map(|mut blob| blob.take_data())
        .map_err(|error| unreadable(&id.to_hex().to_string(), &error))
}

fn unreadable(name: &str, error: &dyn std::fmt::Display) -> Error {
    Error::Internal(format!("object {name} cannot be read: {error}"))
}

/// What git has in a checkout: its index and HEAD's tree together. A path that only HEAD has was taken out of the index,
/// and its content on disk is work like any other.
#[derive(Debug)]
pub(crate) struct TrackedPaths<'a> {
    /// The index.
    pub(crate) index: &'a IndexCopy,
    /// HEAD's tree.
    pub(crate) head: &'a FlatTree,
    /// The service's own files: no rule of the repository makes them worth less.
    pub(crate) own: &'a [String],
}

impl Tracked for TrackedPaths<'_> {
    fn tracks(&self, path: &[u8], is_dir: bool) -> bool {
        let is_own = |own: &String| {
            let rest = own.as_bytes().strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || is_dir && rest.starts_with(b"/"))
        };
        if self.own.iter().any(is_own)
            || self.index.tracks(path, is_dir)
            || self.head.contains_key(path)
        {
            return true;
        }
        is_dir && has_below(self.head, path)
    }

    fn is_gitlink(&self, path: &[u8]) -> bool {
        self.index
            .entry(path)
            .is_some_and(|entry| entry.mode.is_submodule())
    }
}

/// Whether `tree` has something below the directory `path`.
pub(crate) fn has_below(tree: &FlatTree, path: &[u8]) -> bool {
    let mut prefix = path.to_vec();
    prefix.push(b'/');
    tree.range::<[u8], _>((
        std::ops::Bound::Included(&prefix[..]),
        std::ops::Bound::Unbounded,
    ))
    .next()
    .is_some_and(|(found, _)| found.starts_with(&prefix))
}
