//! `worktreectl worktree`.

use clap::{Args, Subcommand, ValueEnum};
use worktreed_client::proto::{self, WorktreeState};

use super::{KeyArgs, MutationArgs, PageArgs, RepoArgs, RepoScopeArgs, examples};

/// The verbs on worktrees.
#[derive(Debug, Subcommand)]
pub(crate) enum WorktreeCommand {
    /// Make the worktree of a task, or show the one that it has
    #[command(after_help = examples::PROVISION)]
    Provision(Box<ProvisionArgs>),
    /// Show one worktree
    Get(GetArgs),
    /// Show the worktrees of a repository
    List(ListArgs),
    /// Save the work and keep the directory
    Checkpoint(CheckpointArgs),
    /// Save the work, drop the directory, keep the branch
    #[command(after_help = examples::PAUSE)]
    Pause(PauseArgs),
    /// Build the directory of a paused or reaped worktree again
    Resume(ResumeArgs),
    /// End the work: clean up if nothing changed, retain it for review otherwise
    Complete(CompleteArgs),
    /// Drop a worktree; what was in it is pinned by a recovery point first
    Remove(RemoveArgs),
    /// Show the size of the work, or the patch
    #[command(after_help = examples::DIFF)]
    Diff(DiffArgs),
    /// Print the files of the system of record
    Scaffold(ScaffoldFilesArgs),
    /// Show the branches of a repository, to choose a base from
    Branches(BranchesArgs),
}

/// `worktree provision`.
#[derive(Debug, Args)]
pub(crate) struct ProvisionArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) base: BaseArgs,
    #[command(flatten)]
    pub(crate) scaffold: ScaffoldArgs,
    /// The kind of the task: code, or any other; research and review get no worktree
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) kind: String,
    /// How far the task is to be kept from the others; follows from the kind if not given
    #[arg(long, value_enum)]
    pub(crate) isolation: Option<IsolationName>,
    /// Where the system of record lives, for example .task; the root if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "DIR"
    )]
    pub(crate) sor_dir: String,
    /// A label; may be given more than once
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) labels: Vec<(String, String)>,
    /// On whose behalf, for example team:payments
    #[arg(long, value_name = "KIND:ID", value_parser = parse_owner)]
    pub(crate) owner: Option<proto::Owner>,
    /// A name for people; the title if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    pub(crate) display_name: String,
    /// A UUID to repeat the call by; a new one if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "UUID"
    )]
    pub(crate) request_id: String,
}

/// The commit to start from.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct BaseArgs {
    /// Start from this branch, tag or full commit id; HEAD of the repository if not given
    #[arg(long, value_name = "REF|SHA")]
    pub(crate) base: Option<String>,
    /// Start from the commit that this rule finds
    #[arg(long, value_enum)]
    pub(crate) base_policy: Option<BasePolicyName>,
}

/// A rule to find the base by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BasePolicyName {
    /// HEAD of the repository
    Head,
    /// The newest commit of the upstream, fetched first (not yet implemented by the server)
    Fresh,
}

/// How far a task is kept from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationName {
    /// No checkout of its own
    None,
    /// A checkout of its own
    Worktree,
    /// A container of its own (never provisioned by the server)
    Container,
}

/// What goes into the system of record.
#[derive(Debug, Args)]
pub(crate) struct ScaffoldArgs {
    /// The title of the task
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) title: String,
    /// What is to be done and why
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub(crate) description: String,
    /// When the task is done; may be given more than once
    #[arg(long = "criterion", value_name = "TEXT")]
    pub(crate) criteria: Vec<String>,
    /// What to beware of; may be given more than once
    #[arg(long = "gotcha", value_name = "TEXT")]
    pub(crate) gotchas: Vec<String>,
    /// The command that installs what the work needs
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "COMMAND"
    )]
    pub(crate) install: String,
    /// The command that checks the work
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "COMMAND"
    )]
    pub(crate) verify: String,
    /// The command that starts what is being built
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "COMMAND"
    )]
    pub(crate) start: String,
    /// The team that the task belongs to
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "NAME"
    )]
    pub(crate) team: String,
}

/// `worktree get`.
#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The id of the task
    #[arg(required_unless_present = "id")]
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) repo: RepoArgs,
    /// The id of the worktree, in place of repository and task
    #[arg(long, conflicts_with = "task")]
    pub(crate) id: Option<String>,
}

/// `worktree list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) repo: RepoScopeArgs,
    /// Only those in this state, for example working; may be given more than once. All that are not ended if not given
    #[arg(long = "state", value_name = "STATE", value_parser = parse_state)]
    pub(crate) states: Vec<WorktreeState>,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

/// `worktree checkpoint`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) mutation: MutationArgs,
    /// The message of the commit
    #[arg(
        long,
        short,
        default_value = "",
        hide_default_value = true,
        value_name = "TEXT"
    )]
    pub(crate) message: String,
}

/// Where the work goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaveName {
    /// A commit on the task's branch
    Commit,
    /// A snapshot beside the branch: what is staged and what is not comes back as it was
    Snapshot,
}

/// `worktree pause`.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) mutation: MutationArgs,
    /// Where the work goes
    #[arg(long, value_enum, default_value = "commit")]
    pub(crate) save: SaveName,
    /// Drop the directory even if something in it cannot be saved
    #[arg(long)]
    pub(crate) force: bool,
}

/// `worktree resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// A UUID to repeat the call by; a new one if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "UUID"
    )]
    pub(crate) request_id: String,
}

/// `worktree complete`.
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) mutation: MutationArgs,
    /// Clean up even if something in the directory cannot be saved
    #[arg(long)]
    pub(crate) force: bool,
}

/// `worktree remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    #[command(flatten)]
    pub(crate) mutation: MutationArgs,
    /// Remove it even if it has work; what can be saved is pinned first
    #[arg(long)]
    pub(crate) discard_changes: bool,
    /// Keep the branch
    #[arg(long)]
    pub(crate) keep_branch: bool,
    /// Count the task as done, and not as cancelled
    #[arg(long)]
    pub(crate) complete_task: bool,
}

/// `worktree diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Print the patch, and not the size
    #[arg(long, short)]
    pub(crate) patch: bool,
    /// Count and show the files of the system of record too
    #[arg(long)]
    pub(crate) include_sor: bool,
}

/// `worktree scaffold`.
#[derive(Debug, Args)]
pub(crate) struct ScaffoldFilesArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Print only this file, for example TASK.md, and nothing around it
    #[arg(long, value_name = "NAME")]
    pub(crate) file: Option<String>,
}

/// `worktree branches`.
#[derive(Debug, Args)]
pub(crate) struct BranchesArgs {
    #[command(flatten)]
    pub(crate) repo: RepoArgs,
    #[command(flatten)]
    pub(crate) page: PageArgs,
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("a label is KEY=VALUE".to_owned()),
    }
}

fn parse_owner(text: &str) -> Result<proto::Owner, String> {
    match text.split_once(':') {
        Some((kind, id)) if !kind.is_empty() && !id.is_empty() => Ok(proto::Owner {
            kind: kind.to_owned(),
            id: id.to_owned(),
        }),
        Some(_) | None => Err("an owner is KIND:ID".to_owned()),
    }
}

fn parse_state(text: &str) -> Result<WorktreeState, String> {
    let name = format!(
        "WORKTREE_STATE_{}",
        text.to_ascii_uppercase().replace('-', "_")
    );
    WorktreeState::from_str_name(&name)
        .filter(|state| *state != WorktreeState::Unspecified)
        .ok_or_else(|| "no such state; try provisioned, working, handed_off, paused, retained, reaped or removed".to_owned())
}
