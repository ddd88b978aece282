//! Which directory something is, whatever its name.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};

use crate::error::{Error, Result};
use crate::model::DirectoryIdentity;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing: the one answer that means absent. Any other failure is an error, and unknown.
    Missing,
    /// A file, a link or something else that is no directory.
    NotADirectory,
    /// A directory.
    Directory(DirectoryIdentity),
}

/// Looks at `path` itself; a link there is not followed.
pub fn standing(path: &Path) -> Result<Standing> {
    use rustix::io::Errno;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    match rustix::fs::openat(CWD, path, flags, Mode::empty()) {
        Ok(directory) => of_open(&directory, path).map(Standing::Directory),
        Err(Errno::NOENT) => Ok(Standing::Missing),
        Err(Errno::NOTDIR | Errno::LOOP) => match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(Standing::NotADirectory),
            Err(error) => Err(Error::io("examine", path, error)),
        },
        Err(error) => Err(Error::io("open", path, error.into())),
    }
}

/// The identity of an open directory; `path` is for messages.
pub(crate) fn of_open(directory: impl AsFd, path: &Path) -> Result<DirectoryIdentity> {
    let failed = |error: rustix::io::Errno| Error::io("examine", path, error.into());
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let status = rustix::fs::statx(&directory, c"", AtFlags::EMPTY_PATH, wanted).map_err(failed)?;
    let filesystem = rustix::fs::fstatvfs(&directory).map_err(failed)?.f_fsid;
    let birth = StatxFlags::from_bits_retain(status.stx_mask).contains(StatxFlags::BTIME);
    Ok(DirectoryIdentity {
        filesystem: format!("{filesystem:x}"),
        inode: status.stx_ino,
        birth_nanos: birth.then(|| {
            i128::from(status.stx_btime.tv_sec) * 1_000_000_000
                + i128::from(status.stx_btime.tv_nsec)
        }),
    })
}
