//! The log, to stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise. sqlx tells of slow statements as warnings, with the statement.
const DEFAULT_FILTER: &str = "info,sqlx=error";

/// Starts logging. A second start in one process is ignored: the first one's settings stay.
pub fn start(format: LogFormat) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Human => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    drop(started);
}
