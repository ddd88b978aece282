//! A private copy of a checkout's index, read in-process: what git last knew, flags that hide edits left aside.

use std::fs::{File, FileTimes};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gix::bstr::{BStr, ByteSlice as _};
use gix::index::entry::{Flags, Mode, Stage};
use gix::index::{Entry, State};

use super::dir::{Kind, Stamp};
use crate::error::{Error, Result};

/// The age at which a scratch directory has no owner any more.
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// The index's bytes as they were, copied beside nothing that anybody else writes.
#[derive(Debug)]
pub(crate) struct IndexCopy {
    directory: tempfile::TempDir,
    /// The bytes of `index`; absent where the checkout has none yet.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The shared index that it names, by its file name.
    pub(crate) shared: Option<(String, Vec<u8>)>,
    /// When it was written. A copy must keep it: git tells racy entries by it, and would call edited files clean.
    pub(crate) mtime: SystemTime,
    /// The parsed entries, a split index merged.
    pub(crate) state: State,
}

impl IndexCopy {
    /// Copies the index of `admin` into a new directory below `scratch`.
    pub(crate) fn read(admin: &Path, scratch: &Path, hash: gix::hash::Kind) -> Result<Self> {
        let directory = scratch_directory(scratch)?;
        let source = admin.join("index");
        let Some((bytes, mtime)) = read_with_mtime(&source)? else {
            return Ok(Self {
                directory,
                bytes: None,
                shared: None,
                mtime: UNIX_EPOCH,
                state: State::new(hash),
            });
        };
        let copy = directory.path().join("index");
        write_with_mtime(&copy, &bytes, mtime)?;
        let shared = shared_index_name(&bytes, hash)
            .map(|name| copy_shared(admin, directory.path(), name))
            .transpose()?;
        // Parsed from the copy: the original may be truncated in place while it is mapped.
        let file = gix::index::File::at(&copy, hash, false, gix::index::decode::Options::default())
            .map_err(|error| Error::Busy {
                path: source.clone(),
                problem: format!("its index cannot be read: {error}"),
            })?;
        let state = State::from(file);
        if state.is_sparse() {
            return Err(Error::RepositoryUnsupported {
                path: source,
                problem: "the checkout has a sparse index; set index.sparse=false in it".to_owned(),
            });
        }
        Ok(Self {
            directory,
            bytes: Some(bytes),
            shared,
            mtime,
            state,
        })
    }

    /// The copy's path, for `GIT_INDEX_FILE`.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("index")
    }

    /// Every entry with its path.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&BStr, &Entry)> {
        self.state
            .entries()
            .iter()
            .map(|entry| (entry.path(&self.state), entry))
    }

    /// Whether an entry has a stage other than 0: a conflict not yet settled.
    pub(crate) fn is_unmerged(&self) -> bool {
        self.state
            .entries()
            .iter()
            .any(|entry| entry.stage() != Stage::Unconflicted)
    }

    /// The settled entry of `path`.
    pub(crate) fn entry(&self, path: &[u8]) -> Option<&Entry> {
        self.state
            .entry_by_path_and_stage(path.as_bstr(), Stage::Unconflicted)
    }

    /// Whether the index has `path` (in any stage) or something below it.
    pub(crate) fn tracks(&self, path: &[u8], is_dir: bool) -> bool {
        let entries = self.state.entries();
        let first = entries.partition_point(|entry| entry.path(&self.state).as_bytes() < path);
        if entries
            .get(first)
            .is_some_and(|entry| entry.path(&self.state).as_bytes() == path)
        {
            return true;
        }
        if !is_dir {
            return false;
        }
        let mut prefix = path.to_vec();
        prefix.push(b'/');
        let first =
            entries.partition_point(|entry| entry.path(&self.state).as_bytes() < &prefix[..]);
        entries
            .get(first)
            .is_some_and(|entry| entry.path(&self.state).as_bytes().starts_with(&prefix))
    }

    /// Whether `stamp` proves that the file still is what the entry says. Doubt means no.
    pub(crate) fn proves_unchanged(&self, entry: &Entry, stamp: &Stamp) -> bool {
        let kind = match entry.mode {
            Mode::FILE => stamp.kind() == Kind::File && !stamp.is_executable(),
            Mode::FILE_EXECUTABLE => stamp.kind() == Kind::File && stamp.is_executable(),
            Mode::SYMLINK => stamp.kind() == Kind::Link,
            _ => false,
        };
        let stat = &entry.stat;
        kind && entry.stage() == Stage::Unconflicted
            && !entry.flags.contains(Flags::INTENT_TO_ADD)
            // git marks an entry that it does not trust with the size 0.
            && (stat.size != 0 || entry.id.is_empty_blob())
            // The index keeps the low 32 bits of each.
            && stat.size == stamp.size as u32
            && stat.ino == stamp.inode as u32
            && (stat.mtime.secs, stat.mtime.nsecs) == (stamp.mtime.0 as u32, stamp.mtime.1)
            && (stat.ctime.secs, stat.ctime.nsecs) == (stamp.ctime.0 as u32, stamp.ctime.1)
            && self.is_older(stamp.mtime)
            && self.is_older(stamp.ctime)
    }

    /// Whether that time is at least a second before the index was written: later edits could share its stamp.
    fn is_older(&self, time: (i64, u32)) -> bool {
        let Ok(seconds) = u64::try_from(time.0) else {
            return false;
        };
        UNIX_EPOCH
            .checked_add(Duration::new(seconds, time.1) + Duration::from_secs(1))
            .is_some_and(|time| time <= self.mtime)
    }
}

