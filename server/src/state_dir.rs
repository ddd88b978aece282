//! The state directory: private, and of one server at a time.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

/// Why the state directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another server has it.
    #[error("the state directory {} is in use by another worktreed ({holder}); stop that one, or give --state-dir another directory", path.display())]
    Held {
        /// The directory.
        path: PathBuf,
        /// Its process and start, as it wrote them.
        holder: String,
    },
    /// It cannot be made or opened.
    #[error("the state directory {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The state directory, locked until this is dropped.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    /// Held open: the lock goes with it, also when the process is killed. Never removed, or two servers could each lock
    /// a file of that name.
    _lock: File,
}

impl StateDir {
    /// Makes the directory if missing, with mode 0700, and takes its lock.
    pub fn lock(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Io {
            path: path.to_owned(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed)?;
        let path = fs::canonicalize(path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(failed)?;
        let mut lock = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("worktreed.lock"))
            .map_err(failed)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut holder = String::new();
                // Not yet written, or unreadable: the refusal stands, only without a name.
                drop(lock.take(200).read_to_string(&mut holder));
                return Err(Error::Held {
                    path,
                    holder: holder.trim().replace(char::is_control, " "),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        let note = format!(
            "pid {}, started {}\n",
            std::process::id(),
            jiff::Timestamp::now().strftime("%FT%TZ")
        );
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(note.as_bytes()))
            .map_err(failed)?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The registry's file.
    pub fn registry(&self) -> PathBuf {
        self.path.join("registry.sqlite")
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.path.join("worktreed.sock")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_second_lock_is_refused_and_names_the_holder() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/state");
        let first = StateDir::lock(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let said = StateDir::lock(&path).unwrap_err().to_string();
        let pid = format!("pid {}", std::process::id());
        assert!(said.contains(&pid) && said.contains("started 2"), "{said}");
        drop(first);
        StateDir::lock(&path).unwrap();
    }
}
