//! What the server runs with: flags over environment over a file over defaults, each value with where it comes from.

mod layers;
mod listen;
mod parse;
pub mod settings;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

pub use layers::{Environment, Source};
pub use listen::ListenAddress;
use parse::Parser;
use worktree_engine::ids::Namespace;

/// The configuration's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no configuration to run with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No setting has that name.
    #[error("{place} has {name:?}, which is no setting; `worktreed config` lists all")]
    Unknown {
        /// The name.
        name: String,
        /// Where it stands.
        place: String,
    },
    /// The file cannot be read.
    #[error("the configuration file {}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A value is of no use.
    #[error("{name} (from {source_name}): {problem}")]
    Invalid {
        /// The setting.
        name: &'static str,
        /// Where the value comes from.
        source_name: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// There is no place for the state.
    #[error(
        "no place for the state: give --state-dir, or set XDG_STATE_HOME or HOME to an absolute path"
    )]
    NoHome,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Human,
    /// A JSON object a line.
    Json,
}

/// The numbers in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The length of a lease that asks for none.
    pub lease_ttl_default: Duration,
    /// The shortest lease.
    pub lease_ttl_min: Duration,
    /// The longest lease.
    pub lease_ttl_max: Duration,
    /// How long a call waits for another on the same worktree.
    pub lock_wait: Duration,
    /// The size of a page that asks for none.
    pub page_size_default: usize,
    /// The largest page.
    pub page_size_max: usize,
    /// How long events are kept.
    pub event_retention: Duration,
    /// How many events are kept.
    pub event_retention_count: u64,
    /// How long answers by request id are kept.
    pub reply_retention: Duration,
    /// How often what is older goes.
    pub compaction_interval: Duration,
    /// The largest handoff and file of the system of record, in bytes.
    pub sor_file_max_bytes: u64,
    /// The longest title, in characters.
    pub title_max_chars: usize,
    /// The longest text, in characters.
    pub text_max_chars: usize,
    /// The largest file that a save holds, in bytes.
    pub saved_file_max_bytes: u64,
    /// For git commands that write a checkout.
    pub checkout_deadline: Duration,
    /// For other git commands.
    pub git_deadline: Duration,
    /// For git commands that only ask.
    pub probe_deadline: Duration,
    /// How often a quiet watch gets a bookmark unless it asks otherwise.
    pub bookmark_interval: Duration,
    /// How often garbage is collected; zero for never.
    pub gc_interval: Duration,
    /// How long a worktree may be idle.
    pub gc_max_age: Duration,
    /// How many worktrees a repository keeps.
    pub gc_max_count: usize,
    /// Only worktrees idle for so long go by count.
    pub gc_idle: Duration,
    /// How long a review stays.
    pub review_ttl: Duration,
    /// How many watches there may be at a time.
    pub max_watches: usize,
    /// The largest message that is taken, in bytes.
    pub message_max_bytes: usize,
    /// How long running mutations may take to end.
    pub grace_period: Duration,
}

/// What the server runs with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Registry, socket and lock.
    pub state_dir: PathBuf,
    /// Where checkouts are made.
    pub worktree_root: PathBuf,
    /// Directories whose repositories may be used.
    pub allow_roots: Vec<PathBuf>,
    /// Repositories that may be used by name.
    pub repositories: BTreeMap<String, PathBuf>,
    /// Addresses beside the socket in the state directory.
    pub listen: Vec<ListenAddress>,
    /// The prefix of branches, commit messages and private refs.
    pub namespace: Namespace,
    /// The git to run, if not the first on `PATH`.
    pub git_binary: Option<PathBuf>,
    /// Whether mirror clones may be used.
    pub allow_mirrors: bool,
    /// How the log is written.
    pub log_format: LogFormat,
    /// The numbers.
    pub limits: Limits,
    /// Name, value and origin of every setting, in their order.
    pub report: Vec<(&'static str, String, Source)>,
}

impl Config {
    /// The configuration from flags (pairs of name and text), environment and file. Touches nothing.
    pub fn load(
        flags: &[(String, String)],
        environment: Environment<'_>,
        file: Option<&std::path::Path>,
    ) -> Result<Self> {
        let values = layers::resolve(flags, environment, file)?;
        let parser = Parser { values: &values };
        let state_dir = match parser.path("state_dir")? {
            Some(path) => path,
            None => default_state_dir(environment)?,
        };
        let worktree_root = parser
            .path("worktree_root")?
            .unwrap_or_else(|| state_dir.join("worktrees"));
        let mut config = Self {
            allow_roots: allow_roots(&parser)?,
            repositories: repositories(&parser)?,
            listen: listen_addresses(&parser)?,
            namespace: parser.parsed("namespace")?,
            git_binary: parser.path("git_binary")?,
            allow_mirrors: parser.parsed("allow_mirrors")?,
            log_format: match parser.text("log_format")? {
                Some("human") => LogFormat::Human,
                Some("json") => LogFormat::Json,
                _ => return Err(parser.invalid("log_format", "must be `human` or `json`")),
            },
            limits: limits(&parser)?,
            state_dir,
            worktree_root,
            report: Vec::new(),
        };
        config.report = config.report_of(&values);
        Ok(config)
    }

