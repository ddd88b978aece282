//! The live index's lock, taken as git takes it, and marked so that one left by a crash is known as ours.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::index::write_with_mtime;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::model::Checkout;

/// `index.lock`, held. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct IndexLock {
    admin: PathBuf,
}

impl IndexLock {
    /// Takes the lock; none where somebody holds it.
    pub(crate) fn take(admin: &Path, instance: &str) -> Result<Option<Self>> {
        remove_stale(admin, instance)?;
        let path = admin.join("index.lock");
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let lock = Self {
                    admin: admin.to_owned(),
                };
                // git's own locks hold an index or nothing: this one can be told from them.
                file.write_all(marker(instance).as_bytes())
                    .map_err(|error| Error::io("write", &path, error))?;
                Ok(Some(lock))
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(Error::io("create", &path, error)),
        }
    }

    /// Replaces the index whole; it gets that modification time.
    pub(crate) fn replace(&self, bytes: &[u8], mtime: SystemTime) -> Result<()> {
        // Not in the lock itself, which has to stay recognisable until the new index is in place.
        let new = self.admin.join(NEW_INDEX);
        write_with_mtime(&new, bytes, mtime)?;
        std::fs::rename(&new, self.admin.join("index"))
            .map_err(|error| Error::io("replace the index by", &new, error))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        let path = self.admin.join("index.lock");
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "our own lock cannot be removed");
        }
    }
}

/// The name of a new index until it is in place; only the lock's holder writes it.
pub(crate) const NEW_INDEX: &str = "index.worktreed";

/// Removes a lock that a dead process of this service left. Anybody else's stays, however old.
pub(crate) fn remove_stale(admin: &Path, instance: &str) -> Result<()> {
    let path = admin.join("index.lock");
    let content = match std::fs::read(&path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    let Some(holder) = content.strip_prefix(prefix(instance).as_bytes()) else {
        return Ok(());
    };
    let mut words = std::str::from_utf8(holder).unwrap_or("").split_whitespace();
    let pid = words.next().and_then(|pid| pid.parse().ok());
    let started = words.next();
    // Cut short while it was written: its process died there.
    let (Some(pid), Some(started)) = (pid, started) else {
        return remove(&path);
    };
    if start_ticks(pid).as_deref() == Some(started) {
        return Ok(());
    }
    remove(&path)
}

impl Engine {
    /// Takes away the lock that a killed save of this service left on a checkout's index: until then nobody, the agent
    /// included, could stage anything.
    pub fn clear_stale_lock(&self, checkout: &Checkout) -> Result<()> {
        remove_stale(&checkout.admin_dir(), &self.config().instance_id)
    }
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
}

fn prefix(instance: &str) -> String {
    format!("worktreed {instance} ")
}

fn marker(instance: &str) -> String {
    let pid = std::process::id();
    let started = start_ticks(pid).unwrap_or_else(|| "unknown".to_owned());
    format!("{}{pid} {started}\n", prefix(instance))
}

/// When a process was started, in ticks since boot: a pid alone may belong to another by now.
fn start_ticks(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field may hold anything, in parentheses; the start is the twentieth after it (proc_pid_stat(5)).
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn c10_only_a_dead_lock_of_ours_is_removed() {
        let admin = tempfile::tempdir().unwrap();
        let path = admin.path().join("index.lock");
        let take = || IndexLock::take(admin.path(), "me").unwrap();
        let held = take().unwrap();
        assert!(take().is_none(), "a live one of ours is respected");
        drop(held);
        assert!(!path.exists());
        for foreign in ["", "DIRC", "worktreed other 1 1\n"] {
            std::fs::write(&path, foreign).unwrap();
            assert!(take().is_none(), "{foreign:?}");
            assert!(path.exists());
        }
        for dead in [
            "worktreed me 4194999 5\n",
            "worktreed me ",
            "worktreed me 1 0\n",
        ] {
            std::fs::write(&path, dead).unwrap();
            assert!(take().is_some(), "{dead:?}");
        }
    }
}
