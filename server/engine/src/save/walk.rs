//! One walk over a checkout: everything that is there, sorted into what is saved, what is left out, and what stops us.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use gix::bstr::ByteSlice as _;
use gix::validate::path::component;
use rustix::fs::Dir;
use rustix::io::Errno;

use super::dir::{Kind, Root, Stamp, join};
use super::ignore::{IgnoreRules, KeepList};
use crate::error::{Error, Result};
use crate::model::{NotSaved, NotSavedReason};

/// What a walk found. Two walks that are equal saw the same checkout.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Files and links to be saved: tracked, or not ignored by the branch point.
    pub(crate) files: BTreeMap<Vec<u8>, Stamp>,
    /// Directories without any entry, with their permission bits.
    pub(crate) empty_directories: BTreeMap<Vec<u8>, u32>,
    /// Other directories whose permission bits are not what git would give them.
    pub(crate) directory_modes: BTreeMap<Vec<u8>, u32>,
    /// What is left out.
    pub(crate) not_saved: Vec<NotSaved>,
    /// What could not be looked at: neither changed nor deleted, nor is anything below it.
    pub(crate) unknown: BTreeSet<Vec<u8>>,
    /// The first directory below the root that is a repository of its own.
    nested: Option<Vec<u8>>,
    /// The first name that git would not take into a tree.
    unrepresentable: Option<Vec<u8>>,
}

