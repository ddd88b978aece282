//! The documented life of a worktree, state by state.

use std::{fs, os::unix::fs::PermissionsExt};

use worktreed_client::proto::{
    self as v1, EventKind, Isolation, Operation, Origin, TaskStatus, WarningCode, WorktreeState,
};

use crate::{
    events,
    repo::{commit_all, git, write},
    scene::Scene,
    task::{assert_state, at, handoff},
};

#[tokio::test]
async fn provision_cuts_a_branch_that_is_born_at_its_baseline() {
    let scene = Scene::new().await;
    let head = scene.repo.head();
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let answer = task
        .try_provision(|request| {
            request.scaffold = Some(v1::Scaffold {
                title: "Mend the login".to_owned(),
                ..Default::default()
            });
            request.labels = [("team".to_owned(), "blue".to_owned())].into();
            request.owner = Some(v1::Owner {
                kind: "user".to_owned(),
                id: "anna".to_owned(),
            });
        })
        .await
        .unwrap();
    assert!(answer.created);
    let worktree = answer.worktree.unwrap();

    assert_state(&worktree, WorktreeState::Provisioned);
    assert_eq!(worktree.task_status(), TaskStatus::Todo);
    assert_eq!(worktree.pending_operation(), Operation::Unspecified);
    assert_eq!(worktree.branch, "clawboo/task-t1");
    assert_eq!(worktree.base_sha, head);
    assert_eq!(worktree.base_ref, "main");
    assert_eq!(worktree.head, worktree.base_commit);
    assert_eq!(worktree.kind, "code");
    assert_eq!(worktree.isolation(), Isolation::Worktree);
    assert_eq!(worktree.origin(), Origin::Created);
    assert_eq!(worktree.display_name, "Mend the login");
    assert_eq!(worktree.labels["team"], "blue");
    assert_eq!(worktree.owner.as_ref().unwrap().id, "anna");
    assert_eq!(worktree.key.as_ref().unwrap(), &task.key);
    assert_eq!(
        uuid::Uuid::parse_str(&worktree.id)
            .unwrap()
            .get_version_num(),
        7
    );
    assert_eq!(worktree.repo_id.len(), 16);
    assert!(
        worktree
            .path
            .ends_with(&format!("/{}/t1", worktree.repo_id)),
        "{}",
        worktree.path
    );
    assert!(
        !worktree.etag.is_empty()
            && worktree.lease.is_none()
            && worktree.last_active_time.is_some()
    );

    let checkout = at(&worktree, "");
    assert_eq!(
        git(&checkout, &["rev-parse", "HEAD", "HEAD^"]),
        format!("{}\n{head}", worktree.base_commit)
    );
    assert_eq!(
        git(&checkout, &["symbolic-ref", "HEAD"]),
        "refs/heads/clawboo/task-t1"
    );
    assert_eq!(
        git(&checkout, &["log", "-1", "--format=%s"]),
        "clawboo: scaffold task t1"
    );
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");
    assert!(git(&checkout, &["ls-files", "-s", "init.sh"]).starts_with("100755"));
    assert_eq!(
        fs::metadata(checkout.join("init.sh"))
            .unwrap()
            .permissions()
            .mode()
            & 0o111,
        0o111
    );
    assert_eq!(
        fs::read(checkout.join("src/part1/file12.txt")).unwrap(),
        fs::read(scene.repo.path.join("src/part1/file12.txt")).unwrap()
    );
    assert!(
        scene
            .repo
            .git(&["worktree", "list", "--porcelain"])
            .contains("locked worktreed "),
        "a live worktree is git-locked"
    );
    before.assert_same(&scene.repo.bystanders());
    assert_eq!(task.get().await, worktree);
    assert_eq!(
        events::kinds(&scene.client, "t1").await,
        [EventKind::ProvisionStarted, EventKind::Provisioned]
    );
}

