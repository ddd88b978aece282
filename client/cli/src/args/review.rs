//! `worktreectl review`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{PageArgs, RepoArgs, RepoScopeArgs};
use crate::text::parse_duration;

/// The verbs on reviews.
#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// Check a commit out, read-only, for one reviewer
    Create(CreateArgs),
    /// Show the reviews that are there
    List(ListArgs),
    /// Drop a review's directory, and say whether the reviewer changed anything
    Remove(RemoveArgs),
}

/// `review create`.
#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// The id of the task to review; its branch's tip is checked out
    #[arg(required_unless_present = "sha")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) repo: RepoArgs,
    /// The commit to check out, as its full id
    #[arg(long)]
    pub(crate) sha: Option<String>,
    /// Who reviews
    #[arg(long, value_name = "NAME")]
    pub(crate) reviewer: String,
    /// How long the checkout stays; 24h if not given
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) ttl: Option<Duration>,
    /// A UUID to repeat the call by; a new one if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "UUID"
    )]
    pub(crate) request_id: String,
}

/// `review list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) repo: RepoScopeArgs,
    /// Only those of this task
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID")]
    pub(crate) task: String,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// `review remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The id of the review
    pub(crate) id: String,
}
