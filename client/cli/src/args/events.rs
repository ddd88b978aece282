//! `worktreectl events` and `worktreectl watch`.

use std::time::Duration;

use clap::{Args, Subcommand};
use worktreed_client::proto::EventKind;

use super::{PageArgs, examples};
use crate::text::parse_duration;

/// The verbs on events.
#[derive(Debug, Subcommand)]
pub(crate) enum EventsCommand {
    /// Print events as they come, and go on by itself when the connection is lost
    #[command(after_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Print events that there are already
    List(ListArgs),
}

/// Which events.
#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only those of this repository; all if not given
    #[arg(long, value_name = "PATH|NAME")]
    pub(crate) repo: Option<String>,
    /// Only those of this task; may be given more than once
    #[arg(long = "task", value_name = "ID")]
    pub(crate) tasks: Vec<String>,
    /// Only those of this kind, for example handed_off; may be given more than once
    #[arg(long = "kind", value_name = "KIND", value_parser = parse_kind)]
    pub(crate) kinds: Vec<EventKind>,
}

/// `events watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Begin with the oldest event that is kept
    #[arg(long, group = "start")]
    pub(crate) from_beginning: bool,
    /// Begin after this position
    #[arg(long, group = "start", value_name = "POSITION")]
    pub(crate) after: Option<String>,
    /// Begin with the worktrees as they are
    #[arg(long, group = "start")]
    pub(crate) state: bool,
    /// Print the progress of running operations too
    #[arg(long)]
    pub(crate) progress: bool,
    /// Print bookmarks too: positions to go on from
    #[arg(long)]
    pub(crate) bookmarks: bool,
    /// How often a bookmark comes while nothing else does, at least 1s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) bookmark_interval: Option<Duration>,
    /// End after so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
}

/// `events list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Only those after this position
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "POSITION"
    )]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

fn parse_kind(text: &str) -> Result<EventKind, String> {
    let name = format!("EVENT_KIND_{}", text.to_ascii_uppercase().replace('-', "_"));
    EventKind::from_str_name(&name)
        .filter(|kind| *kind != EventKind::Unspecified)
        .ok_or_else(|| {
            "no such kind; try provisioned, lease_acquired, handed_off, paused, resumed or retained"
                .to_owned()
        })
}
