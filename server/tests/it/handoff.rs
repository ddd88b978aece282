//! Clock out: the handoff that a cold runtime goes on from.

use std::fs;

use serde_json::{Value, json};
use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, HandoffOrigin, Worktree, WorktreeState},
};

use crate::{
    events,
    repo::{commit_all, git, write},
    scene::Scene,
    task::{assert_state, at, handoff},
};

pub(crate) const FILE: &str = "AGENT_HANDOFF.json";

fn full() -> v1::Handoff {
    v1::Handoff {
        handoff_from: "agent-a".to_owned(),
        runtime: "claude-code".to_owned(),
        timestamp: "2026-01-02T03:04:05Z".to_owned(),
        completed_subtasks: vec!["parse".to_owned(), "print ☃".to_owned()],
        broken_or_unverified: vec!["windows".to_owned()],
        next_best_step: "test it".to_owned(),
        why_blocked: Some("no key".to_owned()),
        commands: Some(v1::Commands {
            init: "./init.sh".to_owned(),
            verify: "make test".to_owned(),
            start: "make run".to_owned(),
        }),
        evidence: Some(v1::Evidence {
            test_results: Some("12 passed".to_owned()),
            lint_results: None,
        }),
        warnings: vec!["slow".to_owned()],
        native_session_id: Some("session-9".to_owned()),
        room_cursor: Some(v1::RoomCursor {
            room_id: "r".to_owned(),
            last_seen_seq: 41,
        }),
        extra_json: r#"{"mood":"good","deep":{"a":[1,2]}}"#.to_owned(),
        ..Default::default()
    }
}

fn file(worktree: &Worktree) -> Value {
    serde_json::from_slice(&fs::read(at(worktree, FILE)).unwrap()).unwrap()
}

#[tokio::test]
async fn a_handoff_goes_through_file_history_and_resume_state_and_stays_the_same() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let epoch = task.clock_in("anna").await;
    let answer = task.write_handoff(epoch, full()).await.unwrap();
    assert_eq!(answer.number, 1);
    let written = answer.handoff.unwrap();
    assert_eq!(
        (written.task_id.as_str(), written.origin()),
        ("t1", HandoffOrigin::Agent)
    );

    let bytes = fs::read(at(&worktree, FILE)).unwrap();
    assert!(
        bytes.starts_with(b"{\n  \"") && bytes.ends_with(b"}\n"),
        "two-space JSON with a line break at its end"
    );
    let json = file(&worktree);
    assert_eq!(json["handoffFrom"], "agent-a");
    assert_eq!(json["completedSubtasks"], json!(["parse", "print ☃"]));
    assert_eq!(
        json["roomCursor"],
        json!({"roomId": "r", "lastSeenSeq": 41}),
        "a number, not a string"
    );
    assert_eq!(
        (&json["mood"], &json["deep"]),
        (&json!("good"), &json!({"a": [1, 2]})),
        "unknown keys stand at the top level"
    );

    let read = task.get_handoff().await.unwrap();
    assert!(!read.from_history && read.problem.is_empty());
    let read = read.handoff.unwrap();
    let claims = |one: &v1::Handoff| v1::Handoff {
        observed: None,
        task_id: String::new(),
        origin: 0,
        schema_version: 0,
        extra_json: String::new(),
        ..one.clone()
    };
    assert_eq!(claims(&read), claims(&full()));
    assert_eq!(
        serde_json::from_str::<Value>(&read.extra_json).unwrap(),
        json!({"mood": "good", "deep": {"a": [1, 2]}})
    );

    let state = task.resume_state("claude-code").await.unwrap();
    assert!(state.has_handoff);
    assert_eq!(
        (state.done.as_slice(), state.broken.as_slice()),
        (
            &full().completed_subtasks[..],
            &full().broken_or_unverified[..]
        )
    );
    assert_eq!(
        (state.next.as_deref(), state.why_blocked.as_deref()),
        (Some("test it"), Some("no key"))
    );
    assert_eq!(
        (state.last_runtime.as_deref(), state.handoff_from.as_deref()),
        (Some("claude-code"), Some("agent-a"))
    );
    assert_eq!(state.native_session_id.as_deref(), Some("session-9"));
    assert_eq!(
        task.resume_state("codex").await.unwrap().native_session_id,
        None,
        "withheld from another runtime"
    );
    assert!(
        task.resume_state("")
            .await
            .unwrap()
            .native_session_id
            .is_some(),
        "shown to an onlooker"
    );
    let history = task.handoffs().await;
    assert_eq!((history.len(), history[0].number), (1, 1));
}

#[tokio::test]
async fn a_handoff_can_keep_the_lease_and_fills_in_what_is_left_out() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let epoch = task.clock_in("anna").await;
    let request = v1::WriteHandoffRequest {
        key: Some(task.key.clone()),
        lease_epoch: epoch,
        handoff: Some(handoff("")),
        keep_lease: true,
        ..Default::default()
    };
    let answer = scene.client.write_handoff(request).await.unwrap();
    let after = answer.worktree.unwrap();
    assert_state(&after, WorktreeState::HandedOff);
    assert_eq!(after.lease.unwrap().epoch, epoch);
    let json = file(&worktree);
    assert_eq!(
        (&json["nextBestStep"], &json["commands"]),
        (
            &json!(""),
            &json!({"init": "./init.sh", "verify": "", "start": ""})
        )
    );
    assert_eq!(
        (&json["completedSubtasks"], &json["evidence"]),
        (&json!([]), &json!({}))
    );
    assert!(json["timestamp"].as_str().unwrap().ends_with('Z'));
    task.checkpoint(epoch).await.unwrap();
    let again = task.write_handoff(epoch, handoff("second")).await.unwrap();
    assert_eq!(again.number, 2);
    assert_eq!(
        task.handoffs()
            .await
            .iter()
            .map(|entry| entry.number)
            .collect::<Vec<_>>(),
        [2, 1],
        "the newest first"
    );
}

