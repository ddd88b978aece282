//! The one way to delete: by directory handle, never through a link, never across a mount, and late.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// What a step of emptying did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrashReport {
    /// Dropped directories that are gone for good now.
    pub deleted: usize,
    /// Dropped directories that still wait.
    pub waiting: usize,
}

impl Engine {
    /// Deletes at most `max_directories` dropped directories, oldest first. One that cannot be deleted stays and is
    /// tried again next time.
    pub fn empty_trash(&self, max_directories: usize) -> Result<TrashReport> {
        let trash = self.trash_dir();
        let failed = |error| Error::io("list", &trash, error);
        let mut waiting: Vec<_> = std::fs::read_dir(&trash)
            .map_err(failed)?
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(failed)?
            .into_iter()
            .map(|entry| entry.path())
            .collect();
        // The names are UUIDv7: their order is the order in which they were dropped.
        waiting.sort();
        let mut report = TrashReport {
            deleted: 0,
            waiting: waiting.len(),
        };
        for path in waiting.iter().take(max_directories) {
            match delete_tree(path) {
                Ok(()) => {
                    report.deleted += 1;
                    report.waiting -= 1;
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "a dropped directory cannot be deleted yet")
                }
            }
        }
        Ok(report)
    }
}

/// Deletes the directory `path` and all below it.
pub(crate) fn delete_tree(path: &Path) -> Result<()> {
    let failed = |error: rustix::io::Errno| Error::io("delete", path, error.into());
    let directory = rustix::fs::openat(CWD, path, OPEN | OFlags::RDONLY, Mode::empty());
    empty(directory.map_err(failed)?).map_err(failed)?;
    match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

const OPEN: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory on the way down, and what is still to be visited in it.
struct Level {
    directory: OwnedFd,
    name: Option<CString>,
    children: Vec<CString>,
}

impl Level {
    fn open(directory: OwnedFd, name: Option<CString>) -> rustix::io::Result<Self> {
        let children = unlink_files(directory.as_fd())?;
        Ok(Self {
            directory,
            name,
            children,
        })
    }
}

/// Empties a directory. Depth lives on the heap: a hostile tree must not end the process by its depth.
fn empty(top: OwnedFd) -> rustix::io::Result<()> {
    let mut stack = vec![Level::open(top, None)?];
    while let Some(mut level) = stack.pop() {
        match level.children.pop() {
            Some(child) => {
                let opened = open_child(level.directory.as_fd(), &child)?;
                stack.push(level);
                stack.push(Level::open(opened, Some(child))?);
            }
            None => {
                if let (Some(parent), Some(name)) = (stack.last(), level.name) {
                    rustix::fs::unlinkat(&parent.directory, &*name, AtFlags::REMOVEDIR)?;
                }
            }
        }
    }
    Ok(())
}

/// Opens a directory below, and never what is mounted there: a bind mount has the same device number as its source.
fn open_child(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let open = |flags| rustix::fs::openat2(parent, name, OPEN | flags, Mode::empty(), inside);
    match open(OFlags::RDONLY) {
        Err(rustix::io::Errno::ACCESS) => {
            // An agent may have closed its own directory to us; in the trash it is ours to open. By handle: the name
            // could be a link by the time that its mode is changed.
            let handle = open(OFlags::PATH)?;
            let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
            rustix::fs::chmod(path, Mode::RWXU)?;
            open(OFlags::RDONLY)
        }
        opened => opened,
    }
}

/// Unlinks what is no directory, and names the directories.
fn unlink_files(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let mut children = Vec::new();
    // Writable again, or nothing in it can be unlinked.
    rustix::fs::fchmod(directory, Mode::RWXU)?;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(status.st_mode)
            }
            kind => kind,
        };
        if kind == FileType::Directory {
            children.push(name.to_owned());
            continue;
        }
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}
