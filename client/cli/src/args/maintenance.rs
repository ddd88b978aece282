//! `worktreectl gc`.

use std::time::Duration;

use clap::Args;

use super::RepoScopeArgs;
use crate::text::parse_duration;

/// `gc`.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    #[command(flatten)]
    pub(crate) repo: RepoScopeArgs,
    /// Reap what nobody worked in for longer than this; 72h if not given, 0 for any age
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_age: Option<Duration>,
    /// Keep at most so many in a repository; 25 if not given, 0 keeps none
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) max_count: Option<i32>,
    /// Leave this task alone; may be given more than once
    #[arg(long = "active", value_name = "TASK")]
    pub(crate) active: Vec<String>,
    /// Only say what would be reaped
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
}
