//! Every setting: its name, its kind, its default. One list, from which flags, environment, file and README are checked.

/// How the text of a setting is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text as it is.
    Text,
    /// A path; relative ones are taken from the working directory.
    Path,
    /// Paths: repeated as a flag, an array in the file, separated by `:` in the environment.
    Paths,
    /// Texts: repeated as a flag, an array in the file, separated by `,` in the environment.
    List,
    /// `true` or `false`.
    Switch,
    /// A whole number.
    Number,
    /// A size in bytes, as a number or with `KiB`, `MiB` or `GiB`.
    Size,
    /// A length of time: a number with `ms`, `s`, `m`, `h` or `d`; 0 needs no unit.
    Duration,
}

/// One setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Its name in the file; `WORKTREED_` and this in capitals in the environment.
    pub name: &'static str,
    /// How it is read.
    pub kind: Kind,
    /// Its default, as it would be written; empty where it is computed or absent.
    pub default: &'static str,
    /// What it is, in a line.
    pub help: &'static str,
}

const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        name,
        kind,
        default,
        help,
    }
}

/// All settings, in the order in which they are shown.
#[rustfmt::skip]
pub const SETTINGS: &[Setting] = &[
    setting("state_dir", Kind::Path, "", "registry, socket and lock; default `$XDG_STATE_HOME/worktreed`, else `~/.local/state/worktreed`"),
    setting("worktree_root", Kind::Path, "", "where checkouts are made; default `worktrees` in the state directory"),
    setting("allow_root", Kind::Paths, "", "directories whose repositories may be used"),
    setting("repository", Kind::List, "", "repositories that may be used by name, each `NAME=PATH`"),
    setting("listen", Kind::List, "", "addresses beside the socket in the state directory: `HOST:PORT` (loopback) or `unix:PATH`"),
    setting("namespace", Kind::Text, "clawboo", "prefix of branches, commit messages and private refs"),
    setting("git_binary", Kind::Path, "", "the git to run; default the first on `PATH`"),
    setting("allow_mirrors", Kind::Switch, "false", "use mirror clones, whose fetch deletes the service's refs"),
    setting("log_format", Kind::Text, "human", "`human` or `json`, to stderr; `RUST_LOG` chooses what"),
    setting("lease_ttl_default", Kind::Duration, "60s", "length of a lease that asks for none"),
    setting("lease_ttl_min", Kind::Duration, "5s", "the shortest lease"),
    setting("lease_ttl_max", Kind::Duration, "24h", "the longest lease"),
    setting("lock_wait", Kind::Duration, "30s", "how long a call waits for another on the same worktree"),
    setting("page_size_default", Kind::Number, "100", "size of a page that asks for none"),
    setting("page_size_max", Kind::Number, "1000", "the largest page"),
    setting("event_retention", Kind::Duration, "30d", "how long events are kept"),
    setting("event_retention_count", Kind::Number, "1000000", "how many events are kept"),
    setting("reply_retention", Kind::Duration, "7d", "how long answers by `request_id` are kept"),
    setting("compaction_interval", Kind::Duration, "10m", "how often what is older goes"),
    setting("sor_file_max_bytes", Kind::Size, "1MiB", "the largest handoff and file of the system of record"),
    setting("title_max_chars", Kind::Number, "200", "the longest title"),
    setting("text_max_chars", Kind::Number, "65536", "the longest text"),
    setting("saved_file_max_bytes", Kind::Size, "2GiB", "the largest file that a save holds"),
    setting("checkout_deadline", Kind::Duration, "30m", "for git commands that write a checkout"),
    setting("git_deadline", Kind::Duration, "2m", "for other git commands"),
    setting("probe_deadline", Kind::Duration, "30s", "for git commands that only ask"),
    setting("bookmark_interval", Kind::Duration, "10s", "how often a quiet watch gets a bookmark; 1s at least"),
    setting("gc_interval", Kind::Duration, "1h", "how often garbage is collected; 0 for never"),
    setting("gc_max_age", Kind::Duration, "72h", "how long a worktree may be idle"),
    setting("gc_max_count", Kind::Number, "25", "how many worktrees a repository keeps"),
    setting("gc_idle", Kind::Duration, "1h", "only worktrees idle for so long go by count"),
    setting("review_ttl", Kind::Duration, "24h", "how long a review stays"),
    setting("max_watches", Kind::Number, "1000", "how many watches there may be at a time"),
    setting("message_max_bytes", Kind::Size, "16MiB", "the largest message that is taken"),
    setting("grace_period", Kind::Duration, "30s", "how long running mutations may take to end on SIGTERM"),
];

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}
