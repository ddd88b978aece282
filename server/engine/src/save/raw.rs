//! The raw bytes of a checkout against a tree: what would have to be written to get exactly these files back.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _};

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use super::attributes::Conversion;
use super::dir::{Kind, Stamp};
use super::subject::{Conversions, Subject};
use super::tree::FlatTree;
use super::walk::Walk;
use crate::error::{Error, Result};
use crate::model::{NotSavedReason, Observer};
use crate::objects::ObjectWriter;

/// Files up to this size are read once into memory; larger ones are streamed twice.
const IN_MEMORY: u64 = 4 << 20;

/// The raw files of a checkout.
#[derive(Debug, Default)]
pub(crate) struct RawFiles {
    /// The blob of each file or link that is on disk, by its raw bytes.
    pub(crate) blobs: HashMap<Vec<u8>, (EntryKind, ObjectId)>,
    /// Files that a checkout converts.
    pub(crate) converted: Vec<Vec<u8>>,
}

impl RawFiles {
    /// Reads every file whose bytes are not proven, writing those that git does not have; what cannot be read is moved
    /// to `walk.not_saved`. Fails with [`Error::Busy`] where a file changes while it is read.
    pub(crate) fn read(
        subject: &Subject<'_>,
        walk: &mut Walk,
        conversions: &Conversions,
        objects: &mut ObjectWriter,
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let mut raw = Self::default();
        let mut left_out = Vec::new();
        let total = walk.files.len() as u64;
        for (done, (path, stamp)) in walk.files.iter().enumerate() {
            if done % 1024 == 0 {
                observer.progress("save", done as u64, total);
            }
            let conversion = conversions.of(path);
            if conversion == Conversion::Both && stamp.kind() == Kind::File {
                raw.converted.push(path.clone());
            }
            let proven = subject
                .index
                .entry(path)
                // A converted file has other bytes than its blob although git calls it clean.
                .filter(|_| conversion == Conversion::None || stamp.kind() == Kind::Link)
                .filter(|entry| subject.index.proves_unchanged(entry, stamp));
            let id = match proven {
                Some(entry) => entry.id,
                None => match read_one(subject, path, stamp, objects)? {
                    Ok(id) => id,
                    Err(reason) => {
                        left_out.push((path.clone(), reason, stamp.size));
                        continue;
                    }
                },
            };
            raw.blobs.insert(path.clone(), (kind_of(stamp), id));
        }
        for (path, reason, size) in left_out {
            walk.files.remove(&path);
            walk.leave_out(&path, reason, size);
        }
        walk.not_saved.sort_by(|a, b| a.path.cmp(&b.path));
        observer.progress("save", total, total);
        Ok(raw)
    }

    /// What of `walk` differs from `tree`: entries to put in, and paths to take out.
    pub(crate) fn changes(&self, walk: &Walk, subject: &Subject<'_>, tree: &FlatTree) -> Changes {
        let mut changes = Changes::default();
        for (path, entry) in &self.blobs {
            if tree.get(path) != Some(entry) {
                changes.upserts.push((path.clone(), entry.0, entry.1));
            }
        }
        for (path, (kind, _)) in tree {
            let gone = !self.blobs.contains_key(path) && !walk.is_unknown(path);
            if gone && !is_left_out(subject, path, *kind) {
                changes.removals.push(path.clone());
            }
        }
        changes.upserts.sort();
        changes
    }
}

/// A path that is not on disk and yet was not deleted: outside a sparse checkout, or a submodule's directory.
pub(crate) fn is_left_out(subject: &Subject<'_>, path: &[u8], kind: EntryKind) -> bool {
    if kind == EntryKind::Commit {
        return subject
            .root
            .stamp(path)
            .is_ok_and(|stamp| stamp.kind() == Kind::Directory);
    }
    subject.index.entry(path).is_some_and(|entry| {
        entry
            .flags
            .contains(gix::index::entry::Flags::SKIP_WORKTREE)
    })
}

/// The difference between a tree and the raw files.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Entries that the tree lacks or has otherwise, in order.
    pub(crate) upserts: Vec<(Vec<u8>, EntryKind, ObjectId)>,
    /// Entries of the tree that are not on disk.
    pub(crate) removals: Vec<Vec<u8>>,
}

