//! The point of it all: one runtime stops half way, another finishes from what the checkout says.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use worktreed_client::proto::{self as v1, EventKind, WorktreeState};

use crate::{
    events,
    repo::git,
    scene::{Scene, Start},
    task::{assert_state, at},
};

/// What runtime A does before it is killed: half of the steps, noted as the scaffold asks for it.
const RUNTIME_A: &str = r#"
set -e
echo 'fn parse() {}' > parse.txt
git add parse.txt && git commit -qm 'parse'
echo 'half a' > print.txt
sed -i 's/^## Done$/## Done\n\n- wrote parse.txt/' task-progress.md
echo ready
read -r _
"#;

#[tokio::test]
async fn runtime_b_finishes_from_the_resume_state_alone_what_a_was_killed_over() {
    let scene = Scene::with(20, Start::default().env("WORKTREED_LEASE_TTL_MIN", "1s")).await;
    let task = scene.task("story");
    let scaffold = v1::Scaffold {
        title: "Parse and print".to_owned(),
        acceptance_criteria: vec!["parse.txt and print.txt are there".to_owned()],
        commands: Some(v1::ScaffoldCommands {
            verify: "test -s parse.txt && grep -q whole print.txt".to_owned(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let worktree = task
        .try_provision(|request| request.scaffold = Some(scaffold))
        .await
        .unwrap()
        .worktree
        .unwrap();
    let mut watch = events::watch_now(&scene.client).await;

    // Runtime A: a process of its own, that clocks in, works, and is killed without a word.
    let mut process = Command::new("bash");
    process
        .args(["-c", RUNTIME_A])
        .current_dir(&worktree.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    process.envs([
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
    ]);
    let mut a = process.spawn().unwrap();
    let pid = i64::from(a.id());
    let lease = task
        .acquire_with("runtime-a", |request| {
            request.ttl = Some(prost_types::Duration {
                seconds: 2,
                nanos: 0,
            });
            request.holder_process = Some(v1::HolderProcess {
                pid,
                ..Default::default()
            });
        })
        .await
        .unwrap()
        .lease
        .unwrap();
    let mut said = String::new();
    BufReader::new(a.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, "ready\n");
    a.kill().unwrap();
    a.wait().unwrap();
    events::wait_for(&mut watch, EventKind::LeaseExpired).await;

    // Runtime B: another connection, and nothing but the key of the task.
    let b = task.by(&scene.server.client());
    let turn = b
        .acquire_with("runtime-b", |request| {
            request.runtime = "claude-code".to_owned()
        })
        .await
        .unwrap();
    let (state, epoch, path) = (
        turn.resume_state.unwrap(),
        turn.lease.unwrap().epoch,
        turn.worktree.unwrap().path,
    );
    assert!(epoch > lease.epoch);
    assert!(!state.has_handoff);
    assert_eq!(state.done, ["wrote parse.txt"]);
    let verify = state.commands.unwrap().verify;
    let verified = || {
        Command::new("bash")
            .args(["-c", &verify])
            .current_dir(&path)
            .status()
            .unwrap()
            .success()
    };
    assert!(!verified(), "half done");
    assert_eq!(
        std::fs::read(std::path::Path::new(&path).join("print.txt")).unwrap(),
        b"half a\n"
    );
    std::fs::write(std::path::Path::new(&path).join("print.txt"), "the whole\n").unwrap();
    assert!(verified());
    let mut note = crate::task::handoff("review it");
    (note.runtime, note.completed_subtasks) = (
        "claude-code".to_owned(),
        [state.done, vec!["wrote print.txt".to_owned()]].concat(),
    );
    b.write_handoff(epoch, note).await.unwrap();
    let completed = b.complete(0).await.unwrap();
    assert_state(
        completed.worktree.as_ref().unwrap(),
        WorktreeState::Retained,
    );
    let stat = completed.diff_stat.unwrap();
    assert_eq!((stat.files_changed, stat.insertions), (2, 2));
    assert!(
        git(&at(&worktree, ""), &["log", "--format=%s"]).contains("parse"),
        "A's commit is there"
    );
    assert_eq!(task.handoffs().await.len(), 1);
}