#[tokio::test]
async fn a_handoff_without_what_is_required_is_refused_and_writes_nothing() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let before = events::log(&scene.client).await.len();
    let change = |change: fn(&mut v1::Handoff)| {
        let mut one = handoff("go");
        change(&mut one);
        one
    };
    let cases = [
        change(|one| one.handoff_from.clear()),
        change(|one| one.runtime.clear()),
        change(|one| one.extra_json = "[1]".to_owned()),
        change(|one| one.extra_json = "{".to_owned()),
        change(|one| one.next_best_step = "x".repeat(1 << 20)),
    ];
    for one in cases {
        let error = task.write_handoff(0, one).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        assert!(
            matches!(
                error.reason(),
                Some(ErrorReason::HandoffInvalid | ErrorReason::InvalidField)
            ),
            "{error}"
        );
        assert!(
            error
                .field_violations()
                .iter()
                .any(|one| one.field.starts_with("handoff")),
            "{:?}",
            error.field_violations()
        );
    }
    assert!(!at(&worktree, FILE).exists());
    assert_eq!(events::log(&scene.client).await.len(), before);
}

#[tokio::test]
async fn l4_what_the_service_saw_is_kept_apart_from_what_the_agent_claims() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "a.txt"), "a\n");
    let head = commit_all(&at(&worktree, ""), "work");
    write(at(&worktree, "b.txt"), "b\nb\n");
    let mut claim = handoff("go");
    claim.evidence = Some(v1::Evidence {
        test_results: Some("all passed".to_owned()),
        lint_results: None,
    });
    claim.observed = Some(v1::Observed {
        head: "forged".to_owned(),
        ..Default::default()
    });
    let answer = task.write_handoff(0, claim).await.unwrap().handoff.unwrap();
    let observed = answer.observed.expect("the service looked itself");
    assert_eq!(
        (observed.head.as_str(), observed.commits_since_base),
        (head.as_str(), 1)
    );
    let stat = observed.diff_stat.unwrap();
    assert_eq!(
        (stat.files_changed, stat.insertions, stat.dirty),
        (2, 3, true)
    );
    assert!(
        observed.dirty_paths.contains(&b"b.txt".to_vec()),
        "{:?}",
        observed.dirty_paths
    );
    assert_eq!(
        answer.evidence.unwrap().test_results.as_deref(),
        Some("all passed")
    );
}

#[tokio::test]
async fn l1_the_commit_that_a_handoff_names_stays_reachable() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    write(checkout.join("a.txt"), "a\n");
    let head = commit_all(&checkout, "work");
    task.write_handoff(0, handoff("go")).await.unwrap();
    git(&checkout, &["commit", "-q", "--amend", "-m", "rewritten"]);
    task.pause(0).await.unwrap();
    scene
        .repo
        .git(&["reflog", "expire", "--expire=now", "--all"]);
    scene.repo.git(&["gc", "-q", "--prune=now"]);
    scene.repo.git(&["cat-file", "-e", &head]);
}

#[tokio::test]
async fn l7_l9_the_handoff_and_the_work_outlive_pause_and_removal() {
    let scene = Scene::new().await;
    scene
        .repo
        .write(".gitignore", "AGENT_HANDOFF.json\ntask-progress.md\n");
    scene.repo.commit_all("ignore what the service writes");
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "dirty.txt"), "dirty\n");
    write(
        at(&worktree, "task-progress.md"),
        "# Progress\n\n## Done\n\n- half\n",
    );
    task.write_handoff(0, handoff("from history"))
        .await
        .unwrap();
    task.pause(0).await.unwrap();
    let read = task.get_handoff().await.unwrap();
    assert!(read.from_history);
    assert_eq!(read.handoff.unwrap().next_best_step, "from history");
    task.resume().await.unwrap();
    assert_eq!(fs::read(at(&worktree, "dirty.txt")).unwrap(), b"dirty\n");
    assert!(
        at(&worktree, FILE).exists()
            && fs::read_to_string(at(&worktree, "task-progress.md"))
                .unwrap()
                .contains("half")
    );
    task.remove_with(|request| request.discard_changes = true)
        .await
        .unwrap();
    assert_eq!(
        task.get_handoff()
            .await
            .unwrap()
            .handoff
            .unwrap()
            .next_best_step,
        "from history"
    );
}

#[tokio::test]
async fn l8_what_was_edited_after_the_handoff_is_seen_and_saved() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let seen = task
        .write_handoff(0, handoff("go"))
        .await
        .unwrap()
        .handoff
        .unwrap()
        .observed
        .unwrap();
    write(at(&worktree, "later.txt"), "later\n");
    let head = commit_all(&at(&worktree, ""), "by hand");
    assert_ne!(
        seen.head, head,
        "the handoff says what HEAD was; a reader can compare"
    );
    assert_eq!(
        task.checkpoint(0).await.unwrap().worktree.unwrap().head,
        head
    );
}
