//! The engine: its settings, and the directories that are its own.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::git::Git;
use crate::ids::Namespace;

/// What an [`Engine`] is made with.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Where checkouts are made; made with mode 0700 if missing.
    pub root: PathBuf,
    /// The prefix of new branches and private refs.
    pub namespace: Namespace,
    /// Who we are in lock reasons: what decides whether a lock is ours. No white space.
    pub instance_id: String,
    /// git's path; looked up on `PATH` if absent.
    pub git_binary: Option<PathBuf>,
    /// Whether a mirror clone, whose fetch would delete our refs, may be provisioned.
    pub allow_mirrors: bool,
    /// The size in bytes above which a file is not saved.
    pub max_saved_file: u64,
    /// How long a command that writes a checkout may take.
    pub checkout_deadline: Duration,
    /// How long any other command may take.
    pub git_deadline: Duration,
    /// How long a question may take.
    pub probe_deadline: Duration,
    /// How long to wait for another process's lock on the repository.
    pub lock_wait: Duration,
}

impl EngineConfig {
    /// The defaults for everything but the root and the instance.
    pub fn new(root: impl Into<PathBuf>, instance_id: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            namespace: Namespace::default(),
            instance_id: instance_id.into(),
            git_binary: None,
            allow_mirrors: false,
            max_saved_file: 2 << 30,
            checkout_deadline: Duration::from_secs(30 * 60),
            git_deadline: Duration::from_secs(2 * 60),
            probe_deadline: Duration::from_secs(30),
            lock_wait: Duration::from_secs(30),
        }
    }
}

/// The worktree lifecycle. Cheap to share; every method blocks.
#[derive(Debug)]
pub struct Engine {
    config: EngineConfig,
    git: Git,
}

impl Engine {
    /// Checks git and makes the root.
    pub fn new(mut config: EngineConfig) -> Result<Self> {
        let git = Git::find(
            config.git_binary.as_deref(),
            [
                config.probe_deadline,
                config.git_deadline,
                config.checkout_deadline,
            ],
        )?;
        make_private(&config.root)?;
        config.root = std::fs::canonicalize(&config.root)
            .map_err(|error| Error::io("resolve", &config.root, error))?;
        for own in [TRASH, DROPPING, CUSTODY, REVIEWS] {
            make_private(&config.root.join(own))?;
        }
        Ok(Self { config, git })
    }

    /// The settings; `root` is canonical.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// The one runner of git.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// git's version.
    pub fn git_version(&self) -> &str {
        self.git.version()
    }

    /// How many git processes were started so far.
    pub fn git_processes(&self) -> u64 {
        self.git.processes()
    }

    /// A name that nothing has yet, for a directory that is being dropped and may still be given back.
    pub fn new_trash_path(&self) -> PathBuf {
        self.config
            .root
            .join(DROPPING)
            .join(uuid::Uuid::now_v7().to_string())
    }

    /// A name that nothing has yet, for a directory that may be deleted at any time.
    pub(crate) fn new_deletable_path(&self) -> PathBuf {
        self.trash_dir().join(uuid::Uuid::now_v7().to_string())
    }

    pub(crate) fn trash_dir(&self) -> PathBuf {
        self.config.root.join(TRASH)
    }

    pub(crate) fn new_custody_path(&self) -> PathBuf {
        self.config
            .root
            .join(CUSTODY)
            .join(uuid::Uuid::now_v7().to_string())
    }

    pub(crate) fn reviews_dir(&self, repo_id: &str) -> PathBuf {
        self.config.root.join(REVIEWS).join(repo_id)
    }
}

// `repo_id` is hexadecimal: none of these can be one.
const TRASH: &str = ".trash";
const DROPPING: &str = ".dropping";
const CUSTODY: &str = ".custody";
const REVIEWS: &str = "reviews";

/// Makes a directory, and its parents, that only we can enter; leaves an existing one as it is.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| Error::io("create", path, error))
}

/// A place where a crash test ends the process; nothing in a build without the `failpoints` feature.
#[macro_export]
#[doc(hidden)]
macro_rules! crash_point {
    ($name:literal) => {
        fail::fail_point!($name, |_| std::process::abort())
    };
}
