//! Which untracked paths are left out of a save: those that the branch point's own rules ignore, and nobody else's.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;
use gix::glob::pattern::Case;
use gix::glob::search::pattern::List;
use gix::ignore::search::{Ignore, pattern_matching_relative_path};

use super::dir::{as_path, join, split};

/// What stops a drop although it is ignored, where the repository does not say otherwise: what no build makes again.
const KEPT_BY_DEFAULT: &[u8] = b".env*\n*.db\n*.sqlite*\n*.pem\n*.key\n";

/// The file, in gitignore syntax, that replaces [`KEPT_BY_DEFAULT`].
pub(crate) const KEEP_FILE: &str = ".worktreekeep";

/// `.gitignore` files by the directory they are in; matching is case-sensitive whatever `core.ignoreCase` says.
#[derive(Debug, Default)]
pub(crate) struct IgnoreRules {
    lists: HashMap<Vec<u8>, List<Ignore>>,
}

impl IgnoreRules {
    /// Adds the `.gitignore` of `directory`.
    pub(crate) fn add(&mut self, directory: &[u8], content: &[u8]) {
        let source = Path::new("/").join(as_path(&join(directory, b".gitignore")));
        // The base is inside the root by construction; a list that cannot be placed ignores nothing, which saves more.
        if let Ok(list) = parse(content, source) {
            self.lists.insert(directory.to_vec(), list);
        }
    }

    /// Whether `path` itself matches, its parents not looked at: the walk goes top down and knows about them.
    pub(crate) fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.lists.is_empty() {
            return false;
        }
        let mut directory = split(path).0;
        loop {
            if let Some(ignored) = self
                .lists
                .get(directory)
                .and_then(|list| verdict(list, path, is_dir))
            {
                return ignored;
            }
            if directory.is_empty() {
                return false;
            }
            directory = split(directory).0;
        }
    }

    /// Whether `path` or one of its parents matches, as git decides it for an untracked file.
    pub(crate) fn ignores(&self, path: &[u8]) -> bool {
        let parents = path
            .iter()
            .enumerate()
            .filter(|&(_, &byte)| byte == b'/')
            .map(|(at, _)| &path[..at]);
        for parent in parents {
            if self.matches(parent, true) {
                return true;
            }
        }
        self.matches(path, false)
    }
}

/// The ignored files that must not be lost.
#[derive(Debug)]
pub(crate) struct KeepList {
    lists: Vec<List<Ignore>>,
}

impl KeepList {
    /// The keep list of these files; the default where there is none. A path kept by any of them is kept.
    pub(crate) fn new(files: &[Vec<u8>]) -> Self {
        let default = [KEPT_BY_DEFAULT.to_vec()];
        let files = if files.is_empty() {
            &default[..]
        } else {
            files
        };
        let source = Path::new("/").join(KEEP_FILE);
        Self {
            lists: files
                .iter()
                .filter_map(|content| parse(content, source.clone()).ok())
                .collect(),
        }
    }

    /// Whether `path` itself is kept; below a kept directory everything is.
    pub(crate) fn keeps(&self, path: &[u8], is_dir: bool) -> bool {
        self.lists
            .iter()
            .any(|list| verdict(list, path, is_dir) == Some(true))
    }
}

fn parse(content: &[u8], source: PathBuf) -> std::io::Result<List<Ignore>> {
    List::from_bytes(content, source, Some(Path::new("/")), Ignore::default())
}

/// The last pattern that matches decides; absent when none does.
fn verdict(list: &List<Ignore>, path: &[u8], is_dir: bool) -> Option<bool> {
    let name_start = path.rfind_byte(b'/').map(|at| at + 1);
    pattern_matching_relative_path(
        list,
        path.as_bstr(),
        name_start,
        Some(is_dir),
        Case::Sensitive,
    )
    .map(|found| !found.pattern.is_negative())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_rules_win_and_parents_decide() {
        let mut rules = IgnoreRules::default();
        rules.add(b"", b"*.log\n/target/\n!keep.log\n");
        rules.add(b"sub", b"!*.log\nbuild\n");
        for (path, ignored) in [
            (&b"a.log"[..], true),
            (b"keep.log", false),
            (b"sub/a.log", false),
            (b"other/a.log", true),
            (b"target/debug/x", true),
            (b"sub/target/x", false),
            (b"sub/build/x", true),
            (b"A.LOG", false),
        ] {
            assert_eq!(rules.ignores(path), ignored, "{}", path.as_bstr());
        }
    }

    #[test]
    fn keep_list_has_a_default_and_can_be_replaced() {
        let default = KeepList::new(&[]);
        assert!(default.keeps(b"a/.env.local", false));
        assert!(default.keeps(b"data.sqlite3", false));
        assert!(!default.keeps(b"target/x.o", false));
        let own = KeepList::new(&[b"secrets/\n".to_vec()]);
        assert!(own.keeps(b"secrets", true));
        assert!(!own.keeps(b".env", false));
    }
}
