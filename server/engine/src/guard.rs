//! Files below a directory, opened by handle: no symbolic link is followed on the way, and a write is seen whole or not at all.
//!
//! An agent owns its checkout and may put a link anywhere in it. A path such as `checkout/.task/AGENT_HANDOFF.json` that is opened
//! by name would lead the service out of the checkout (law 10); here every segment is opened relative to the one before it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Error, Result};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Why a file that is there is not used.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// A symbolic link stands at the path or on the way to it.
    #[error("{path:?} is a symbolic link, which is not followed")]
    Link {
        /// The link, relative to the root.
        path: String,
    },
    /// A directory stands at the path.
    #[error("{path:?} is a directory")]
    Directory {
        /// The directory, relative to the root.
        path: String,
    },
    /// Something else than a directory stands on the way.
    #[error("{path:?} is not a directory")]
    NotADirectory {
        /// The obstacle, relative to the root.
        path: String,
    },
    /// A socket, a pipe or a device stands at the path.
    #[error("{path:?} is not a regular file")]
    Special {
        /// The file, relative to the root.
        path: String,
    },
    /// The file is larger than the caller reads.
    #[error("{path:?} has {size} bytes, more than the {cap} that are read")]
    TooLarge {
        /// The file, relative to the root.
        path: String,
        /// Its size.
        size: u64,
        /// The cap.
        cap: u64,
    },
    /// The path itself is not one that may be opened: absolute, empty, or with `.` or `..` in it.
    #[error("{path:?} is not a plain relative path")]
    NotPlain {
        /// The path.
        path: String,
    },
    /// The operating system refused.
    #[error("{path:?} cannot be read: {source}")]
    Io {
        /// The path, relative to the root.
        path: String,
        /// Its reason.
        source: std::io::Error,
    },
}

impl Refused {
    fn io(path: &str, errno: Errno) -> Self {
        Self::Io {
            path: path.to_owned(),
            source: errno.into(),
        }
    }
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// The bytes, at most as many as were asked for.
    pub bytes: Vec<u8>,
    /// The permission bits.
    pub mode: u32,
    /// The size of the whole file.
    pub size: u64,
    /// When it was last written, where the clock can say it.
    pub modified: Option<SystemTime>,
}

impl FileContent {
    /// Whether `bytes` is only the beginning.
    pub fn is_truncated(&self) -> bool {
        self.size > self.bytes.len() as u64
    }
}

/// Reads the file `relative` below `root`; `None` if nothing is there. A file of more than `cap` bytes is refused.
pub fn read_file(root: &Path, relative: &str, cap: u64) -> Result<Option<Vec<u8>>, Refused> {
    match read_prefix(root, relative, cap)? {
        Some(content) if content.is_truncated() => Err(Refused::TooLarge {
            path: relative.to_owned(),
            size: content.size,
            cap,
        }),
        other => Ok(other.map(|content| content.bytes)),
    }
}

/// Reads the first `cap` bytes of the file `relative` below `root`; `None` if nothing is there.
pub fn read_prefix(root: &Path, relative: &str, cap: u64) -> Result<Option<FileContent>, Refused> {
    let Some((parent, name)) = open_parent(root, relative, false)? else {
        return Ok(None);
    };
    // Looked at before it is opened: opening a device can have effects of its own.
    match rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => require_regular(&stat, relative)?,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(Refused::io(relative, errno)),
    }
    // NONBLOCK: a pipe put there in between must not hold the service until somebody writes to it.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let handle = match rustix::fs::openat(&parent, name, flags, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => {
            return Err(Refused::Link {
                path: relative.to_owned(),
            });
        }
        Err(errno) => return Err(Refused::io(relative, errno)),
    };
    let stat = rustix::fs::fstat(&handle).map_err(|errno| Refused::io(relative, errno))?;
    require_regular(&stat, relative)?;
    let mut bytes = Vec::new();
    let mut reader = File::from(handle).take(cap.saturating_add(1));
    reader
        .read_to_end(&mut bytes)
        .map_err(|source| Refused::Io {
            path: relative.to_owned(),
            source,
        })?;
    // The file may have grown or shrunk since it was measured: what was read decides.
    let read = bytes.len() as u64;
    let size = if read > cap {
        read.max(u64::try_from(stat.st_size).unwrap_or(u64::MAX))
    } else {
        read
    };
    bytes.truncate(usize::try_from(cap).unwrap_or(usize::MAX));
    Ok(Some(FileContent {
        bytes,
        mode: stat.st_mode & 0o7777,
        size,
        modified: modified(&stat),
    }))
}

