//! The scaffold: what it looks like, that its script runs, and that no text of a caller can forge anything in it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use proptest::prelude::*;
use worktree_engine::error::Error;
use worktree_engine::ids::{SorDir, TaskId};
use worktree_engine::sor::{
    DECISIONS_FILE, INIT_FILE, MAX_FILE_BYTES, PROGRESS_FILE, SOR_FILES, ScaffoldCommands,
    ScaffoldRequest, TASK_FILE, VERIFICATION_FILE, is_service_scaffold, parse_init, parse_progress,
    read_scaffold, render, resume_state, validate,
};

fn task() -> TaskId {
    "t-1".parse().unwrap()
}

fn sor_dir(path: &str) -> SorDir {
    path.parse().unwrap()
}

fn write(checkout: &Path, request: &ScaffoldRequest, sor_dir: &SorDir) {
    validate(request).unwrap();
    for file in render(&task(), request, sor_dir) {
        let path = checkout.join(sor_dir.join(file.name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, file.content).unwrap();
    }
}

fn commands(install: &str, verify: &str, start: &str) -> ScaffoldRequest {
    ScaffoldRequest {
        commands: ScaffoldCommands {
            install: install.to_owned(),
            verify: verify.to_owned(),
            start: start.to_owned(),
        },
        ..ScaffoldRequest::default()
    }
}

fn text_of(request: &ScaffoldRequest, name: &str) -> String {
    let files = render(&task(), request, &sor_dir(""));
    let file = files.into_iter().find(|file| file.name == name).unwrap();
    String::from_utf8(file.content).unwrap()
}

fn bash(checkout: &Path, script: &str, started: bool) -> Output {
    let mut command = Command::new("bash");
    command.arg(script).current_dir(checkout).env("CDPATH", "/");
    if started {
        command.env("RUN_START_COMMAND", "1");
    }
    command.output().unwrap()
}

#[test]
fn has_the_headings_in_their_order() {
    let request = ScaffoldRequest {
        title: "Fix the parser".to_owned(),
        description: "It fails.\nAlways.".to_owned(),
        acceptance_criteria: vec!["it parses".to_owned()],
        known_gotchas: vec!["CRLF".to_owned()],
        team_name: "core".to_owned(),
        ..ScaffoldRequest::default()
    };
    let headings = |name: &str| -> Vec<String> {
        let text = text_of(&request, name);
        text.lines()
            .filter(|line| line.starts_with('#'))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(
        headings(TASK_FILE),
        [
            "# Task: Fix the parser",
            "## What & why",
            "## Acceptance criteria",
            "## Known gotchas",
            "## How to work this task"
        ]
    );
    assert_eq!(
        headings(PROGRESS_FILE),
        [
            "# Progress — Fix the parser",
            "## Current verified state",
            "## Done",
            "## In progress",
            "## Blocked",
            "## Clock-in / clock-out"
        ]
    );
    assert_eq!(
        headings(VERIFICATION_FILE)[1..],
        ["## Commands", "## Evidence"]
    );
    let task_page = text_of(&request, TASK_FILE);
    assert!(
        task_page.contains("- Team: core\n") && task_page.contains("- [ ] it parses\n"),
        "{task_page}"
    );
    assert!(
        task_page.contains("\n> It fails.\n> Always.\n"),
        "{task_page}"
    );
    let decisions: serde_json::Value =
        serde_json::from_str(&text_of(&request, DECISIONS_FILE)).unwrap();
    assert_eq!(decisions["$schema"], "clawboo/decisions@1");
    assert_eq!(decisions["decisions"], serde_json::json!([]));
    assert!(text_of(&ScaffoldRequest::default(), TASK_FILE).starts_with("# Task: t-1\n"));
}

#[test]
fn a_fresh_checkout_says_that_nothing_is_done() {
    let checkout = tempfile::tempdir().unwrap();
    write(
        checkout.path(),
        &commands("true", "make test", ""),
        &sor_dir(".task"),
    );
    let state = resume_state(checkout.path(), &sor_dir(".task"), Some("codex"));
    assert!(
        !state.has_handoff
            && state.done.is_empty()
            && state.broken.is_empty()
            && state.warnings.is_empty()
    );
    assert_eq!(state.commands.init, "./.task/init.sh");
    assert_eq!(
        (
            state.commands.verify.as_str(),
            state.commands.start.as_str()
        ),
        ("make test", "")
    );
    let files = read_scaffold(checkout.path(), &sor_dir(".task"));
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, SOR_FILES[..5]);
    assert!(
        files
            .iter()
            .all(|file| !file.truncated && file.size_bytes == file.content.len() as u64)
    );
}

#[test]
fn a_large_file_is_given_in_part() {
    let checkout = tempfile::tempdir().unwrap();
    std::fs::write(
        checkout.path().join(TASK_FILE),
        vec![b'x'; MAX_FILE_BYTES as usize + 1],
    )
    .unwrap();
    let files = read_scaffold(checkout.path(), &sor_dir(""));
    assert!(files[0].truncated);
    assert_eq!(
        (files[0].content.len() as u64, files[0].size_bytes),
        (MAX_FILE_BYTES, MAX_FILE_BYTES + 1)
    );
}

#[test]
fn init_runs_install_and_verify_at_the_root_and_start_only_when_asked() {
    for (directory, script) in [
        ("", "init.sh"),
        (".task", ".task/init.sh"),
        ("a/b", "a/b/init.sh"),
    ] {
        let checkout = tempfile::tempdir().unwrap();
        let request = commands(
            "echo one >> log; cd /",
            "printf '%s\\n' \"$PWD\" >> log",
            "echo 'it'\\''s on' >> log",
        );
        write(checkout.path(), &request, &sor_dir(directory));
        let log = || std::fs::read_to_string(checkout.path().join("log")).unwrap();
        let root = checkout.path().canonicalize().unwrap();
        let root = root.display();
        assert!(bash(checkout.path(), script, false).status.success());
        assert_eq!(log(), format!("one\n{root}\n"));
        std::fs::remove_file(checkout.path().join("log")).unwrap();
        assert!(bash(checkout.path(), script, true).status.success());
        assert_eq!(log(), format!("one\n{root}\nit's on\n"));
    }
}

#[test]
fn init_stops_at_a_failure_and_does_nothing_when_not_configured() {
    let checkout = tempfile::tempdir().unwrap();
    write(
        checkout.path(),
        &commands("exit 3", "touch verified", ""),
        &sor_dir(""),
    );
    assert_eq!(
        bash(checkout.path(), "init.sh", false).status.code(),
        Some(3)
    );
    assert!(!checkout.path().join("verified").exists());
    write(checkout.path(), &ScaffoldRequest::default(), &sor_dir(""));
    assert!(bash(checkout.path(), "init.sh", true).status.success());
}

#[test]
fn refuses_what_is_too_long_or_no_command_by_the_name_of_its_field() {
    let long = "ä".repeat(201);
    let text = "x".repeat((64 << 10) + 1);
    let of = |change: &dyn Fn(&mut ScaffoldRequest)| {
        let mut request = ScaffoldRequest::default();
        change(&mut request);
        request
    };
    for (field, request) in [
        ("scaffold.title", of(&|r| r.title = long.clone())),
        ("scaffold.team_name", of(&|r| r.team_name = long.clone())),
        (
            "scaffold.description",
            of(&|r| r.description = text.clone()),
        ),
        (
            "scaffold.acceptance_criteria",
            of(&|r| r.acceptance_criteria = vec![text.clone()]),
        ),
        (
            "scaffold.known_gotchas",
            of(&|r| r.known_gotchas = vec![text.clone()]),
        ),
        ("scaffold.commands.install", commands("a\nb", "", "")),
        ("scaffold.commands.verify", commands("", "a\0b", "")),
        ("scaffold.commands.start", commands("", "", "a\rb")),
        ("scaffold.commands.start", commands("", "", &text)),
        (
            "scaffold",
            of(&|r| r.acceptance_criteria = vec!["x".repeat(60_000); 20]),
        ),
    ] {
        match validate(&request) {
            Err(Error::Invalid { field: found, .. }) => assert_eq!(found, field),
            other => panic!("{field}: {other:?}"),
        }
    }
    validate(&of(&|r| r.title = "ä".repeat(200))).unwrap();
    validate(&of(&|r| r.description = "x".repeat(64 << 10))).unwrap();
}

#[test]
fn what_is_valid_stays_below_the_cap_of_a_reader() {
    let mut request = ScaffoldRequest {
        title: "😀".repeat(200),
        description: "\n".repeat(64 << 10),
        ..ScaffoldRequest::default()
    };
    while validate(&request).is_ok() {
        request.acceptance_criteria.push("-".repeat(20_000));
        if validate(&request).is_ok() {
            for file in render(&task(), &request, &sor_dir("")) {
                assert!(file.content.len() as u64 <= MAX_FILE_BYTES, "{}", file.name);
            }
        }
    }
}

#[test]
fn knows_its_own_scaffold_and_no_other() {
    let request = commands("npm ci", "npm test", "npm start");
    for file in render(&task(), &request, &sor_dir("")) {
        assert!(
            is_service_scaffold(file.name, &file.content),
            "{}",
            file.name
        );
        let text = String::from_utf8(file.content).unwrap();
        let crlf = text.replace('\n', "\r\n");
        assert!(
            is_service_scaffold(file.name, crlf.as_bytes()),
            "{} with CRLF",
            file.name
        );
    }
    for (name, text) in [
        (TASK_FILE, "# Tasks\n\n- [ ] mow the lawn\n"),
        (PROGRESS_FILE, "# Progress\n\n## Done\n"),
        (DECISIONS_FILE, "{\"decisions\": []}"),
        (INIT_FILE, "#!/usr/bin/env bash\nset -euo pipefail\nmake\n"),
        (VERIFICATION_FILE, "# Verification\n"),
        ("AGENT_HANDOFF.json", "{\"title\": \"ours\"}"),
        ("README.md", "# Task: x\n"),
        (TASK_FILE, "\u{0}"),
    ] {
        assert!(!is_service_scaffold(name, text.as_bytes()), "{name}");
    }
}

/// Text that tries: pieces of markdown and of shell between every kind of line end and odd characters.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("\r".to_owned()),
        Just("\u{2028}".to_owned()),
        Just("\u{85}".to_owned()),
        Just("\u{b}".to_owned()),
        Just("\0".to_owned()),
        Just("## Done".to_owned()),
        Just("## Blocked\n- forged".to_owned()),
        Just("# Task: forged".to_owned()),
        Just("- [x] forged".to_owned()),
        Just("* forged".to_owned()),
        Just("  - forged".to_owned()),
        Just("VERIFY_CMD='forged'".to_owned()),
        Just("'; touch forged; '".to_owned()),
        Just("```".to_owned()),
        Just("$(touch forged) `touch forged` \\".to_owned()),
        "\\PC{0,6}".prop_map(|text| text),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn one_line_command() -> impl Strategy<Value = String> {
    hostile().prop_map(|text| {
        text.chars()
            .filter(|c| !c.is_control())
            .collect::<String>()
            .trim()
            .to_owned()
    })
}

fn structure(text: &str) -> Vec<String> {
    let trimmed = text.lines().map(str::trim_start);
    let marks =
        |line: &&str| line.starts_with('#') || line.starts_with("- ") || line.starts_with("* ");
    trimmed
        .filter(marks)
        .map(|line| line.chars().take(6).collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_forges_a_heading_a_bullet_or_a_slot(
        title in hostile(), description in hostile(), criterion in hostile(), gotcha in hostile(), team in hostile(),
        verify in one_line_command(), start in one_line_command(),
    ) {
        let request = ScaffoldRequest {
            title,
            description,
            acceptance_criteria: vec![format!("c{criterion}")],
            known_gotchas: vec![format!("g{gotcha}")],
            team_name: format!("t{team}"),
            commands: ScaffoldCommands { install: String::new(), verify: verify.clone(), start: start.clone() },
        };
        prop_assume!(validate(&request).is_ok());
        let plain = ScaffoldRequest {
            title: "t".to_owned(),
            description: "d".to_owned(),
            acceptance_criteria: vec!["c".to_owned()],
            known_gotchas: vec!["g".to_owned()],
            team_name: "t".to_owned(),
            ..ScaffoldRequest::default()
        };
        prop_assert_eq!(parse_progress(&text_of(&request, PROGRESS_FILE)), Default::default());
        for name in [PROGRESS_FILE, VERIFICATION_FILE] {
            prop_assert_eq!(structure(&text_of(&request, name)), structure(&text_of(&plain, name)), "{}", name);
        }
        let shape = |request: &ScaffoldRequest| -> Vec<String> {
            // The first characters of our own items are given by the texts above.
            structure(&text_of(request, TASK_FILE)).iter().map(|line| line.chars().take(2).collect()).collect()
        };
        prop_assert_eq!(shape(&request), shape(&plain));
        let slots = parse_init(&text_of(&request, INIT_FILE));
        prop_assert_eq!(slots.install, "");
        prop_assert_eq!(slots.verify, verify);
        prop_assert_eq!(slots.start, start);
    }

    #[test]
    fn readers_survive_any_text(text in hostile()) {
        let _ = parse_init(&text);
        let _ = parse_progress(&text);
        for name in SOR_FILES {
            let _ = is_service_scaffold(name, text.as_bytes());
        }
    }
}

#[test]
fn the_shell_sees_a_command_as_it_was_given() {
    let checkout = tempfile::tempdir().unwrap();
    let hostile = r#"printf '%s' 'a'\''b "$HOME" `x` $(y) \ !' > seen"#;
    write(checkout.path(), &commands("", hostile, ""), &sor_dir(""));
    assert!(bash(checkout.path(), "init.sh", false).status.success());
    let seen = std::fs::read_to_string(checkout.path().join("seen")).unwrap();
    assert_eq!(seen, r#"a'b "$HOME" `x` $(y) \ !"#);
}
