//! One checkout as a save sees it: opened by handle, its index copied, its tree walked.

use std::path::{Path, PathBuf};

use gix::bstr::ByteSlice as _;

use super::admin;
use super::attributes::{self, Conversion, LineEndings};
use super::dir::Root;
use super::ignore::{IgnoreRules, KEEP_FILE, KeepList};
use super::index::IndexCopy;
use super::tree::{FlatTree, TrackedPaths, blob, flat_tree_of_commit};
use super::walk::{Rules, Walk, walk};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{GitCommand, GitDir};
use crate::ids::CommitId;
use crate::model::Checkout;
use crate::probe;
use crate::repository::Repository;

/// The most of a `.gitignore` or keep list that is read: git's own cap is of this order.
const RULES_CAP: u64 = 16 << 20;

/// Where HEAD is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The commit; none while unborn.
    pub(crate) commit: Option<CommitId>,
    /// The ref that it names; none when detached.
    pub(crate) symbolic: Option<String>,
}

/// A checkout opened for saving or measuring.
pub(crate) struct Subject<'a> {
    /// The engine.
    pub(crate) engine: &'a Engine,
    /// The checkout.
    pub(crate) checkout: &'a Checkout,
    /// Its admin directory, from our record: the `.git` file belongs to the agent.
    pub(crate) admin: PathBuf,
    /// Its repository.
    pub(crate) repository: Repository,
    /// The repository's objects.
    pub(crate) odb: gix::Repository,
    /// The directory.
    pub(crate) root: Root,
    /// Where HEAD is.
    pub(crate) head: Head,
    /// The tree of HEAD's commit; empty while unborn.
    pub(crate) head_tree: FlatTree,
    /// The index.
    pub(crate) index: IndexCopy,
    ignored: IgnoreRules,
    keep: KeepList,
    disabled_filters: Vec<(String, &'static str)>,
    /// The process's file mode creation mask.
    pub(crate) umask: u32,
}

impl<'a> Subject<'a> {
    /// Opens the checkout; refuses one that is not ours any more.
    pub(crate) fn open(engine: &'a Engine, checkout: &'a Checkout) -> Result<Self> {
        let admin = checkout.admin_dir();
        let root = Root::open(&checkout.path)?;
        super::lock::remove_stale(&admin, &engine.config().instance_id)?;
        refuse_unsound(engine, checkout)?;
        let repository = engine.open_repository(&checkout.common_dir)?;
        let odb = repository.odb()?;
        let head = read_head(engine, checkout)?;
        let head_tree = match &head.commit {
            Some(commit) => flat_tree_of_commit(&odb, commit)?,
            None => FlatTree::new(),
        };
        let index = IndexCopy::read(&admin, &engine.scratch(), odb.object_hash())?;
        let disabled_filters = if filters_are_known(&repository, checkout) {
            Vec::new()
        } else {
            disabled_filters(engine, checkout, &index.path())?
        };
        let base = if head.commit.as_ref() == Some(&checkout.base_sha) {
            None
        } else {
            Some(flat_tree_of_commit(&odb, &checkout.base_sha)?)
        };
        let base = base.as_ref().unwrap_or(&head_tree);
        let ignored = ignore_rules(&odb, base)?;
        let keep = keep_list(&odb, base, &root)?;
        Ok(Self {
            engine,
            checkout,
            admin,
            repository,
            odb,
            root,
            head,
            head_tree,
            index,
            ignored,
            keep,
            disabled_filters,
            umask: current_umask(),
        })
    }

    /// Refuses what a save may not go past: git in the middle of something, and submodules' repositories.
    pub(crate) fn refuse_unsavable(&self) -> Result<()> {
        admin::refuse_operation(&self.admin, &self.checkout.path)?;
        admin::refuse_submodule(&self.admin, &self.checkout.path)
    }

    /// Walks the directory, wherever it is by now.
    pub(crate) fn walk(&self, root: &Root) -> Result<Walk> {
        let own = crate::diff::service_made(self.checkout);
        let tracked = TrackedPaths {
            index: &self.index,
            head: &self.head_tree,
            own: &own,
        };
        walk(
            root,
            &Rules {
                tracked: &tracked,
                ignored: &self.ignored,
                keep: &self.keep,
                directory_mode: 0o777 & !self.umask,
            },
        )
    }

    /// The permission bits that git gives a file.
    pub(crate) fn git_permissions(&self, executable: bool) -> u32 {
        git_permissions(executable, self.umask)
    }

    /// Whether HEAD is on the task's branch.
    pub(crate) fn is_on_branch(&self) -> bool {
        self.head.symbolic.as_deref() == Some(&*self.checkout.branch.full_ref())
    }

    /// A git command on this checkout with an index of its own.
    pub(crate) fn git(&self, index: &Path) -> GitCommand {
        let command = git_command(self.checkout, index);
        if self.filters_are_known() {
            return command;
        }
        self.disabled_filters
            .iter()
            .fold(command, |command, (key, value)| command.config(key, value))
    }