fn modified(stat: &Stat) -> Option<SystemTime> {
    let seconds = u64::try_from(stat.st_mtime).ok()?;
    let nanos = u32::try_from(stat.st_mtime_nsec).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos))
}

fn require_regular(stat: &Stat, relative: &str) -> Result<(), Refused> {
    let path = relative.to_owned();
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Refused::Link { path }),
        FileType::Directory => Err(Refused::Directory { path }),
        _ => Err(Refused::Special { path }),
    }
}

/// Replaces the file `relative` below `root`: a reader sees the old file or the new one, also after a crash. Missing directories
/// are made. A link at the path is replaced, not followed; a directory there is refused.
pub fn write_atomic(root: &Path, relative: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let shown = root.join(relative);
    let opened =
        open_parent(root, relative, true).map_err(|refused| refused_write(&shown, refused))?;
    let Some((parent, name)) = opened else {
        return Err(Error::CheckoutAbsent {
            path: root.to_owned(),
        });
    };
    remove_abandoned(&parent, name);
    let temporary = temporary_name(name);
    let written = write_and_rename(&parent, &temporary, name, bytes, mode);
    if written.is_err() {
        // Ours by its random name. A failure leaves it for the next write of this file.
        let _ = rustix::fs::unlinkat(&parent, &temporary, AtFlags::empty());
    }
    written.map_err(|source| Error::io("write", &shown, source))
}

fn write_and_rename(
    parent: &OwnedFd,
    temporary: &str,
    name: &str,
    bytes: &[u8],
    mode: u32,
) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(parent, temporary, flags, Mode::from_raw_mode(0o600))?;
    let mut file = File::from(handle);
    file.write_all(bytes)?;
    // Set after the open, so that the umask of the process does not take bits away.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()?;
    rustix::fs::renameat(parent, temporary, parent, name)?;
    rustix::fs::fsync(parent)?;
    Ok(())
}

fn refused_write(shown: &Path, refused: Refused) -> Error {
    let source = match refused {
        Refused::Io { source, .. } => source,
        other => std::io::Error::other(other.to_string()),
    };
    Error::io("write", shown, source)
}

const TEMPORARY_MARK: &str = ".worktreed-tmp-";

/// Tells the temporary files of this process from those that a killed one left behind.
fn process_token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| uuid::Uuid::new_v4().simple().to_string())
}

fn temporary_name(name: &str) -> String {
    let unique = uuid::Uuid::new_v4().simple();
    format!(".{name}{TEMPORARY_MARK}{}-{unique}", process_token())
}

/// Whether a file of this name is the unfinished write of this service, and of which process.
fn token_of_temporary<'a>(entry: &'a str, name: &str) -> Option<&'a str> {
    let rest = entry.strip_prefix('.')?.strip_prefix(name)?;
    let (token, unique) = rest.strip_prefix(TEMPORARY_MARK)?.split_once('-')?;
    let is_id = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id(token) && is_id(unique)).then_some(token)
}

/// Removes what a killed process left of an earlier write of `name` (law 8). One process at a time owns a worktree root, so another
/// token is a dead process. Best effort: the write itself does not depend on it.
fn remove_abandoned(parent: &OwnedFd, name: &str) {
    let Ok(entries) = rustix::fs::Dir::read_from(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let Ok(entry_name) = entry.file_name().to_str() else {
            continue;
        };
        if token_of_temporary(entry_name, name).is_some_and(|token| token != process_token()) {
            let _ = rustix::fs::unlinkat(parent, entry_name, AtFlags::empty());
        }
    }
}

