//! A repository as the user named it: found by files alone, and refused where it is not safe to use.

use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{Deadline, GitCommand, GitDir};
use crate::ids::Namespace;

/// Repository extensions whose meaning is known; any other could make what we write wrong.
const KNOWN_EXTENSIONS: &[&str] = &[
    "objectformat",
    "compatobjectformat",
    "worktreeconfig",
    "partialclone",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "noop",
];

/// The most that is read of the small files that point from one git directory to another.
const POINTER_CAP: usize = 16 << 10;

/// git's effective configuration; of a key given twice the last value counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryConfig {
    values: BTreeMap<String, Vec<String>>,
    /// The same without what counts only in the checkout that was named: a new checkout will not see that.
    shared: BTreeMap<String, String>,
}

impl RepositoryConfig {
    fn parse(listing: &[u8]) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut shared = BTreeMap::new();
        // Each entry is two fields: the scope it comes from, and itself.
        let mut fields = listing.split(|&byte| byte == 0);
        while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
            let entry = String::from_utf8_lossy(entry);
            // A key without `=` has no value line, and means true.
            let (key, value) = entry.split_once('\n').unwrap_or((&entry, "true"));
            if scope != b"worktree" {
                shared.insert(key.to_owned(), value.to_owned());
            }
            values
                .entry(key.to_owned())
                .or_default()
                .push(value.to_owned());
        }
        Self { values, shared }
    }

    /// The value of `key` (section and name in lower case).
    pub fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key)?.last().map(String::as_str)
    }

    /// Whether `key` is a true boolean.
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(means_true)
    }

    /// SHA-256 (hex) over every filter definition.
    pub fn filter_fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for (key, values) in self
            .values
            .iter()
            .filter(|(key, _)| key.starts_with("filter."))
        {
            for part in std::iter::once(key).chain(values) {
                hash.update(part.as_bytes());
                hash.update([0]);
            }
        }
        hex(&hash.finalize())
    }

    /// The settings under which no filter of this repository runs: an empty command is no filter. Not for `-c`, which
    /// would end a key at the first `=` in a filter's name.
    pub(crate) fn filters_off(&self) -> Vec<(String, &'static str)> {
        let names: std::collections::BTreeSet<&str> = self
            .values
            .keys()
            .filter_map(|key| key.strip_prefix("filter.")?.rsplit_once('.'))
            .map(|(name, _)| name)
            .collect();
        filters_off(names.into_iter())
    }

    /// Each remote's fetch refspecs.
    fn fetches(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().flat_map(|(key, values)| {
            let remote = key
                .strip_prefix("remote.")
                .and_then(|rest| rest.strip_suffix(".fetch"));
            let pair = move |value| remote.map(|remote| (remote, value));
            values.iter().map(String::as_str).filter_map(pair)
        })
    }
}

fn means_true(value: &str) -> bool {
    matches!(&*value.to_ascii_lowercase(), "true" | "yes" | "on" | "1")
}

/// A repository that may be used.
#[derive(Debug, Clone)]
pub struct Repository {
    /// Its canonical spelling for people: the top of the checkout that was named, or the bare directory.
    pub path: PathBuf,
    /// What all its checkouts share; canonical.
    pub common_dir: PathBuf,
    /// The git directory of the checkout that was named: HEAD is read there.
    pub git_dir: PathBuf,
    /// The URL of the remote `origin`.
    pub origin_url: Option<String>,
    /// Whether it has no main checkout.
    pub is_bare: bool,
    /// The effective configuration.
    pub config: RepositoryConfig,
}

impl Repository {
    /// The first 16 hexadecimal digits of SHA-256(common directory, NUL, origin URL). Computed once and stored: the URL
    /// may change later.
    pub fn repo_id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.common_dir.as_os_str().as_bytes());
        hash.update([0]);
        hash.update(self.origin_url.as_deref().unwrap_or_default().as_bytes());
        hex(&hash.finalize())[..16].to_owned()
    }

    /// The object database. Refs are never read through it: it does not know every ref storage.
    pub fn odb(&self) -> Result<gix::Repository> {
        let options = gix::open::Options::isolated().open_path_as_is(true);
        gix::open_opts(&self.common_dir, options).map_err(|error| Error::RepositoryUnsupported {
            path: self.common_dir.clone(),
            problem: format!("its object database cannot be opened: {error}"),
        })
    }

    /// Whether git would call a linked checkout bare unless its own configuration says otherwise.
    pub(crate) fn makes_linked_checkouts_bare(&self) -> bool {
        let bare = self.config.shared.get("core.bare");
        self.config.is_true("extensions.worktreeconfig")
            && bare.is_some_and(|bare| means_true(bare))
    }
}