    /// What an operator should know about this configuration.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (what, path) in [
            ("state directory", &self.state_dir),
            ("worktree root", &self.worktree_root),
        ] {
            if is_temporary(path) {
                warnings.push(format!(
                    "the {what} lies in a temporary directory ({}), which the system may empty: work would be lost",
                    path.display()
                ));
            }
        }
        if self.allow_roots.is_empty() && self.repositories.is_empty() {
            warnings.push(
                "no repository may be used: start with --allow-root DIR or --repository NAME=PATH"
                    .to_owned(),
            );
        }
        warnings
    }

    fn report_of(&self, values: &layers::Values) -> Vec<(&'static str, String, Source)> {
        let shown = |setting: &settings::Setting| {
            let value = values.get(setting.name)?;
            let text = match setting.name {
                "state_dir" => self.state_dir.display().to_string(),
                "worktree_root" => self.worktree_root.display().to_string(),
                _ => value.texts.join(", "),
            };
            Some((setting.name, text, value.source.clone()))
        };
        settings::SETTINGS.iter().filter_map(shown).collect()
    }
}

fn default_state_dir(environment: Environment<'_>) -> Result<PathBuf> {
    // The XDG rules: a relative value counts as none.
    let absolute = |name: &str| {
        environment(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .map(|directory| directory.join("worktreed"))
        .ok_or(Error::NoHome)
}

fn is_temporary(path: &std::path::Path) -> bool {
    ["/tmp", "/var/tmp", "/dev/shm", "/run"]
        .iter()
        .any(|temporary| path.starts_with(temporary))
        || path.starts_with(std::env::temp_dir())
}

fn allow_roots(parser: &Parser<'_>) -> Result<Vec<PathBuf>> {
    let texts = parser.list("allow_root")?.iter();
    texts
        .map(|text| parser.absolute("allow_root", text))
        .collect()
}

fn repositories(parser: &Parser<'_>) -> Result<BTreeMap<String, PathBuf>> {
    let mut named = BTreeMap::new();
    for text in parser.list("repository")? {
        let invalid = |problem| parser.invalid("repository", problem);
        let (name, path) = text
            .split_once('=')
            .ok_or_else(|| invalid(format!("{text:?} is not NAME=PATH")))?;
        // A name with a slash in front could not be told from a path.
        if name.is_empty() || name.starts_with('/') {
            return Err(invalid(format!("{name:?} is no name for a repository")));
        }
        let path = parser.absolute("repository", path)?;
        if named.insert(name.to_owned(), path).is_some() {
            return Err(invalid(format!("the name {name:?} is given twice")));
        }
    }
    Ok(named)
}

fn listen_addresses(parser: &Parser<'_>) -> Result<Vec<ListenAddress>> {
    let parse = |text: &String| {
        text.parse()
            .map_err(|problem: String| parser.invalid("listen", problem))
    };
    parser.list("listen")?.iter().map(parse).collect()
}

fn limits(parser: &Parser<'_>) -> Result<Limits> {
    let second = Duration::from_secs(1);
    let million = 1_000_000;
    let limits = Limits {
        lease_ttl_default: parser.duration("lease_ttl_default", second)?,
        lease_ttl_min: parser.duration("lease_ttl_min", second)?,
        lease_ttl_max: parser.duration("lease_ttl_max", second)?,
        lock_wait: parser.duration("lock_wait", Duration::ZERO)?,
        page_size_default: parser.count("page_size_default", 1, 100_000)?,
        page_size_max: parser.count("page_size_max", 1, 100_000)?,
        event_retention: parser.duration("event_retention", second)?,
        event_retention_count: parser.number("event_retention_count", 1, i64::MAX as u64)?,
        reply_retention: parser.duration("reply_retention", second)?,
        compaction_interval: parser.duration("compaction_interval", second)?,
        sor_file_max_bytes: parser.size("sor_file_max_bytes")?,
        title_max_chars: parser.count("title_max_chars", 1, million)?,
        text_max_chars: parser.count("text_max_chars", 1, 100 * million)?,
        saved_file_max_bytes: parser.size("saved_file_max_bytes")?,
        checkout_deadline: parser.duration("checkout_deadline", second)?,
        git_deadline: parser.duration("git_deadline", Duration::from_millis(100))?,
        probe_deadline: parser.duration("probe_deadline", Duration::from_millis(100))?,
        bookmark_interval: parser.duration("bookmark_interval", second)?,
        gc_interval: parser.duration("gc_interval", Duration::ZERO)?,
        gc_max_age: parser.duration("gc_max_age", Duration::ZERO)?,
        gc_max_count: parser.count("gc_max_count", 0, million)?,
        gc_idle: parser.duration("gc_idle", Duration::ZERO)?,
        review_ttl: parser.duration("review_ttl", second)?,
        max_watches: parser.count("max_watches", 1, million)?,
        message_max_bytes: usize::try_from(parser.size("message_max_bytes")?)
            .map_err(|error| parser.invalid("message_max_bytes", error.to_string()))?,
        grace_period: parser.duration("grace_period", Duration::ZERO)?,
    };
    if limits.lease_ttl_min > limits.lease_ttl_default
        || limits.lease_ttl_default > limits.lease_ttl_max
    {
        return Err(parser.invalid(
            "lease_ttl_default",
            "must lie between lease_ttl_min and lease_ttl_max",
        ));
    }
    if limits.page_size_default > limits.page_size_max {
        return Err(parser.invalid("page_size_default", "must not be above page_size_max"));
    }
    Ok(limits)
}