    /// Whether the content filters are the ones seen at provision.
    pub(crate) fn filters_are_known(&self) -> bool {
        filters_are_known(&self.repository, self.checkout)
    }

    /// What `.gitignore` files on disk ignore, the agent's own among them: what `git add` would leave out.
    pub(crate) fn ignored_on_disk(&self, walk: &Walk) -> Result<IgnoreRules> {
        let mut rules = IgnoreRules::default();
        for path in walk.files.keys() {
            let (directory, name) = super::dir::split(path);
            if name == b".gitignore"
                && let Some(content) = read_small(&self.root, path)?
            {
                rules.add(directory, &content);
            }
        }
        Ok(rules)
    }

    /// How each file is converted by git.
    pub(crate) fn conversions(&self, walk: &Walk) -> Result<Conversions> {
        let endings = self.line_endings();
        let default = endings.conversion();
        let is_attributes = |path: &[u8]| super::dir::split(path).1 == b".gitattributes";
        let changed = self.attributes_changed(walk, &is_attributes);
        let any = walk.files.keys().any(|path| is_attributes(path))
            || self.head_tree.keys().any(|path| is_attributes(path))
            || self.has_global_attributes();
        let mut found = std::collections::HashMap::new();
        // Rules that differ from HEAD's make a checkout convert otherwise than the files on disk show: trust none.
        if any && !changed && default != Conversion::Both {
            let mut paths = Vec::new();
            for path in walk.files.keys() {
                paths.extend_from_slice(path);
                paths.push(0);
            }
            let command = self
                .git(&self.index.path())
                .args(["check-attr", "-z", "--stdin"])
                .args(attributes::CONVERTING)
                .stdin(paths);
            let output = self.engine.git().run(command)?;
            found = attributes::parse(&output.stdout, endings);
        }
        Ok(Conversions {
            default: if changed { Conversion::Both } else { default },
            found,
        })
    }

    fn line_endings(&self) -> LineEndings {
        let value = |key| self.repository.config.get(key);
        let autocrlf = value("core.autocrlf").unwrap_or_default();
        let input = autocrlf.eq_ignore_ascii_case("input");
        let off = matches!(
            &*autocrlf.to_ascii_lowercase(),
            "" | "false" | "no" | "off" | "0"
        );
        LineEndings {
            autocrlf: !input && !off,
            input,
            eol_crlf: value("core.eol").is_some_and(|eol| eol.eq_ignore_ascii_case("crlf")),
        }
    }

    fn attributes_changed(&self, walk: &Walk, is_attributes: &dyn Fn(&[u8]) -> bool) -> bool {
        let unchanged = |path: &[u8]| {
            let (Some(stamp), Some(entry), Some(head)) = (
                walk.files.get(path),
                self.index.entry(path),
                self.head_tree.get(path),
            ) else {
                return false;
            };
            if entry.id != head.1 {
                return false;
            }
            self.index.proves_unchanged(entry, stamp)
                || matches!(read_small(&self.root, path), Ok(Some(content))
                    if blob(&self.odb, head.1).is_ok_and(|blob| blob == content))
        };
        walk.files
            .keys()
            .chain(self.head_tree.keys())
            .filter(|path| is_attributes(path))
            .any(|path| !unchanged(path))
    }