impl Engine {
    /// Opens the repository that `path` is in: a checkout's top or subdirectory, a linked worktree, a bare repository,
    /// a git or admin directory, or a link to one of them.
    pub fn open_repository(&self, path: &Path) -> Result<Repository> {
        let located = locate(path)?;
        let mut found = Repository {
            path: located.path,
            common_dir: located.common_dir,
            git_dir: located.git_dir,
            origin_url: None,
            is_bare: false,
            config: RepositoryConfig::default(),
        };
        // Rows, journal and keys hold paths as text; a lossy one would name another place.
        for path in [&found.path, &found.common_dir] {
            if path.to_str().is_none() {
                return Err(Error::RepositoryUnsupported {
                    path: path.clone(),
                    problem: "its path is not UTF-8".to_owned(),
                });
            }
        }
        let owner = std::fs::metadata(&found.common_dir)
            .map_err(|error| Error::io("examine", &found.common_dir, error))?
            .uid();
        // An explicit GIT_DIR switches git's own `safe.directory` check off, so it is made here.
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::RepositoryOwnerMismatch {
                path: found.common_dir,
                owner,
            });
        }
        let command = GitCommand::new(Some(&GitDir::bare(&found.git_dir)))
            .args(["config", "--list", "-z", "--show-scope", "--includes"])
            .deadline(Deadline::Probe);
        let listing = self.git().run(command).map_err(|error| match error {
            Error::GitFailed { stderr, .. } => Error::RepositoryUnsupported {
                path: found.common_dir.clone(),
                problem: format!("git cannot read its configuration: {stderr}"),
            },
            other => other,
        })?;
        found.config = RepositoryConfig::parse(&listing.stdout);
        found.origin_url = found.config.get("remote.origin.url").map(ToOwned::to_owned);
        found.is_bare = found.config.is_true("core.bare");
        check_format(&found)?;
        Ok(found)
    }

    /// Refuses a repository whose fetch would delete the service's refs, unless the operator allows it.
    pub(crate) fn refuse_mirror(&self, repository: &Repository) -> Result<()> {
        if self.config().allow_mirrors {
            return Ok(());
        }
        match mirroring_remote(&repository.config, &self.config().namespace) {
            Some(remote) => Err(Error::RepositoryIsMirror {
                path: repository.path.clone(),
                remote,
            }),
            None => Ok(()),
        }
    }
}

/// Where a repository is; all that can be told of it without asking git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The top of the checkout that was named, or the bare directory; canonical.
    pub path: PathBuf,
    /// What all its checkouts share; canonical.
    pub common_dir: PathBuf,
    /// The git directory of the checkout that was named; canonical.
    pub git_dir: PathBuf,
}

/// Finds the repository that `path` is in. Starts no process, and does not say that the repository may be used.
pub fn locate(path: &Path) -> Result<Located> {
    let missing = |problem: String| Error::RepositoryNotFound {
        path: path.to_owned(),
        problem,
    };
    if !path.is_absolute() {
        return Err(Error::invalid(
            "key.repo",
            format!("{path:?} is not an absolute path"),
        ));
    }
    let start = std::fs::canonicalize(path).map_err(|error| missing(error.to_string()))?;
    if !start.is_dir() {
        return Err(missing("it is not a directory".to_owned()));
    }
    for directory in start.ancestors() {
        let dot_git = directory.join(".git");
        let git_dir = match std::fs::symlink_metadata(&dot_git) {
            Ok(metadata) if metadata.is_file() => follow_git_file(directory, &dot_git)?,
            Ok(_) if looks_like_git_dir(&dot_git) => dot_git,
            _ if looks_like_git_dir(directory) => directory.to_owned(),
            _ => continue,
        };
        let canonical = |path: &Path| {
            std::fs::canonicalize(path)
                .map_err(|error| missing(format!("{}: {error}", path.display())))
        };
        let git_dir = canonical(&git_dir)?;
        let common_dir = match read_pointer(&git_dir.join("commondir"))? {
            Some(target) => canonical(&git_dir.join(target))?,
            None => git_dir.clone(),
        };
        return Ok(Located {
            path: directory.to_owned(),
            common_dir,
            git_dir,
        });
    }
    Err(missing(
        "neither it nor a directory above it is a git repository".to_owned(),
    ))
}