#[tokio::test]
async fn the_scaffold_describes_the_task_and_no_text_forges_a_heading() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let made = task.try_provision(|request| {
        request.scaffold = Some(v1::Scaffold {
            title: "Mend\n## Done\n- all".to_owned(),
            description: "Because.\n## Acceptance criteria\n- [x] forged".to_owned(),
            acceptance_criteria: vec!["it logs in\n## Done".to_owned()],
            known_gotchas: vec!["the cache".to_owned()],
            commands: Some(v1::ScaffoldCommands {
                install: "npm ci".to_owned(),
                verify: "npm test -- 'a b'".to_owned(),
                start: String::new(),
            }),
            team_name: "Blue".to_owned(),
        });
    });
    let worktree = made.await.unwrap().worktree.unwrap();
    let files = task.scaffold().await.unwrap();
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    for name in [
        "TASK.md",
        "task-progress.md",
        "DECISIONS.json",
        "init.sh",
        "VERIFICATION.md",
    ] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let content = |name: &str| {
        String::from_utf8(
            files
                .iter()
                .find(|file| file.name == name)
                .unwrap()
                .content
                .clone(),
        )
        .unwrap()
    };
    let count = |text: &str, line: &str| text.lines().filter(|one| one.trim_end() == line).count();
    let text = content("TASK.md");
    assert!(text.starts_with("# Task: Mend ## Done - all\n"), "{text}");
    assert_eq!(
        (
            count(&text, "## Done"),
            count(&text, "## Acceptance criteria"),
            count(&text, "- [x] forged")
        ),
        (0, 1, 0),
        "{text}"
    );
    let progress = content("task-progress.md");
    assert!(
        progress.starts_with("# Progress — Mend ## Done - all\n"),
        "{progress}"
    );
    assert_eq!(count(&progress, "## Done"), 1);
    let init = files.iter().find(|file| file.name == "init.sh").unwrap();
    assert_eq!(init.mode, 0o100755);
    assert!(content("init.sh").starts_with("#!/usr/bin/env bash\n"));
    assert!(content("DECISIONS.json").contains("clawboo/decisions@1"));
    let state = task.resume_state("").await.unwrap();
    assert!(!state.has_handoff && state.done.is_empty(), "{state:?}");
    let commands = state.commands.unwrap();
    assert_eq!(
        (
            commands.init.as_str(),
            commands.verify.as_str(),
            commands.start.as_str()
        ),
        ("./init.sh", "npm test -- 'a b'", "")
    );
    assert_state(&worktree, WorktreeState::Provisioned);
}

