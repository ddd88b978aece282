//! What can be typed on the command line.

mod common;
mod events;
mod examples;
mod handoff;
mod lease;
mod maintenance;
mod review;
mod worktree;

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use worktreed_client::Endpoint;

pub(crate) use common::{KeyArgs, MutationArgs, PageArgs, RepoArgs, RepoScopeArgs, resolve_repo};
pub(crate) use events::{EventsCommand, FilterArgs, ListArgs as ListEventsArgs, WatchArgs};
pub(crate) use handoff::{
    HandoffCommand, ListArgs as ListHandoffsArgs, WriteArgs as WriteHandoffArgs,
};
pub(crate) use lease::{AcquireArgs, LeaseCommand};
pub(crate) use maintenance::GcArgs;
pub(crate) use review::{ListArgs as ListReviewsArgs, ReviewCommand};
pub(crate) use worktree::{
    BaseArgs, BasePolicyName, BranchesArgs, CheckpointArgs, CompleteArgs, DiffArgs, GetArgs,
    IsolationName, ListArgs as ListWorktreesArgs, PauseArgs, ProvisionArgs, RemoveArgs, ResumeArgs,
    SaveName, ScaffoldArgs, ScaffoldFilesArgs, WorktreeCommand,
};

/// Gives every coding task its own git worktree: the command line of worktreed.
///
/// Each command is one call of the service. People get tables, scripts get `--json`: the message of the contract with
/// its own field names, 64-bit numbers as numbers, bytes in base64; errors too, on stderr.
#[derive(Debug, Parser)]
#[command(name = "worktreectl", version, after_help = examples::TOP, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
pub(crate) struct GlobalArgs {
    /// The server: unix:PATH or http://host:port [default: the socket in $XDG_STATE_HOME/worktreed]
    #[arg(long, global = true, help_heading = "Global options", env = worktreed_client::ENDPOINT_VARIABLE, value_name = "ENDPOINT")]
    pub(crate) endpoint: Option<Endpoint>,
    /// Print JSON: one object, or one a line for streams
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,
    /// Wait no longer than this for an answer, for example 30s or 5m; a change that was begun goes on
    #[arg(long, global = true, help_heading = "Global options", value_name = "DURATION", value_parser = crate::text::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Show no progress bar
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) no_progress: bool,
}

/// The nouns.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make, save, drop and end worktrees
    #[command(subcommand, visible_alias = "wt")]
    Worktree(WorktreeCommand),
    /// Take and give back the right to write in a worktree
    #[command(subcommand)]
    Lease(LeaseCommand),
    /// Stop where another can pick up
    #[command(subcommand)]
    Handoff(HandoffCommand),
    /// Read-only checkouts for reviewers
    #[command(subcommand)]
    Review(ReviewCommand),
    /// The history of all worktrees
    #[command(subcommand)]
    Events(EventsCommand),
    /// Print events as they come: short for `events watch`
    #[command(after_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Reap worktrees by age and count: save, drop the directory, keep the branch
    #[command(after_help = examples::GC)]
    Gc(GcArgs),
    /// Compare registry, git and disk, and put right what is safe to put right
    Reconcile(RepoScopeArgs),
    /// Show what the server is, can do and allows
    Info,
    /// Print a completion script for a shell
    ///
    /// For example: worktreectl completions bash > ~/.local/share/bash-completion/completions/worktreectl
    Completions(CompletionsArgs),
}

/// Which shell.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[cfg(test)]
mod tests;
