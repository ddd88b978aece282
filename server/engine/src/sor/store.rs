//! The system of record on disk.

use std::path::Path;
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use super::handoff_json::{parse_handoff, render_handoff, warnings_about};
use super::{HANDOFF_FILE, Handoff, MAX_FILE_BYTES, SCHEMA_VERSION, SOR_FILES, default_init};
use crate::error::{Error, Result};
use crate::guard::{self, Refused};
use crate::ids::SorDir;
use crate::model::Warning;

/// What stands at the place of the handoff file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HandoffRead {
    /// The handoff, if there is one that can be understood.
    pub handoff: Option<Handoff>,
    /// Why what is there is not a handoff.
    pub problem: Option<String>,
    /// SHA-256 of the file's bytes, in hexadecimal; tells whether this handoff is recorded already.
    pub digest: Option<String>,
    /// What the caller should know about a handoff that was understood.
    pub warnings: Vec<Warning>,
}

/// A handoff as it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenHandoff {
    /// With everything that was filled in.
    pub handoff: Handoff,
    /// SHA-256 of the file's bytes, in hexadecimal.
    pub digest: String,
    /// What the caller should know.
    pub warnings: Vec<Warning>,
}

/// A file of the system of record as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaffoldFile {
    /// Its name, without `sor_dir`.
    pub name: String,
    /// Its bytes, at most [`MAX_FILE_BYTES`].
    pub content: Vec<u8>,
    /// Its mode as git has it: 0o100644 or 0o100755.
    pub mode: u32,
    /// Its size on disk.
    pub size_bytes: u64,
    /// Whether `content` is only the beginning.
    pub truncated: bool,
    /// When it was last written.
    pub modified: Option<SystemTime>,
}

/// Reads the handoff file of a checkout. Never fails: whatever is wrong is the `problem`.
pub fn read_handoff(checkout: &Path, sor_dir: &SorDir) -> HandoffRead {
    let bytes = match guard::read_file(checkout, &sor_dir.join(HANDOFF_FILE), MAX_FILE_BYTES) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return HandoffRead::default(),
        Err(refused) => {
            return HandoffRead {
                problem: Some(refused.to_string()),
                ..HandoffRead::default()
            };
        }
    };
    let digest = Some(digest_of(&bytes));
    match parse_handoff(&bytes) {
        Ok((mut handoff, warnings)) => {
            fill_init(&mut handoff, sor_dir);
            HandoffRead {
                handoff: Some(handoff),
                problem: None,
                digest,
                warnings,
            }
        }
        Err(problem) => HandoffRead {
            handoff: None,
            problem: Some(format!("{HANDOFF_FILE} cannot be used: {problem}")),
            digest,
            warnings: Vec::new(),
        },
    }
}

/// Writes the handoff file of a checkout; a reader sees the old one or the new one, whole. An empty `timestamp` becomes now, an empty
/// `commands.init` the path of `init.sh`.
pub fn write_handoff(
    checkout: &Path,
    sor_dir: &SorDir,
    handoff: &Handoff,
) -> Result<WrittenHandoff> {
    let mut handoff = handoff.clone();
    if handoff.timestamp.is_empty() {
        handoff.timestamp = now();
    }
    handoff.schema_version = SCHEMA_VERSION;
    fill_init(&mut handoff, sor_dir);
    handoff.validate()?;
    let bytes = render_handoff(&handoff);
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(Error::HandoffInvalid {
            problem: format!(
                "it has {} bytes as a file; at most {MAX_FILE_BYTES} are allowed",
                bytes.len()
            ),
        });
    }
    let relative = sor_dir.join(HANDOFF_FILE);
    refuse_obstacle(checkout, &relative)?;
    guard::write_atomic(checkout, &relative, &bytes, 0o644)?;
    Ok(WrittenHandoff {
        digest: digest_of(&bytes),
        warnings: warnings_about(&handoff),
        handoff,
    })
}

/// What only the owner of the checkout can settle is said as such, not as a failure of the service.
fn refuse_obstacle(checkout: &Path, relative: &str) -> Result<()> {
    match guard::read_prefix(checkout, relative, 0) {
        // A link at the file's own place is replaced, and its target is not touched.
        Err(Refused::Link { path }) if path == relative => Ok(()),
        Err(
            refused @ (Refused::Link { .. }
            | Refused::Directory { .. }
            | Refused::NotADirectory { .. }),
        ) => Err(Error::HandoffInvalid {
            problem: format!("{refused}; move it away"),
        }),
        _ => Ok(()),
    }
}

/// Reads every file of the system of record that is there, in a fixed order. What is no regular file is left out.
pub fn read_scaffold(checkout: &Path, sor_dir: &SorDir) -> Vec<ScaffoldFile> {
    let read = |name: &&str| {
        let content = guard::read_prefix(checkout, &sor_dir.join(name), MAX_FILE_BYTES).ok()??;
        Some(ScaffoldFile {
            name: (*name).to_owned(),
            mode: if content.mode & 0o100 == 0 {
                0o100_644
            } else {
                0o100_755
            },
            size_bytes: content.size,
            truncated: content.is_truncated(),
            modified: content.modified,
            content: content.bytes,
        })
    };
    SOR_FILES.iter().filter_map(read).collect()
}

fn fill_init(handoff: &mut Handoff, sor_dir: &SorDir) {
    if handoff.commands.init.is_empty() {
        handoff.commands.init = default_init(sor_dir);
    }
}

/// Now in the form that JavaScript's `toISOString` has.
fn now() -> String {
    jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S%.3fZ")
        .to_string()
}

fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