    fn has_global_attributes(&self) -> bool {
        let home = std::env::var_os("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
        let global = home.is_some_and(|home| home.join("git/attributes").exists());
        global
            || self.repository.config.get("core.attributesfile").is_some()
            || self.checkout.common_dir.join("info/attributes").exists()
            || Path::new("/etc/gitattributes").exists()
    }
}

/// Arguments that switch every filter off that git would see in this checkout: an empty command is no filter, so what
/// was defined after provision never runs.
fn disabled_filters(
    engine: &Engine,
    checkout: &Checkout,
    index: &Path,
) -> Result<Vec<(String, &'static str)>> {
    let command = git_command(checkout, index).args(["config", "--list", "-z", "--name-only"]);
    let output = engine.git().run(command)?.stdout;
    let names: std::collections::BTreeSet<String> = output
        .split(|&byte| byte == 0)
        .filter_map(|key| key.strip_prefix(b"filter."))
        .filter_map(|key| key.rfind_byte(b'.').map(|dot| lossy(&key[..dot])))
        .collect();
    Ok(crate::repository::filters_off(
        names.iter().map(String::as_str),
    ))
}

/// Refuses what is not the checkout that was made. git's worktree lock is no reason: it forbids a drop, not a look.
fn refuse_unsound(engine: &Engine, checkout: &Checkout) -> Result<()> {
    let found = engine.probe(checkout)?;
    let path = checkout.path.clone();
    if found.directory == probe::DirectoryState::Missing {
        return Err(Error::CheckoutAbsent { path });
    }
    if found.directory != probe::DirectoryState::Present {
        return Err(Error::IdentityMismatch { path });
    }
    if found.is_sound() {
        Ok(())
    } else {
        Err(Error::CheckoutRetargeted { path })
    }
}

/// Where HEAD is; what cannot be told is an error, never "unborn".
pub(crate) fn read_head(engine: &Engine, checkout: &Checkout) -> Result<Head> {
    match engine.probe(checkout)?.head {
        probe::Head::Branch(branch, commit) => Ok(Head {
            commit,
            symbolic: Some(branch.full_ref()),
        }),
        probe::Head::Detached(commit) => Ok(Head {
            commit: Some(commit),
            symbolic: None,
        }),
        probe::Head::Unknown => Err(Error::Busy {
            path: checkout.admin_dir().join("HEAD"),
            problem: "it names neither a branch nor a commit".to_owned(),
        }),
    }
}

/// Whether the content filters are the ones seen at provision.
pub(crate) fn filters_are_known(repository: &Repository, checkout: &Checkout) -> bool {
    let own = checkout.admin_dir().join("config.worktree");
    // A checkout's own configuration, where it counts at all, is the agent's to write.
    let own_filters = repository.config.is_true("extensions.worktreeconfig")
        && std::fs::read_to_string(own).is_ok_and(|content| {
            let content = content.to_ascii_lowercase();
            content.contains("filter") || content.contains("include")
        });
    !own_filters && repository.config.filter_fingerprint() == checkout.filter_fingerprint
}

/// The permission bits that git gives a file under `umask`.
pub(crate) fn git_permissions(executable: bool, umask: u32) -> u32 {
    (if executable { 0o777 } else { 0o666 }) & !umask
}

/// How each file is converted.
#[derive(Debug)]
pub(crate) struct Conversions {
    default: Conversion,
    found: std::collections::HashMap<Vec<u8>, Conversion>,
}

impl Conversions {
    /// How `path` is converted.
    pub(crate) fn of(&self, path: &[u8]) -> Conversion {
        let found = self.found.get(path).copied().unwrap_or_default();
        found.max(self.default)
    }
}

/// The mask, as the kernel tells it: asking for it by `umask(2)` would set it for every thread meanwhile.
pub(crate) fn current_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))
        .and_then(|value| u32::from_str_radix(value.trim(), 8).ok())
        .unwrap_or(0o022)
}

/// The rules of the branch point: whatever an agent adds to them hides nothing.
fn ignore_rules(odb: &gix::Repository, base: &FlatTree) -> Result<IgnoreRules> {
    let mut rules = IgnoreRules::default();
    for (path, (kind, id)) in base {
        let (directory, name) = super::dir::split(path);
        if name == b".gitignore" && is_file(*kind) {
            rules.add(directory, &blob(odb, *id)?);
        }
    }
    Ok(rules)
}

fn keep_list(odb: &gix::Repository, base: &FlatTree, root: &Root) -> Result<KeepList> {
    let mut files = Vec::new();
    if let Some((kind, id)) = base.get(KEEP_FILE.as_bytes())
        && is_file(*kind)
    {
        files.push(blob(odb, *id)?);
    }
    files.extend(read_small(root, KEEP_FILE.as_bytes())?);
    Ok(KeepList::new(&files))
}

fn is_file(kind: gix::objs::tree::EntryKind) -> bool {
    matches!(
        kind,
        gix::objs::tree::EntryKind::Blob | gix::objs::tree::EntryKind::BlobExecutable
    )
}

/// A small regular file; none where there is no such file, or it cannot be read: its rules then hold nothing back.
fn read_small(root: &Root, path: &[u8]) -> Result<Option<Vec<u8>>> {
    use std::io::Read as _;
    let Ok(file) = root.read(path) else {
        return Ok(None);
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(RULES_CAP)
        .read_to_end(&mut content)
        .map_err(|error| Error::io("read", &root.path().join(super::dir::as_path(path)), error))?;
    Ok(Some(content))
}

/// A git command on `checkout` with its index at `index`, blind to what would hide a change.
pub(crate) fn git_command(checkout: &Checkout, index: &Path) -> GitCommand {
    let directory = GitDir {
        git_dir: checkout.admin_dir(),
        work_tree: Some(checkout.path.clone()),
    };
    GitCommand::new(Some(&directory))
        .args([
            "-c",
            "core.fsync=all",
            "-c",
            "core.fileMode=true",
            "-c",
            "core.ignoreCase=false",
        ])
        .args([
            "-c",
            "core.safecrlf=false",
            "-c",
            "core.sparseCheckout=false",
        ])
        .args([
            "-c",
            "core.symlinks=true",
            "-c",
            "core.precomposeUnicode=false",
        ])
        .env("GIT_INDEX_FILE", index)
}

impl Engine {
    /// Where private indexes are made: under the root, on a disk that has room for checkouts.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.config().root.join(".tmp")
    }
}

/// Text for messages.
pub(crate) fn lossy(path: &[u8]) -> String {
    path.to_str_lossy().into_owned()
}
