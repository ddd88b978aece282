//! `worktreectl handoff`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{KeyArgs, PageArgs, examples};

/// The verbs on handoffs.
#[derive(Debug, Subcommand)]
pub(crate) enum HandoffCommand {
    /// Clock out: write and record the handoff, and release the lease
    #[command(after_help = examples::HANDOFF)]
    Write(Box<WriteArgs>),
    /// Show the handoff in the checkout, or the one recorded last
    Get(KeyArgs),
    /// Show the history of handoffs
    List(ListArgs),
    /// Show what a cold runtime needs to go on
    ResumeState(ResumeStateArgs),
}

/// `handoff write`.
#[derive(Debug, Args)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The epoch of the live lease; 0 if there is none
    #[arg(
        long,
        env = "WORKTREE_LEASE_EPOCH",
        default_value_t = 0,
        value_name = "N"
    )]
    pub(crate) epoch: i64,
    /// Start from a file like AGENT_HANDOFF.json, or - for standard input; the other options add to it
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Who hands off; the runtime if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) from: Option<String>,
    /// The runtime that hands off; human if neither this nor the file says
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// What is done; may be given more than once
    #[arg(long, value_name = "TEXT")]
    pub(crate) done: Vec<String>,
    /// What is broken or not verified; may be given more than once
    #[arg(long, value_name = "TEXT")]
    pub(crate) broken: Vec<String>,
    /// What to do next
    #[arg(long, value_name = "TEXT")]
    pub(crate) next: Option<String>,
    /// Why the work cannot go on
    #[arg(long, value_name = "TEXT")]
    pub(crate) why_blocked: Option<String>,
    /// What to beware of; may be given more than once
    #[arg(long = "warning", value_name = "TEXT")]
    pub(crate) warnings: Vec<String>,
    /// The outcome of the tests
    #[arg(long, value_name = "TEXT")]
    pub(crate) test_results: Option<String>,
    /// The outcome of the linters
    #[arg(long, value_name = "TEXT")]
    pub(crate) lint_results: Option<String>,
    /// The session in the runtime's own terms
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Keep the lease
    #[arg(long)]
    pub(crate) keep_lease: bool,
    /// A UUID to repeat the call by; a new one if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "UUID"
    )]
    pub(crate) request_id: String,
}

/// `handoff list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// `handoff resume-state`.
#[derive(Debug, Args)]
pub(crate) struct ResumeStateArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The runtime that asks; another one's session is withheld from it
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    pub(crate) runtime: String,
}