impl Walk {
    /// Refuses what neither a save nor a drop may go past.
    pub(crate) fn refuse_strange(&self, root: &Root) -> Result<()> {
        if let Some(nested) = &self.nested {
            return Err(Error::NestedRepository {
                path: root.path().to_owned(),
                nested: nested.to_str_lossy().into_owned(),
            });
        }
        match &self.unrepresentable {
            Some(name) => Err(Error::UnrepresentableName {
                path: root.path().to_owned(),
                name: name.to_str_lossy().into_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Whether nothing is known of `path`, because it or a directory above it could not be looked at.
    pub(crate) fn is_unknown(&self, path: &[u8]) -> bool {
        if self.unknown.is_empty() {
            return false;
        }
        let parents = path
            .iter()
            .enumerate()
            .filter(|&(_, &byte)| byte == b'/')
            .map(|(at, _)| &path[..at]);
        self.unknown.contains(path)
            || parents
                .into_iter()
                .any(|parent| self.unknown.contains(parent))
    }

    /// Names a file that was seen but cannot be saved.
    pub(crate) fn leave_out(&mut self, path: &[u8], reason: NotSavedReason, size: u64) {
        self.unknown.insert(path.to_vec());
        self.not_saved.push(NotSaved {
            path: path.to_vec(),
            reason,
            file_count: 1,
            size_bytes: size,
        });
    }

    /// A directory that cannot be looked into stands for all that is in it.
    fn leave_out_directory(&mut self, path: &[u8]) {
        self.unknown.insert(path.to_vec());
        self.not_saved.push(NotSaved {
            path: as_directory(path),
            reason: NotSavedReason::Unreadable,
            file_count: 1,
            size_bytes: 0,
        });
    }
}

/// The path with the slash by which a caller sees that it stands for a whole directory.
fn as_directory(path: &[u8]) -> Vec<u8> {
    [path, b"/"].concat()
}

/// What the walk needs to know about paths.
pub(crate) trait Tracked {
    /// Whether git has `path`, or for a directory something below it.
    fn tracks(&self, path: &[u8], is_dir: bool) -> bool;

    /// Whether `path` is a submodule's place.
    fn is_gitlink(&self, path: &[u8]) -> bool;
}

/// The rules of one walk.
pub(crate) struct Rules<'a> {
    /// What git has.
    pub(crate) tracked: &'a dyn Tracked,
    /// What is ignored by the branch point.
    pub(crate) ignored: &'a IgnoreRules,
    /// What of that must not be lost.
    pub(crate) keep: &'a KeepList,
    /// The permission bits of a directory that git makes.
    pub(crate) directory_mode: u32,
}

/// Where a directory stands with regard to the ignore rules.
#[derive(Clone, Copy)]
enum Within {
    /// Not ignored.
    Saved,
    /// Ignored, but git has something below it: its entries are judged one by one.
    Mixed,
    /// Ignored as a whole: counted in that entry of `not_saved`.
    Collapsed(usize),
}

/// Walks the whole checkout.
pub(crate) fn walk(root: &Root, rules: &Rules<'_>) -> Result<Walk> {
    let mut walk = Walk::default();
    // Directories are opened by path from the root's handle: no recursion, and one open handle, however deep they go.
    let mut pending = vec![(Vec::new(), Within::Saved)];
    while let Some((path, within)) = pending.pop() {
        let handle = match root.directory(&path) {
            Ok(handle) => handle,
            Err(errno) if path.is_empty() => {
                return Err(Error::io("open", root.path(), errno.into()));
            }
            Err(Errno::NOENT) => continue,
            Err(_) => {
                walk.leave_out_directory(&path);
                continue;
            }
        };
        let Ok(names) = names_in(&handle) else {
            if path.is_empty() {
                return Err(Error::io("list", root.path(), Errno::IO.into()));
            }
            walk.leave_out_directory(&path);
            continue;
        };
        walk.note_directory(&handle, &path, within, names.is_empty(), rules);
        for name in names {
            if name == b".git" {
                if !path.is_empty() {
                    walk.nested.get_or_insert_with(|| path.clone());
                }
                continue;
            }
            let entry = join(&path, &name);
            match Stamp::at(&handle, &name) {
                Ok(stamp) => walk.take(&mut pending, entry, &name, &stamp, within, rules),
                Err(Errno::NOENT) => {}
                Err(_) => walk.leave_out(&entry, NotSavedReason::Unreadable, 0),
            }
        }
    }
    walk.not_saved.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(walk)
}

impl Walk {
    fn note_directory(
        &mut self,
        handle: &OwnedFd,
        path: &[u8],
        within: Within,
        is_empty: bool,
        rules: &Rules<'_>,
    ) {
        if path.is_empty() || !matches!(within, Within::Saved) {
            return;
        }
        let Ok(stamp) = Stamp::at(handle, b".") else {
            return;
        };
        if is_empty {
            if !rules.tracked.is_gitlink(path) {
                self.empty_directories
                    .insert(path.to_vec(), stamp.permissions());
            }
        } else if stamp.permissions() != rules.directory_mode {
            self.directory_modes
                .insert(path.to_vec(), stamp.permissions());
        }
    }

    fn take(
        &mut self,
        pending: &mut Vec<(Vec<u8>, Within)>,
        path: Vec<u8>,
        name: &[u8],
        stamp: &Stamp,
        within: Within,
        rules: &Rules<'_>,
    ) {
        let is_dir = stamp.kind() == Kind::Directory;
        if let Within::Collapsed(slot) = within {
            self.take_ignored(pending, path, stamp, Some(slot), rules);
            return;
        }
        let tracked = rules.tracked.tracks(&path, is_dir);
        let ignored = matches!(within, Within::Mixed) || rules.ignored.matches(&path, is_dir);
        if ignored && !tracked {
            self.take_ignored(pending, path, stamp, None, rules);
            return;
        }
        if !is_acceptable(name, stamp.kind() == Kind::Link) {
            self.unrepresentable.get_or_insert_with(|| path.clone());
            return;
        }
        match stamp.kind() {
            Kind::Directory => {
                let within = if ignored {
                    Within::Mixed
                } else {
                    Within::Saved
                };
                pending.push((path, within));
            }
            Kind::File | Kind::Link => {
                self.files.insert(path, *stamp);
            }
            Kind::Special => self.leave_out(&path, NotSavedReason::SpecialFile, 0),
        }
    }

    /// Counts an ignored entry in `slot`; without one, or where the keep list says so, it gets an entry of its own.
    fn take_ignored(
        &mut self,
        pending: &mut Vec<(Vec<u8>, Within)>,
        path: Vec<u8>,
        stamp: &Stamp,
        slot: Option<usize>,
        rules: &Rules<'_>,
    ) {
        let is_dir = stamp.kind() == Kind::Directory;
        let slot_reason = slot.map(|slot| self.not_saved[slot].reason);
        let reason = if slot_reason == Some(NotSavedReason::IgnoredKept)
            || rules.keep.keeps(&path, is_dir)
        {
            NotSavedReason::IgnoredKept
        } else {
            NotSavedReason::Ignored
        };
        let slot = match slot {
            Some(slot) if slot_reason == Some(reason) => slot,
            _ => {
                self.not_saved.push(NotSaved {
                    path: if is_dir {
                        as_directory(&path)
                    } else {
                        path.clone()
                    },
                    reason,
                    file_count: 0,
                    size_bytes: 0,
                });
                self.not_saved.len() - 1
            }
        };
        if is_dir {
            pending.push((path, Within::Collapsed(slot)));
        } else {
            self.not_saved[slot].file_count += 1;
            self.not_saved[slot].size_bytes += stamp.size;
        }
    }
}

fn names_in(handle: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(handle)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether git takes `name` into a tree everywhere: nothing that a file system could mistake for `.git`.
pub(crate) fn is_acceptable(name: &[u8], is_link: bool) -> bool {
    let options = component::Options {
        protect_windows: false,
        protect_hfs: true,
        protect_ntfs: true,
    };
    let mode = is_link.then_some(component::Mode::Symlink);
    // On NTFS a backslash separates: git looks behind each of them too.
    name.split(|&byte| byte == b'\\')
        .filter(|part| !part.is_empty())
        .all(|part| {
            (part == b"." || part == b"..") && part.len() != name.len()
                || gix::validate::path::component(part.as_bstr(), mode, options).is_ok()
        })
        && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_become_dot_git_are_refused() {
        for bad in [
            &b".git"[..],
            b".GIT",
            b"git~1",
            b".git::x",
            b".git ",
            b".git.",
            b"a\\.git",
            b"..",
            b".",
            b"",
            b"a/b",
            ".g\u{200c}it".as_bytes(),
        ] {
            assert!(!is_acceptable(bad, false), "{}", bad.as_bstr());
        }
        for good in [
            &b"a"[..],
            b".gitignore",
            b"\xff\t\"\n",
            b"git~2x",
            b"a\\b",
            b"-rf",
            b"...",
        ] {
            assert!(is_acceptable(good, false), "{}", good.as_bstr());
        }
        assert!(!is_acceptable(b".gitmodules", true));
        assert!(is_acceptable(b".gitmodules", false));
    }
}
