//! The one way to delete: by directory handle, never through a link, never across a mount, and late.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

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
    let directory = open_directory(CWD, path).map_err(failed)?;
    let device = rustix::fs::fstat(&directory).map_err(failed)?.st_dev;
    empty(directory, device).map_err(failed)?;
    match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn open_directory<P: rustix::path::Arg>(at: impl AsFd, path: P) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

/// Empties a directory. Depth lives on the heap: a hostile tree must not end the process by its depth.
fn empty(top: OwnedFd, device: u64) -> rustix::io::Result<()> {
    let mut stack: Vec<(OwnedFd, Option<std::ffi::CString>)> = vec![(top, None)];
    while let Some((directory, name)) = stack.pop() {
        match empty_files(directory.as_fd())? {
            Some(child) => {
                let opened = open_child(directory.as_fd(), &child, device)?;
                stack.push((directory, name));
                stack.push((opened, Some(child)));
            }
            None => {
                if let (Some((parent, _)), Some(name)) = (stack.last(), name) {
                    rustix::fs::unlinkat(parent, &*name, AtFlags::REMOVEDIR)?;
                }
            }
        }
    }
    Ok(())
}

fn open_child(parent: BorrowedFd<'_>, name: &CStr, device: u64) -> rustix::io::Result<OwnedFd> {
    let opened = match open_directory(parent, name) {
        Err(rustix::io::Errno::ACCESS) => {
            // An agent may have closed its own directory to us; in the trash it is ours to open.
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            open_directory(parent, name)?
        }
        opened => opened?,
    };
    if rustix::fs::fstat(&opened)?.st_dev != device {
        return Err(rustix::io::Errno::XDEV);
    }
    Ok(opened)
}

/// Unlinks what is no directory, and names one directory that is left.
fn empty_files(directory: BorrowedFd<'_>) -> rustix::io::Result<Option<std::ffi::CString>> {
    let mut child = None;
    // Writable again, or nothing in it can be unlinked (review checkouts are not).
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
            child.get_or_insert_with(|| name.to_owned());
        } else {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(child)
}
