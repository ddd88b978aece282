//! `worktreectl`: the operator's and the script's hand on worktreed.

mod args;
mod commands;
mod context;
mod failure;
mod handoff_file;
mod json;
mod progress;
mod show;
mod table;
mod text;

use std::process::ExitCode;

use clap::Parser as _;

use crate::{args::Cli, context::Context, failure::Failure};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.global.json;
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

fn run(cli: Cli) -> Result<(), Failure> {
    if let args::Command::Completions(completions) = &cli.command {
        return commands::completions(completions);
    }
    // One thread: the command waits for one answer at a time, and a call is quicker without a second.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let context = Context::new(&cli.global)?;
        commands::run(&context, cli.command).await
    })
}
