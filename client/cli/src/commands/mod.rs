//! What the commands do: each makes one call and shows its answer.

mod events;
mod handoff;
mod lease;
mod maintenance;
mod review;
mod worktree;

use clap::CommandFactory as _;

use crate::{
    args::{Cli, Command, CompletionsArgs, EventsCommand},
    context::{Context, print},
    failure::Failure,
};

pub(crate) async fn run(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Worktree(command) => worktree::run(context, command).await,
        Command::Lease(command) => lease::run(context, command).await,
        Command::Handoff(command) => handoff::run(context, command).await,
        Command::Review(command) => review::run(context, command).await,
        Command::Events(EventsCommand::Watch(arguments)) | Command::Watch(arguments) => {
            events::watch(context, arguments).await
        }
        Command::Events(EventsCommand::List(arguments)) => events::list(context, arguments).await,
        Command::Gc(arguments) => maintenance::collect_garbage(context, arguments).await,
        Command::Reconcile(arguments) => maintenance::reconcile(context, &arguments).await,
        Command::Info => maintenance::info(context).await,
        Command::Completions(arguments) => completions(&arguments),
    }
}

pub(crate) fn completions(arguments: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut Cli::command(),
        "worktreectl",
        &mut script,
    );
    print(&script)
}