/// A fresh directory of ours; the service's own, so that nobody else can reach it.
pub(crate) fn scratch_directory(scratch: &Path) -> Result<tempfile::TempDir> {
    crate::engine::make_private(scratch)?;
    sweep(scratch);
    tempfile::Builder::new()
        .prefix("save-")
        .tempdir_in(scratch)
        .map_err(|source| Error::io("create a directory in", scratch, source))
}

/// Deletes what killed processes left. Old enough means that no operation's deadline reaches back so far.
fn sweep(scratch: &Path) {
    let Ok(entries) = std::fs::read_dir(scratch) else {
        return;
    };
    for entry in entries.flatten() {
        let age = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .ok()
            .and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > ABANDONED) {
            // Only disk space is at stake; the next sweep tries again.
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

/// Reads a file of the admin directory; absent when there is none.
fn read_with_mtime(path: &Path) -> Result<Option<(Vec<u8>, SystemTime)>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("open", path, error)),
    };
    let read = || -> std::io::Result<(Vec<u8>, SystemTime)> {
        let mtime = file.metadata()?.modified()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok((bytes, mtime))
    };
    let mut read = read;
    read()
        .map(Some)
        .map_err(|error| Error::io("read", path, error))
}

/// Writes `bytes` and gives the file that modification time.
pub(crate) fn write_with_mtime(path: &Path, bytes: &[u8], mtime: SystemTime) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::create(path)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        file.set_times(FileTimes::new().set_modified(mtime))
    };
    write().map_err(|error| Error::io("write", path, error))
}

fn copy_shared(admin: &Path, directory: &Path, name: String) -> Result<(String, Vec<u8>)> {
    let source = admin.join(&name);
    let (bytes, mtime) = read_with_mtime(&source)?.ok_or_else(|| Error::Busy {
        path: source.clone(),
        problem: "the shared index that its index names is gone".to_owned(),
    })?;
    write_with_mtime(&directory.join(&name), &bytes, mtime)?;
    Ok((name, bytes))
}

/// The file name of the shared index that a split index names in its `link` extension.
fn shared_index_name(bytes: &[u8], hash: gix::hash::Kind) -> Option<String> {
    // Looked for by its signature: a false match only makes us look for a file, whose absence is then said.
    let length = hash.len_in_bytes();
    let mut from = 0;
    while let Some(at) = bytes[from..].find(b"link") {
        let start = from + at;
        let id = start + 8;
        let size = bytes
            .get(start + 4..id)?
            .try_into()
            .ok()
            .map(u32::from_be_bytes)?;
        let end = id + usize::try_from(size).ok()?;
        // Extensions are a chain that ends exactly at the checksum.
        if end <= bytes.len() - length && size as usize >= length && chain_ends(bytes, end, length)
        {
            let id = gix::ObjectId::try_from(bytes.get(id..id + length)?).ok()?;
            return (!id.is_null()).then(|| format!("sharedindex.{id}"));
        }
        from = start + 4;
    }
    None
}

/// Whether from `at` on there are only extensions up to the checksum of `length` bytes.
fn chain_ends(bytes: &[u8], mut at: usize, length: usize) -> bool {
    let end = bytes.len() - length;
    while at < end {
        let Some(size) = bytes
            .get(at + 4..at + 8)
            .and_then(|size| size.try_into().ok())
            .map(u32::from_be_bytes)
        else {
            return false;
        };
        at += 8 + size as usize;
    }
    at == end
}
