//! The reason in git's own worktree lock: who holds a checkout, for people and for other tools.

use std::fmt;
use std::path::Path;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::model::Checkout;

/// The most bytes of a reason.
const MAX_REASON: usize = 200;

/// What the service writes into `locked`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockReason {
    /// The task.
    pub task: String,
    /// The lease's holder; empty without one.
    pub holder: String,
    /// The holder's process, 0 if unknown.
    pub pid: u64,
    /// The process's start in clock ticks since boot, 0 if unknown.
    pub start: u64,
    /// The lease's epoch, 0 without one.
    pub epoch: u64,
}

/// Whose lock a checkout has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockState {
    /// This service's.
    Ours,
    /// Somebody else's, with its reason.
    Foreign(String),
    /// None: somebody unlocked it.
    None,
}

struct Spelled<'a>(&'a str, &'a LockReason);

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(instance, reason) = self;
        let holder = if reason.holder.is_empty() {
            "-"
        } else {
            &reason.holder
        };
        write!(f, "worktreed {instance} {} {holder}", reason.task)?;
        write!(
            f,
            " pid {} start {} epoch {}",
            reason.pid, reason.start, reason.epoch
        )
    }
}

impl Engine {
    /// The text of a reason: one line without control characters, at most 200 bytes.
    pub(crate) fn spell_lock_reason(&self, reason: &LockReason) -> String {
        // The holder is free text from a client: it is cut first, so that the numbers behind it always fit.
        let mut reason = reason.clone();
        reason.holder = reason
            .holder
            .chars()
            .filter(|c| !c.is_control() && !c.is_whitespace())
            .collect();
        let room = MAX_REASON.saturating_sub(
            Spelled(
                &self.config().instance_id,
                &LockReason {
                    holder: String::new(),
                    ..reason.clone()
                },
            )
            .to_string()
            .len(),
        );
        while reason.holder.len() > room {
            reason.holder.pop();
        }
        let text = Spelled(&self.config().instance_id, &reason).to_string();
        let mut text: String = text.chars().filter(|c| !c.is_control()).collect();
        while text.len() > MAX_REASON {
            text.pop();
        }
        text
    }

    /// Whose lock `checkout` has; decided by the instance id in it.
    pub fn lock_state(&self, checkout: &Checkout) -> Result<LockState> {
        let path = checkout.admin_dir().join("locked");
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(LockState::None);
            }
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let text = String::from_utf8_lossy(&content[..content.len().min(4096)])
            .trim()
            .to_owned();
        let mut words = text.split(' ');
        let ours =
            words.next() == Some("worktreed") && words.next() == Some(&self.config().instance_id);
        Ok(if ours {
            LockState::Ours
        } else {
            LockState::Foreign(text)
        })
    }

    /// Refuses to go on under somebody else's lock.
    pub(crate) fn refuse_foreign_lock(&self, checkout: &Checkout) -> Result<()> {
        match self.lock_state(checkout)? {
            LockState::Foreign(reason) => Err(Error::ForeignLock {
                path: checkout.path.clone(),
                reason,
            }),
            LockState::Ours | LockState::None => Ok(()),
        }
    }

    /// Mirrors a lease in git's worktree lock. A foreign lock is left as it is and reported.
    pub fn write_lock_reason(&self, checkout: &Checkout, reason: &LockReason) -> Result<()> {
        self.refuse_foreign_lock(checkout)?;
        replace(
            &checkout.admin_dir().join("locked"),
            self.spell_lock_reason(reason).as_bytes(),
        )
    }
}

/// Replaces a small file whole: readers see the old content or the new one.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", uuid::Uuid::now_v7()));
    let temporary = std::path::PathBuf::from(name);
    crate::registration::write_synced(&temporary, content)?;
    std::fs::rename(&temporary, path).map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        Error::io("replace", path, error)
    })
}
