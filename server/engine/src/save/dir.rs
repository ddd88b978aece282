//! Opening what is below a directory by its handle, never through a symbolic link.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// A path relative to the checkout, with `/` between its parts, as a path of the file system.
pub(crate) fn as_path(relative: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(relative))
}

/// A directory held open: whatever happens to its name or to the links around it, paths below it stay below it.
#[derive(Debug)]
pub(crate) struct Root {
    handle: OwnedFd,
    path: PathBuf,
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Root {
    /// Opens the directory at `path`; a link there is refused.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let handle = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(|errno| {
            if errno == Errno::NOENT {
                Error::CheckoutAbsent {
                    path: path.to_owned(),
                }
            } else {
                Error::io("open", path, errno.into())
            }
        })?;
        Ok(Self {
            handle,
            path: path.to_owned(),
        })
    }

    /// Where it was when it was opened: for messages only.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory `relative` (empty: the root itself).
    pub(crate) fn directory(&self, relative: &[u8]) -> Result<OwnedFd, Errno> {
        self.open_at(relative, DIRECTORY, Mode::empty())
    }

    /// Opens the regular file `relative` for reading; a pipe in its place does not block.
    pub(crate) fn read(&self, relative: &[u8]) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        self.open_at(relative, flags, Mode::empty()).map(File::from)
    }

    /// The target of the link `relative`.
    pub(crate) fn link_target(&self, relative: &[u8]) -> Result<Vec<u8>, Errno> {
        let (parent, name) = split(relative);
        let parent = self.directory(parent)?;
        rustix::fs::readlinkat(&parent, as_path(name), Vec::new()).map(|target| target.into_bytes())
    }

    /// What is at `relative`, the link itself where there is one.
    pub(crate) fn stamp(&self, relative: &[u8]) -> Result<Stamp, Errno> {
        let (parent, name) = split(relative);
        let parent = self.directory(parent)?;
        Stamp::at(&parent, name)
    }

    fn open_at(&self, relative: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let path = if relative.is_empty() {
            Path::new(".")
        } else {
            as_path(relative)
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.handle, path, flags, mode, resolve) {
            // Kernels and sandboxes without openat2: the same walk, one part at a time.
            Err(Errno::NOSYS | Errno::PERM) => self.open_by_parts(relative, flags, mode),
            // The kernel could not rule out a rename race and asks for another try.
            Err(Errno::AGAIN) => self.open_by_parts(relative, flags, mode),
            other => other,
        }
    }

    fn open_by_parts(&self, relative: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        if relative.is_empty() {
            return rustix::fs::openat(&self.handle, ".", flags, mode);
        }
        let (parent, name) = split(relative);
        let mut current = rustix::fs::openat(&self.handle, ".", DIRECTORY, Mode::empty())?;
        for part in parent
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty())
        {
            if part == b".." {
                return Err(Errno::XDEV);
            }
            current = rustix::fs::openat(&current, as_path(part), DIRECTORY, Mode::empty())?;
        }
        if name == b".." {
            return Err(Errno::XDEV);
        }
        rustix::fs::openat(&current, as_path(name), flags | OFlags::NOFOLLOW, mode)
    }
}

/// The directory part and the last part of a relative path.
pub(crate) fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&relative[..at], &relative[at + 1..]),
        None => (b"", relative),
    }
}

/// `parent` and `name` as one relative path.
pub(crate) fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() {
        return name.to_vec();
    }
    let mut joined = Vec::with_capacity(parent.len() + 1 + name.len());
    joined.extend_from_slice(parent);
    joined.push(b'/');
    joined.extend_from_slice(name);
    joined
}

/// What kind of thing a directory entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A directory.
    Directory,
    /// A pipe, a socket or a device.
    Special,
}

/// What tells one state of a file from another, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The size in bytes.
    pub(crate) size: u64,
    /// Type and permission bits.
    pub(crate) mode: u32,
    /// The inode number.
    pub(crate) inode: u64,
    /// The time of the last change of content: seconds and nanoseconds.
    pub(crate) mtime: (i64, u32),
    /// The time of the last change of anything: seconds and nanoseconds.
    pub(crate) ctime: (i64, u32),
}

impl Stamp {
    /// The stamp of `name` in `directory`, not following a link.
    pub(crate) fn at(directory: &OwnedFd, name: &[u8]) -> Result<Self, Errno> {
        rustix::fs::statat(directory, as_path(name), AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| Self::of(&stat))
    }

    /// The stamp of an open file.
    pub(crate) fn of_open(file: &File) -> Result<Self, Errno> {
        rustix::fs::fstat(file).map(|stat| Self::of(&stat))
    }

    fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode,
            inode: stat.st_ino,
            mtime: (stat.st_mtime, stat.st_mtime_nsec as u32),
            ctime: (stat.st_ctime, stat.st_ctime_nsec as u32),
        }
    }

    /// The kind by its mode.
    pub(crate) fn kind(&self) -> Kind {
        match self.mode & 0o170_000 {
            0o100_000 => Kind::File,
            0o120_000 => Kind::Link,
            0o040_000 => Kind::Directory,
            _ => Kind::Special,
        }
    }

    /// Whether git would call the file executable.
    pub(crate) fn is_executable(&self) -> bool {
        self.mode & 0o100 != 0
    }

    /// The twelve permission bits.
    pub(crate) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}