/// Opens the directory that holds `relative`, and gives the last segment. `None` if the directory or the root is not there.
fn open_parent<'a>(
    root: &Path,
    relative: &'a str,
    create: bool,
) -> Result<Option<(OwnedFd, &'a str)>, Refused> {
    let mut segments: Vec<&str> = relative.split('/').collect();
    let plain = |segment: &str| !matches!(segment, "" | "." | "..") && !segment.contains('\0');
    let not_plain = || Refused::NotPlain {
        path: relative.to_owned(),
    };
    if !segments.iter().all(|segment| plain(segment)) {
        return Err(not_plain());
    }
    let name = segments.pop().ok_or_else(not_plain)?;
    let mut handle = match rustix::fs::open(root, DIRECTORY, Mode::empty()) {
        Ok(handle) => handle,
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            return Err(Refused::NotADirectory {
                path: root.display().to_string(),
            });
        }
        Err(errno) => return Err(Refused::io(&root.display().to_string(), errno)),
    };
    let mut walked = PathBuf::new();
    for segment in segments {
        walked.push(segment);
        let shown = walked.display().to_string();
        if create {
            match rustix::fs::mkdirat(&handle, segment, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(Refused::io(&shown, errno)),
            }
        }
        handle = match rustix::fs::openat(&handle, segment, DIRECTORY, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => return Err(obstacle(&handle, segment, shown)),
            Err(errno) => return Err(Refused::io(&shown, errno)),
        };
    }
    Ok(Some((handle, name)))
}

/// Tells a link from another obstacle: open answers `ENOTDIR` for both.
fn obstacle(parent: &OwnedFd, segment: &str, path: String) -> Refused {
    match rustix::fs::statat(parent, segment, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
            Refused::Link { path }
        }
        _ => Refused::NotADirectory { path },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn reads_what_was_written_and_nothing_where_nothing_is() {
        let root = tempfile::tempdir().unwrap();
        assert!(read_file(root.path(), "a/b/file", 10).unwrap().is_none());
        write_atomic(root.path(), "a/b/file", b"text", 0o755).unwrap();
        assert_eq!(
            read_file(root.path(), "a/b/file", 4).unwrap().unwrap(),
            b"text"
        );
        let mode = root
            .path()
            .join("a/b/file")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(matches!(
            read_file(root.path(), "a/b/file", 3),
            Err(Refused::TooLarge {
                size: 4,
                cap: 3,
                ..
            })
        ));
        let prefix = read_prefix(root.path(), "a/b/file", 3).unwrap().unwrap();
        assert_eq!(
            (prefix.bytes.as_slice(), prefix.size),
            (b"tex".as_slice(), 4)
        );
    }

    #[test]
    fn refuses_links_directories_special_files_and_strange_paths() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        let root = tempfile::tempdir().unwrap();
        symlink(outside.path().join("secret"), root.path().join("link")).unwrap();
        symlink(outside.path(), root.path().join("dir")).unwrap();
        std::fs::create_dir(root.path().join("real")).unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            root.path().join("pipe"),
            Mode::from_raw_mode(0o600),
        )
        .unwrap();
        let read = |path: &str| read_file(root.path(), path, 100).unwrap_err();
        assert!(matches!(read("link"), Refused::Link { .. }));
        assert!(matches!(read("dir/secret"), Refused::Link { .. }));
        assert!(matches!(read("link/secret"), Refused::Link { .. }));
        assert!(matches!(read("pipe/x"), Refused::NotADirectory { .. }));
        assert!(matches!(read("real"), Refused::Directory { .. }));
        assert!(matches!(read("pipe"), Refused::Special { .. }));
        for path in ["", "/etc/passwd", "../x", "a/../b", "a//b", "."] {
            assert!(matches!(read(path), Refused::NotPlain { .. }), "{path:?}");
        }
        write_atomic(root.path(), "dir/new", b"x", 0o644).unwrap_err();
        assert!(!outside.path().join("new").exists());
        write_atomic(root.path(), "link", b"mine", 0o644).unwrap();
        assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"x");
        assert_eq!(
            read_file(root.path(), "link", 100).unwrap().unwrap(),
            b"mine"
        );
    }

    #[test]
    fn removes_only_the_temporary_files_of_dead_processes() {
        let root = tempfile::tempdir().unwrap();
        let dead = format!(".f{TEMPORARY_MARK}{}-{}", "0".repeat(32), "1".repeat(32));
        let alive = temporary_name("f");
        let agents = format!(".f{TEMPORARY_MARK}notes");
        for name in [&dead, &alive, &agents] {
            std::fs::write(root.path().join(name), "half").unwrap();
        }
        write_atomic(root.path(), "f", b"whole", 0o644).unwrap();
        let left = |name: &str| root.path().join(name).exists();
        assert_eq!(
            (left(&dead), left(&alive), left(&agents)),
            (false, true, true)
        );
    }

    #[test]
    fn leaves_no_temporary_file_when_the_write_fails() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("f/full")).unwrap();
        write_atomic(root.path(), "f", b"x", 0o644).unwrap_err();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }
}