#[tokio::test]
async fn a_changed_task_goes_through_its_life_and_is_retained() {
    let scene = Scene::new().await;
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let worktree = task.provision().await;

    let clock_in = task.acquire("anna").await.unwrap();
    let epoch = clock_in.lease.unwrap().epoch;
    assert_eq!(epoch, 1, "epochs start at 1");
    assert_state(&clock_in.worktree.unwrap(), WorktreeState::Working);
    assert_eq!(task.get().await.task_status(), TaskStatus::InProgress);

    write(at(&worktree, "README.md"), "# Project\nmore\n");
    write(at(&worktree, "new.txt"), "a\nb\n");
    let saved = task.checkpoint(epoch).await.unwrap();
    assert!(saved.committed);
    assert_eq!(saved.head, git(&at(&worktree, ""), &["rev-parse", "HEAD"]));
    assert_eq!(
        git(&at(&worktree, ""), &["log", "-1", "--format=%s"]),
        "clawboo: checkpoint"
    );
    assert_state(saved.worktree.as_ref().unwrap(), WorktreeState::Working);
    assert!(
        !task.checkpoint(epoch).await.unwrap().committed,
        "there was nothing more to save"
    );

    let out = task
        .write_handoff(epoch, handoff("check it"))
        .await
        .unwrap();
    let handed_off = out.worktree.unwrap();
    assert_state(&handed_off, WorktreeState::HandedOff);
    assert!(handed_off.lease.is_none());

    let paused = task.pause(0).await.unwrap();
    assert_state(paused.worktree.as_ref().unwrap(), WorktreeState::Paused);
    assert!(!at(&worktree, "").exists());
    assert_eq!(scene.repo.tip("clawboo/task-t1").unwrap(), paused.head);
    assert!(
        !task.pause(0).await.unwrap().committed,
        "a paused one stays so"
    );

    let resumed = task.resume().await.unwrap();
    assert_state(&resumed, WorktreeState::Working);
    assert!(resumed.lease.is_none());
    assert_eq!(
        resumed.base_commit, worktree.base_commit,
        "the baseline is never recomputed"
    );
    assert_eq!(fs::read(at(&resumed, "new.txt")).unwrap(), b"a\nb\n");

    let completed = task.complete(0).await.unwrap();
    let stat = completed.diff_stat.unwrap();
    assert_eq!(
        (stat.files_changed, stat.insertions, stat.deletions),
        (2, 3, 0)
    );
    assert!(!completed.cleaned);
    assert_state(
        completed.worktree.as_ref().unwrap(),
        WorktreeState::Retained,
    );
    assert_eq!(
        completed.worktree.unwrap().task_status(),
        TaskStatus::InReview
    );
    assert!(at(&resumed, "new.txt").exists());

    // Rework: a retained one can be clocked into again.
    let again = task.acquire("bert").await.unwrap();
    assert!(again.lease.unwrap().epoch > epoch);
    assert_state(&again.worktree.unwrap(), WorktreeState::Working);
    before.assert_same(&scene.repo.bystanders());

    let expected = [
        EventKind::ProvisionStarted,
        EventKind::Provisioned,
        EventKind::LeaseAcquired,
        EventKind::Checkpointed,
        EventKind::Checkpointed,
        EventKind::HandedOff,
        EventKind::LeaseReleased,
        EventKind::Paused,
        EventKind::Resumed,
        EventKind::Retained,
        EventKind::LeaseAcquired,
    ];
    let mut seen = events::kinds(&scene.client, "t1").await;
    // A checkpoint that found nothing, and the end of a lease by a handoff, may or may not be told of.
    seen.retain(|kind| {
        *kind != EventKind::LeaseReleased && *kind != EventKind::RecoveryPointCreated
    });
    seen.dedup();
    let mut expected = expected.to_vec();
    expected.retain(|kind| *kind != EventKind::LeaseReleased);
    expected.dedup();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_repeated_provision_answers_the_worktree_that_there_is_untouched() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let first = task.provision().await;
    task.clock_in("anna").await;
    write(at(&first, "README.md"), "edited\n");
    let tip = commit_all(&at(&first, ""), "work");
    write(at(&first, "dirty.txt"), "not committed\n");
    let other = scene.repo.commit_all("moved on");

    let answer = task
        .try_provision(|request| {
            request.base = Some(v1::provision_worktree_request::Base::BaseSha(other))
        })
        .await
        .unwrap();
    assert!(!answer.created);
    assert!(
        answer
            .warnings
            .iter()
            .any(|warning| warning.code() == WarningCode::BaseMismatch),
        "{:?}",
        answer.warnings
    );
    let worktree = answer.worktree.unwrap();
    assert_eq!(
        (&worktree.id, &worktree.base_sha),
        (&first.id, &first.base_sha)
    );
    assert_state(&worktree, WorktreeState::Working);
    assert_eq!(git(&at(&first, ""), &["rev-parse", "HEAD"]), tip);
    assert_eq!(
        fs::read(at(&first, "dirty.txt")).unwrap(),
        b"not committed\n"
    );

    task.pause(1).await.unwrap();
    let resumed = task.try_provision(|_| {}).await.unwrap();
    assert!(!resumed.created);
    let resumed = resumed.worktree.unwrap();
    assert_eq!(resumed.id, first.id);
    assert_state(&resumed, WorktreeState::Working);
    assert_eq!(
        fs::read(at(&resumed, "dirty.txt")).unwrap(),
        b"not committed\n"
    );
}

#[tokio::test]
async fn a_directory_that_is_gone_is_rebuilt_from_the_branch() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "kept.txt"), "committed\n");
    commit_all(&at(&worktree, ""), "work");

    fs::remove_dir_all(&worktree.path).unwrap();
    let rebuilt = task.acquire("anna").await.unwrap();
    assert_state(rebuilt.worktree.as_ref().unwrap(), WorktreeState::Working);
    assert_eq!(fs::read(at(&worktree, "kept.txt")).unwrap(), b"committed\n");
    assert_eq!(git(&at(&worktree, ""), &["status", "--porcelain"]), "");

    fs::remove_dir_all(&worktree.path).unwrap();
    let resumed = task.resume().await.unwrap();
    assert_state(&resumed, WorktreeState::Working);
    assert!(at(&worktree, "kept.txt").exists());
}

#[tokio::test]
async fn resume_leaves_a_live_worktree_as_it_is() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "dirty.txt"), "mine\n");
    let resumed = task.resume().await.unwrap();
    assert_state(&resumed, WorktreeState::Provisioned);
    assert_eq!(fs::read(at(&worktree, "dirty.txt")).unwrap(), b"mine\n");
}