fn looks_like_git_dir(path: &Path) -> bool {
    path.join("HEAD").symlink_metadata().is_ok()
        && (path.join("commondir").is_file()
            || (path.join("objects").is_dir() && path.join("refs").is_dir()))
}

fn follow_git_file(directory: &Path, file: &Path) -> Result<PathBuf> {
    let content = read_pointer(file)?.unwrap_or_default();
    let bytes = content.as_os_str().as_bytes();
    let target = bytes
        .strip_prefix(b"gitdir: ")
        .ok_or_else(|| Error::RepositoryNotFound {
            path: file.to_owned(),
            problem: "its `.git` file does not name a git directory".to_owned(),
        })?;
    Ok(directory.join(std::ffi::OsStr::from_bytes(target)))
}

/// The one line of a pointer file, as a path; none if there is no such file.
pub(crate) fn read_pointer(path: &Path) -> Result<Option<PathBuf>> {
    let mut content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    content.truncate(POINTER_CAP);
    while matches!(content.last(), Some(b'\n' | b'\r')) {
        content.pop();
    }
    Ok(Some(PathBuf::from(std::ffi::OsString::from_vec(content))))
}

fn check_format(repository: &Repository) -> Result<()> {
    let refuse = |problem: String| {
        Err(Error::RepositoryUnsupported {
            path: repository.common_dir.clone(),
            problem,
        })
    };
    let config = &repository.config;
    let version = config.get("core.repositoryformatversion").unwrap_or("0");
    if !matches!(version, "0" | "1") {
        return refuse(format!("its format version is {version}"));
    }
    for key in config
        .values
        .keys()
        .filter_map(|key| key.strip_prefix("extensions."))
    {
        if version == "1" && !KNOWN_EXTENSIONS.contains(&key) {
            return refuse(format!(
                "it uses the extension {key:?}, which this service does not know"
            ));
        }
    }
    let named_dot_git = repository
        .common_dir
        .file_name()
        .is_some_and(|name| name == ".git");
    if repository.is_bare && named_dot_git && repository.common_dir.join("index").is_file() {
        return refuse(
            "core.bare is true although it has a checkout; run `git config core.bare false` there"
                .to_owned(),
        );
    }
    if config.is_true("extensions.worktreeconfig") && config.shared.contains_key("core.worktree") {
        return refuse(
            "core.worktree is set for all its worktrees; move it with `git config --worktree core.worktree`".to_owned(),
        );
    }
    Ok(())
}

fn mirroring_remote(config: &RepositoryConfig, namespace: &Namespace) -> Option<String> {
    let private = format!("refs/{namespace}/");
    let branches = format!("refs/heads/{namespace}/");
    let hits = |target: &str| match target.split_once('*') {
        // A pattern writes into ours where either prefix holds the other.
        Some((prefix, _)) => [&private, &branches]
            .into_iter()
            .any(|ours| ours.starts_with(prefix) || prefix.starts_with(ours.as_str())),
        None => target.starts_with(&private) || target.starts_with(&branches),
    };
    config
        .fetches()
        .find(|(_, refspec)| {
            refspec
                .split_once(':')
                .is_some_and(|(_, target)| hits(target))
        })
        .map(|(remote, _)| remote.to_owned())
}

/// The settings under which none of the named filters runs.
pub(crate) fn filters_off<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(String, &'static str)> {
    let switches = [
        ("clean", ""),
        ("smudge", ""),
        ("process", ""),
        ("required", "false"),
    ];
    names
        .flat_map(|name| switches.map(|(key, value)| (format!("filter.{name}.{key}"), value)))
        .collect()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
