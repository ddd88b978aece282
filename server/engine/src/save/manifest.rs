//! What a recovery point knows beside git's objects: mode bits, empty directories, how to put it back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::CommitId;
use crate::model::NotSaved;

/// The version of the layout; a reader refuses one that it does not know.
pub(crate) const VERSION: u32 = 1;

/// A path as JSON can hold it: UTF-8 as it is, any other byte (and `%`) as `%` and two hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub(crate) struct PathText(pub(crate) Vec<u8>);

impl From<PathText> for String {
    fn from(path: PathText) -> Self {
        let mut text = Self::with_capacity(path.0.len());
        for chunk in path.0.utf8_chunks() {
            text.push_str(&chunk.valid().replace('%', "%25"));
            for byte in chunk.invalid() {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
        text
    }
}

impl From<String> for PathText {
    fn from(text: String) -> Self {
        let bytes = text.as_bytes();
        let mut path = Vec::with_capacity(bytes.len());
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let code = bytes
                .get(at + 1..at + 3)
                .filter(|_| byte == b'%')
                .and_then(|digits| std::str::from_utf8(digits).ok())
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            path.push(code.unwrap_or(byte));
            at += if code.is_some() { 3 } else { 1 };
        }
        Self(path)
    }
}

/// How much of a recovery point is put back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// Files, index and HEAD: the save was a snapshot.
    Snapshot,
    /// Only what the commit beside it could not hold: raw bytes, modes, directories.
    BesideCommit,
}

/// The file `manifest` of a recovery point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The layout, [`VERSION`].
    pub(crate) version: u32,
    /// How much is put back.
    pub(crate) purpose: Purpose,
    /// HEAD's commit when it was saved (after the commit beside it); none while unborn.
    pub(crate) head: Option<CommitId>,
    /// The ref that HEAD named; none when detached.
    pub(crate) head_ref: Option<String>,
    /// The process's file mode creation mask: files not in `modes` have what git gives them under it.
    pub(crate) umask: u32,
    /// Permission bits that git does not give, of files.
    pub(crate) modes: BTreeMap<PathText, u32>,
    /// Permission bits that git does not give, of directories.
    pub(crate) directory_modes: BTreeMap<PathText, u32>,
    /// Directories without entries, with their permission bits.
    pub(crate) empty_directories: BTreeMap<PathText, u32>,
    /// Files that a checkout converts: written from their raw bytes even where the blob is the same.
    pub(crate) raw: Vec<PathText>,
    /// The modification time of the saved index: seconds and nanoseconds.
    pub(crate) index_mtime: Option<(u64, u32)>,
    /// The shared index that the saved index names.
    pub(crate) shared_index: Option<String>,
    /// What was left out.
    pub(crate) not_saved: Vec<NotSaved>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j6_any_bytes_survive_as_text() {
        for path in [
            &b"plain"[..],
            b"100%",
            b"\xff\xfe/x",
            b"%41",
            "ä\n\t\"".as_bytes(),
            b"%",
            b"a%f",
        ] {
            let text = String::from(PathText(path.to_vec()));
            assert_eq!(PathText::from(text).0, path);
        }
    }
}