impl Changes {
    /// Whether there is no difference.
    pub(crate) fn is_empty(&self) -> bool {
        self.upserts.is_empty() && self.removals.is_empty()
    }
}

/// The kind of tree entry that a file makes.
pub(crate) fn kind_of(stamp: &Stamp) -> EntryKind {
    match stamp.kind() {
        Kind::Link => EntryKind::Link,
        _ if stamp.is_executable() => EntryKind::BlobExecutable,
        _ => EntryKind::Blob,
    }
}

/// The blob of one file; the inner error is why it cannot be saved.
fn read_one(
    subject: &Subject<'_>,
    path: &[u8],
    stamp: &Stamp,
    objects: &mut ObjectWriter,
) -> Result<Result<ObjectId, NotSavedReason>> {
    if stamp.kind() == Kind::Link {
        let Ok(target) = subject.root.link_target(path) else {
            return Err(changed(subject, path));
        };
        return store(subject, path, &target, objects).map(Ok);
    }
    if stamp.size > subject.engine.config().max_saved_file {
        return Ok(Err(NotSavedReason::TooLarge));
    }
    let mut file = match subject.root.read(path) {
        Ok(file) => file,
        Err(rustix::io::Errno::NOENT) => return Err(changed(subject, path)),
        Err(_) => return Ok(Err(NotSavedReason::Unreadable)),
    };
    if !Stamp::of_open(&file).is_ok_and(|now| now == *stamp) {
        return Err(changed(subject, path));
    }
    let id = if stamp.size <= IN_MEMORY {
        let mut content = Vec::with_capacity(stamp.size as usize);
        match (&mut file).take(stamp.size + 1).read_to_end(&mut content) {
            Ok(read) if read as u64 == stamp.size => store(subject, path, &content, objects)?,
            Ok(_) => return Err(changed(subject, path)),
            Err(_) => return Ok(Err(NotSavedReason::Unreadable)),
        }
    } else {
        stream(subject, path, stamp, &mut file, objects)?
    };
    if !Stamp::of_open(&file).is_ok_and(|now| now == *stamp) {
        return Err(changed(subject, path));
    }
    Ok(Ok(id))
}

/// Writes a blob unless a tree or the index already keeps it alive.
fn store(
    subject: &Subject<'_>,
    path: &[u8],
    content: &[u8],
    objects: &mut ObjectWriter,
) -> Result<ObjectId> {
    let hash = subject.odb.object_hash();
    let id = gix::objs::compute_hash(hash, gix::objs::Kind::Blob, content)
        .map_err(|error| Error::Internal(format!("a blob cannot be hashed: {error}")))?;
    if is_in_head(subject, path, id) {
        return Ok(id);
    }
    objects.write_blob(content)
}

fn stream(
    subject: &Subject<'_>,
    path: &[u8],
    stamp: &Stamp,
    file: &mut File,
    objects: &mut ObjectWriter,
) -> Result<ObjectId> {
    let failed = |error: std::io::Error| {
        Error::io(
            "read",
            &subject.root.path().join(super::dir::as_path(path)),
            error,
        )
    };
    if subject.head_tree.contains_key(path) {
        let hash = subject.odb.object_hash();
        let mut hasher = gix::hash::hasher(hash);
        hasher.update(format!("blob {}\0", stamp.size).as_bytes());
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
        let id = hasher
            .try_finalize()
            .map_err(|error| Error::Internal(format!("a blob cannot be hashed: {error}")))?;
        if is_in_head(subject, path, id) {
            return Ok(id);
        }
        file.rewind().map_err(failed)?;
    }
    objects.write_blob_stream(file, stamp.size)
}

fn is_in_head(subject: &Subject<'_>, path: &[u8], id: ObjectId) -> bool {
    subject
        .head_tree
        .get(path)
        .is_some_and(|entry| entry.1 == id)
}

/// Something changed under our hands: the save starts over.
pub(crate) fn changed(subject: &Subject<'_>, path: &[u8]) -> Error {
    Error::Busy {
        path: subject.checkout.path.clone(),
        problem: format!(
            "{:?} changes while it is saved",
            super::subject::lossy(path)
        ),
    }
}
