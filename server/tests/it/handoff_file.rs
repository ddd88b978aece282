//! Handoffs that an agent wrote by itself, and files that only look like one.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};
use worktreed_client::proto::{EventKind, HandoffOrigin, Worktree, WorktreeState};

use crate::{
    events,
    handoff::FILE,
    repo::write,
    scene::Scene,
    task::{assert_state, at, handoff},
};

#[tokio::test]
async fn a_handoff_that_the_agent_wrote_itself_is_picked_up_at_release() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let epoch = task.clock_in("anna").await;
    write(
        at(&worktree, FILE),
        r#"{"handoffFrom":"agent-x","runtime":"human","whyBlocked":null,"nextBestStep":"go on"}"#,
    );
    let released = task.release(epoch).await.unwrap();
    assert_state(&released, WorktreeState::HandedOff);
    let history = task.handoffs().await;
    assert_eq!(history.len(), 1);
    let recorded = history[0].handoff.as_ref().unwrap();
    assert_eq!(
        (
            recorded.handoff_from.as_str(),
            recorded.next_best_step.as_str(),
            recorded.origin()
        ),
        ("agent-x", "go on", HandoffOrigin::Agent)
    );
    assert!(
        events::kinds(&scene.client, "t1")
            .await
            .contains(&EventKind::HandedOff)
    );

    // The same file again is not a second handoff.
    let epoch = task.clock_in("anna").await;
    assert_state(&task.release(epoch).await.unwrap(), WorktreeState::Working);
    assert_eq!(task.handoffs().await.len(), 1);
}

#[tokio::test]
async fn pause_and_complete_read_the_agent_s_handoff_too() {
    let scene = Scene::new().await;
    for (name, pause) in [("paused", true), ("completed", false)] {
        let task = scene.task(name);
        let worktree = task.provision().await;
        let epoch = task.clock_in("anna").await;
        write(at(&worktree, "work.txt"), "work\n");
        write(
            at(&worktree, FILE),
            r#"{"handoffFrom":"agent-x","runtime":"codex"}"#,
        );
        if pause {
            task.pause(epoch).await.unwrap();
        } else {
            task.complete(epoch).await.unwrap();
        }
        assert_eq!(task.handoffs().await.len(), 1, "{name}");
    }
}

/// Puts something in the handoff's place, and expects that it counts as none, says why, and hurts nothing.
async fn counts_as_none(scene: &Scene, name: &str, put: impl FnOnce(&Worktree)) {
    let task = scene.task(name);
    let worktree = task.provision().await;
    let epoch = task.clock_in("anna").await;
    put(&worktree);
    let read = task.get_handoff().await.unwrap();
    assert!(
        read.handoff.is_none() && !read.problem.is_empty(),
        "{name}: {read:?}"
    );
    let state = task.resume_state("codex").await.unwrap();
    assert!(
        !state.has_handoff && !state.warnings.is_empty(),
        "{name}: {state:?}"
    );
    assert_state(&task.release(epoch).await.unwrap(), WorktreeState::Working);
    assert_eq!(task.handoffs().await.len(), 0, "{name}");
}

#[tokio::test]
async fn l5_l10_a_file_that_is_no_handoff_counts_as_none_and_says_why() {
    let scene = Scene::new().await;
    let outside = scene.path().join("secret.json");
    write(&outside, r#"{"handoffFrom":"secret","runtime":"codex"}"#);
    counts_as_none(&scene, "malformed", |one| {
        write(at(one, FILE), "{\"handoffFrom\": \"a\",")
    })
    .await;
    counts_as_none(&scene, "empty", |one| write(at(one, FILE), "")).await;
    counts_as_none(&scene, "array", |one| write(at(one, FILE), "[]")).await;
    counts_as_none(&scene, "lacking", |one| {
        write(at(one, FILE), r#"{"runtime":"codex"}"#)
    })
    .await;
    counts_as_none(&scene, "wrong-type", |one| {
        write(at(one, FILE), r#"{"handoffFrom":1,"runtime":"codex"}"#)
    })
    .await;
    counts_as_none(&scene, "not-utf8", |one| {
        write(
            at(one, FILE),
            b"{\"handoffFrom\":\"\xff\",\"runtime\":\"codex\"}",
        )
    })
    .await;
    counts_as_none(&scene, "link", |one| {
        symlink(&outside, at(one, FILE)).unwrap()
    })
    .await;
    counts_as_none(&scene, "directory", |one| {
        fs::create_dir(at(one, FILE)).unwrap()
    })
    .await;
    counts_as_none(&scene, "huge", |one| {
        fs::File::create(at(one, FILE))
            .unwrap()
            .set_len(100 << 20)
            .unwrap()
    })
    .await;
    assert_eq!(
        fs::read_to_string(outside).unwrap(),
        r#"{"handoffFrom":"secret","runtime":"codex"}"#
    );
}

#[tokio::test]
async fn a_handoff_of_a_newer_version_with_unknown_keys_is_read_and_its_keys_are_kept() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let text = r#"{"schemaVersion":99,"handoffFrom":"a","runtime":"from-the-future","telepathy":{"on":true},"whyBlocked":null}"#;
    write(at(&worktree, FILE), text);
    let read = task
        .get_handoff()
        .await
        .unwrap()
        .handoff
        .expect("it is understood as far as it goes");
    assert_eq!(
        (read.runtime.as_str(), read.completed_subtasks.len()),
        ("from-the-future", 0)
    );
    assert_eq!(
        serde_json::from_str::<Value>(&read.extra_json).unwrap()["telepathy"],
        json!({"on": true})
    );
    assert!(task.resume_state("").await.unwrap().has_handoff);
}

#[tokio::test]
async fn l10_a_link_in_the_handoff_s_place_is_never_written_through() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let outside = scene.path().join("outside.txt");
    write(&outside, "theirs\n");
    symlink(&outside, at(&worktree, FILE)).unwrap();
    drop(task.write_handoff(0, handoff("go")).await);
    assert_eq!(fs::read(&outside).unwrap(), b"theirs\n");
}

#[tokio::test]
async fn without_a_handoff_the_progress_log_tells() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let text = "# Progress — t1\r\n\r\n## Done\r\n\r\n- [x] first\r\n* second\r\n- _nothing yet_\r\n\r\n## Blocked\r\n\r\n- no access\r\n";
    write(at(&worktree, "task-progress.md"), text);
    let state = task.resume_state("codex").await.unwrap();
    assert!(!state.has_handoff);
    assert_eq!(state.done, ["first", "second"]);
    assert!(
        state
            .broken
            .iter()
            .chain(state.why_blocked.iter())
            .any(|one| one.contains("no access")),
        "{state:?}"
    );
    assert_eq!(state.last_runtime, None);
}
