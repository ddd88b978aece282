//! `worktreectl lease`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{KeyArgs, examples};
use crate::text::parse_duration;

/// The verbs on leases.
#[derive(Debug, Subcommand)]
pub(crate) enum LeaseCommand {
    /// Clock in: take the lease, and show what to go on from
    #[command(after_help = examples::ACQUIRE)]
    Acquire(AcquireArgs),
    /// Put the end of the lease off
    Renew(RenewArgs),
    /// Give the lease back
    Release(ReleaseArgs),
}

/// `lease acquire`.
#[derive(Debug, Args)]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Who takes it; user@host if not given
    #[arg(long, env = "WORKTREE_HOLDER", value_name = "NAME")]
    pub(crate) holder: Option<String>,
    /// The runtime, for example claude-code or human
    #[arg(long, default_value = "human")]
    pub(crate) runtime: String,
    /// How long it lasts unless renewed, from 5s to 24h; 60s if not given
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) ttl: Option<Duration>,
    /// Take it over from a live holder, for this reason
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "REASON"
    )]
    pub(crate) takeover: String,
    /// The process that holds it, so that others can see whether it still runs
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) pid: Option<i64>,
    /// A UUID to repeat the call by; a new one if not given
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        value_name = "UUID"
    )]
    pub(crate) request_id: String,
}

/// `lease renew`.
#[derive(Debug, Args)]
pub(crate) struct RenewArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The epoch of the lease
    #[arg(long, env = "WORKTREE_LEASE_EPOCH", value_name = "N")]
    pub(crate) epoch: i64,
    /// How long it lasts from now; as before if not given
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    pub(crate) ttl: Option<Duration>,
}

/// `lease release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The epoch of the lease
    #[arg(long, env = "WORKTREE_LEASE_EPOCH", value_name = "N")]
    pub(crate) epoch: i64,
}
