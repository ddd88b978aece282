#![allow(clippy::unwrap_used)]

use clap::{CommandFactory as _, error::ErrorKind};
use worktreed_client::proto::{EventKind, WorktreeState};

use super::*;

fn parse(arguments: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from([&["worktreectl"], arguments].concat())
}

fn command(arguments: &[&str]) -> Command {
    parse(arguments).unwrap().command
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_says_what_it_does() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command.get_arguments() {
            assert!(
                argument.get_help().is_some(),
                "{} {}",
                command.get_name(),
                argument.get_id()
            );
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}

#[test]
fn there_is_a_command_for_every_rpc() {
    let tree = Cli::command();
    for path in [
        "worktree provision",
        "worktree get",
        "worktree list",
        "worktree checkpoint",
        "worktree pause",
        "worktree resume",
        "worktree complete",
        "worktree remove",
        "worktree diff",
        "worktree scaffold",
        "worktree branches",
        "lease acquire",
        "lease renew",
        "lease release",
        "handoff write",
        "handoff get",
        "handoff list",
        "handoff resume-state",
        "review create",
        "review list",
        "review remove",
        "events watch",
        "events list",
        "gc",
        "reconcile",
        "info",
    ] {
        let found = path
            .split(' ')
            .try_fold(&tree, |command, name| command.find_subcommand(name));
        assert!(found.is_some(), "{path}");
    }
}

#[test]
fn a_provision_takes_its_scaffold_and_labels() {
    let Command::Worktree(WorktreeCommand::Provision(arguments)) = command(&[
        "worktree",
        "provision",
        "fix",
        "--repo",
        "/src/p",
        "--title",
        "T",
        "--criterion",
        "a",
        "--criterion",
        "b",
        "--label",
        "team=x=y",
        "--owner",
        "user:anna",
        "--base",
        "main",
    ]) else {
        panic!("not a provision")
    };
    let key = arguments.key.resolve().unwrap();
    assert_eq!((key.repo.as_str(), key.task_id.as_str()), ("/src/p", "fix"));
    assert_eq!(arguments.scaffold.criteria, ["a", "b"]);
    assert_eq!(arguments.labels, [("team".to_owned(), "x=y".to_owned())]);
    assert_eq!(arguments.owner.unwrap().id, "anna");
    assert_eq!(arguments.base.base.as_deref(), Some("main"));
}

#[test]
fn a_repository_is_a_path_made_absolute_or_a_name() {
    let cwd = std::env::current_dir().unwrap();
    let here = |suffix: &str| {
        cwd.join(suffix)
            .to_str()
            .unwrap()
            .trim_end_matches('/')
            .to_owned()
    };
    assert_eq!(common::resolve_repo(".").unwrap(), here(""));
    assert_eq!(common::resolve_repo("sub/dir/").unwrap(), here("sub/dir"));
    assert_eq!(common::resolve_repo("/src//p/.").unwrap(), "/src/p");
    assert_eq!(common::resolve_repo("shop").unwrap(), "shop");
    assert!(common::resolve_repo("").is_err());
}

#[test]
fn names_of_states_and_kinds_are_those_of_the_contract() {
    let Command::Worktree(WorktreeCommand::List(arguments)) = command(&[
        "worktree",
        "list",
        "--state",
        "handed_off",
        "--state",
        "DONE-CLEAN",
    ]) else {
        panic!("not a list")
    };
    assert_eq!(
        arguments.states,
        [WorktreeState::HandedOff, WorktreeState::DoneClean]
    );
    let Command::Watch(arguments) = command(&["watch", "--kind", "lease_taken_over"]) else {
        panic!("not a watch")
    };
    assert_eq!(arguments.filter.kinds, [EventKind::LeaseTakenOver]);
    assert!(parse(&["watch", "--kind", "unspecified"]).is_err());
}

#[test]
fn what_excludes_itself_is_refused() {
    let kind = |arguments: &[&str]| parse(arguments).unwrap_err().kind();
    assert_eq!(
        kind(&["watch", "--state", "--from-beginning"]),
        ErrorKind::ArgumentConflict
    );
    assert_eq!(
        kind(&[
            "worktree",
            "provision",
            "t",
            "--base",
            "a",
            "--base-policy",
            "head"
        ]),
        ErrorKind::ArgumentConflict
    );
    assert_eq!(
        kind(&["worktree", "get"]),
        ErrorKind::MissingRequiredArgument
    );
    assert_eq!(
        kind(&["worktree", "get", "t", "--id", "x"]),
        ErrorKind::ArgumentConflict
    );
    assert_eq!(
        kind(&["review", "create", "--reviewer", "r"]),
        ErrorKind::MissingRequiredArgument
    );
    assert_eq!(
        kind(&["gc", "--max-count", "-1"]),
        ErrorKind::UnknownArgument
    );
    assert_eq!(
        kind(&["info", "--endpoint", "tcp:1"]),
        ErrorKind::ValueValidation
    );
}

#[test]
fn wrong_usage_ends_with_2() {
    assert_eq!(parse(&["lease", "renew", "t"]).unwrap_err().exit_code(), 2);
}

#[test]
fn zero_is_a_count_and_a_limit_is_not() {
    let Command::Gc(arguments) = command(&["gc", "--max-count", "0", "--max-age", "0"]) else {
        panic!("not a gc")
    };
    assert_eq!(arguments.max_count, Some(0));
    assert_eq!(arguments.max_age, Some(std::time::Duration::ZERO));
    assert!(parse(&["worktree", "list", "--limit", "0"]).is_err());
}

#[test]
fn pages_end_at_the_limit() {
    let Command::Worktree(WorktreeCommand::List(arguments)) =
        command(&["worktree", "list", "--limit", "1500"])
    else {
        panic!("not a list")
    };
    let sizes: Vec<_> = [0, 1000, 1500]
        .map(|so_far| arguments.page.next_size(so_far))
        .into();
    assert_eq!(sizes, [Some(1000), Some(500), None]);
}

#[test]
fn the_help_lists_the_exit_codes_and_examples() {
    let help = Cli::command().render_long_help().to_string();
    assert!(help.contains("Exit codes:"));
    assert!(help.contains("worktreectl lease acquire fix-login"));
}
