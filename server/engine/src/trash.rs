//! The one way to delete: by directory handle, never through a link, never across a mount, and late.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

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
    let failed = |error: Errno| Error::io("delete", path, error.into());
    let directory = open_directory(CWD, path).map_err(failed)?;
    let device = rustix::fs::fstat(&directory).map_err(failed)?.st_dev;
    empty(directory, device).map_err(failed)?;
    match rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

fn open_directory<P: rustix::path::Arg>(at: impl AsFd, path: P) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, path, DIRECTORY, Mode::empty())
}

/// How many directories are held open at once. A hostile tree must use up neither the stack nor the file handles of the
/// process, so what lies deeper is first brought up to the top.
const MAX_OPEN: usize = 32;

struct Level {
    directory: OwnedFd,
    name: CString,
    children: Vec<CString>,
}

impl Level {
    fn enter(directory: OwnedFd, name: CString) -> rustix::io::Result<Self> {
        let children = empty_files(directory.as_fd())?;
        Ok(Self {
            directory,
            name,
            children,
        })
    }
}

/// Empties a directory.
fn empty(top: OwnedFd, device: u64) -> rustix::io::Result<()> {
    let mut top = Level::enter(top, CString::default())?;
    let mut stack: Vec<Level> = Vec::new();
    loop {
        let level = stack.last_mut().unwrap_or(&mut top);
        let Some(child) = level.children.pop() else {
            let Some(done) = stack.pop() else {
                return Ok(());
            };
            let parent = stack.last().unwrap_or(&top);
            rustix::fs::unlinkat(&parent.directory, &*done.name, AtFlags::REMOVEDIR)?;
            continue;
        };
        let opened = open_child(level.directory.as_fd(), &child, device)?;
        if stack.len() < MAX_OPEN {
            stack.push(Level::enter(opened, child)?);
            continue;
        }
        // A directory can be moved only while it may be written.
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
        let name = CString::new(uuid::Uuid::now_v7().to_string()).unwrap_or_default();
        let from = stack
            .last()
            .map_or(&top.directory, |level| &level.directory);
        rustix::fs::renameat(from, &*child, &top.directory, &*name)?;
        top.children.push(name);
    }
}

fn open_child(parent: BorrowedFd<'_>, name: &CStr, device: u64) -> rustix::io::Result<OwnedFd> {
    let opened = match open_below(parent, name) {
        Err(Errno::ACCESS) => {
            open_up(parent, name)?;
            open_below(parent, name)?
        }
        opened => opened?,
    };
    if rustix::fs::fstat(&opened)?.st_dev != device {
        return Err(Errno::XDEV);
    }
    Ok(opened)
}

/// Opens a directory unless something is mounted on it: what is mounted was not dropped, even if it comes from the same
/// filesystem.
fn open_below(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(parent, name, DIRECTORY, Mode::empty(), inside) {
        // Kernels and sandboxes without it still compare the device.
        Err(Errno::NOSYS | Errno::PERM) => open_directory(parent, name),
        opened => opened,
    }
}

/// An agent may have closed its own directory to us; in the trash it is ours to open. By handle: between two looks at a
/// name it can become a link.
fn open_up(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    // `fchmod` refuses such a handle; its name below /proc leads to the very directory.
    rustix::fs::chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)
}

/// Unlinks what is no directory, and names the directories that are left.
fn empty_files(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<CString>> {
    let mut children = Vec::new();
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
            children.push(name.to_owned());
        } else {
            match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(children)
}
