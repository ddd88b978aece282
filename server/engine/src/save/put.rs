//! Writing below a checkout by handle. Names come from a recovery tree, which anybody may have made: none is trusted.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::dir::{Root, as_path, join, split};
use super::walk::is_acceptable;
use crate::error::{Error, Result};

/// Whether every part of `path` is a name that may be written; links and `..` on the way are refused on their own.
pub(crate) fn refuse_hostile(root: &Root, path: &[u8], is_link: bool) -> Result<()> {
    let (parent, name) = split(path);
    let relative = !path.starts_with(b"/");
    let mut parents = parent.split(|&byte| byte == b'/');
    let parents_fine =
        relative && (parent.is_empty() || parents.all(|part| is_acceptable(part, false)));
    if parents_fine && is_acceptable(name, is_link) {
        Ok(())
    } else {
        Err(Error::UnrepresentableName {
            path: root.path().to_owned(),
            name: String::from_utf8_lossy(path).into_owned(),
        })
    }
}

/// Makes the directory `path` and those above it. What is no directory and stands in the way is an error.
pub(crate) fn make_directories(root: &Root, path: &[u8]) -> Result<OwnedFd> {
    let failed = |errno: Errno| Error::io("make a directory in", root.path(), errno.into());
    match root.directory(path) {
        Ok(handle) => return Ok(handle),
        Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let mut current = root.directory(b"").map_err(failed)?;
    let mut so_far: Vec<u8> = Vec::new();
    for part in path
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
    {
        match rustix::fs::mkdirat(&current, as_path(part), Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        so_far = join(&so_far, part);
        current = root.directory(&so_far).map_err(failed)?;
    }
    Ok(current)
}

/// Takes the file or link `path` away, and the directories above it that become empty.
pub(crate) fn remove(root: &Root, path: &[u8]) -> Result<()> {
    let failed = |errno: Errno| Error::io("remove a file in", root.path(), errno.into());
    let (mut parent, name) = split(path);
    let directory = match root.directory(parent) {
        Ok(directory) => directory,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    match rustix::fs::unlinkat(&directory, as_path(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(failed(errno)),
    }
    while !parent.is_empty() {
        let (above, name) = split(parent);
        let removed = root
            .directory(above)
            .and_then(|above| rustix::fs::unlinkat(&above, as_path(name), AtFlags::REMOVEDIR));
        if removed.is_err() {
            break;
        }
        parent = above;
    }
    Ok(())
}

/// Writes a regular file in place of whatever is at `path`; `fill` writes its content.
pub(crate) fn write_file(
    root: &Root,
    path: &[u8],
    permissions: u32,
    fill: &mut dyn FnMut(&mut File) -> Result<()>,
) -> Result<()> {
    let failed = |errno: Errno| Error::io("write a file in", root.path(), errno.into());
    let (parent, name) = split(path);
    let directory = make_directories(root, parent)?;
    clear(&directory, name).map_err(failed)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Readable by nobody else until its real bits are known: it may be a key.
    let mode = Mode::from_raw_mode(0o600);
    let mut file: File = rustix::fs::openat(&directory, as_path(name), flags, mode)
        .map_err(failed)?
        .into();
    fill(&mut file)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(permissions)).map_err(failed)
}

/// Makes a symbolic link in place of whatever is at `path`.
pub(crate) fn write_link(root: &Root, path: &[u8], target: &[u8]) -> Result<()> {
    let failed = |errno: Errno| Error::io("make a link in", root.path(), errno.into());
    let (parent, name) = split(path);
    let directory = make_directories(root, parent)?;
    clear(&directory, name).map_err(failed)?;
    rustix::fs::symlinkat(as_path(target), &directory, as_path(name)).map_err(failed)
}

/// Gives the file or directory `path` its permission bits, following no link.
pub(crate) fn set_permissions(
    root: &Root,
    path: &[u8],
    is_dir: bool,
    permissions: u32,
) -> Result<()> {
    let failed = |errno: Errno| Error::io("set permissions in", root.path(), errno.into());
    let mode = Mode::from_raw_mode(permissions);
    if is_dir {
        let handle = root.directory(path).map_err(failed)?;
        return rustix::fs::fchmod(&handle, mode).map_err(failed);
    }
    let file = root.read(path).map_err(failed)?;
    rustix::fs::fchmod(&file, mode).map_err(failed)
}

/// Removes a file, a link or an empty directory that stands at `name`.
fn clear(directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(directory, as_path(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {
            rustix::fs::unlinkat(directory, as_path(name), AtFlags::REMOVEDIR)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn c17_nothing_is_written_through_a_link() {
        let outside = tempfile::tempdir().unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        let root = Root::open(inside.path()).unwrap();
        let mut fill = |_: &mut File| Ok(());
        assert!(write_file(&root, b"link/file", 0o644, &mut fill).is_err());
        assert!(write_link(&root, b"link/l", b"x").is_err());
        assert!(make_directories(&root, b"link/d").is_err());
        assert!(set_permissions(&root, b"link", true, 0o700).is_err());
        assert!(write_file(&root, b"../escape", 0o644, &mut fill).is_err());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        for hostile in [
            &b"../x"[..],
            b".git/config",
            b"a/.GIT/x",
            b"a//b",
            b"/abs",
            b"git~1/x",
        ] {
            assert!(
                refuse_hostile(&root, hostile, false).is_err(),
                "{hostile:?}"
            );
        }
    }
}
