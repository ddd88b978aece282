//! How a worktree ends, what leads back, and what does not.

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, EventKind, TaskStatus, WorktreeState},
};

use crate::{
    events,
    repo::{commit_all, write},
    scene::Scene,
    task::{assert_state, at, handoff, metadata, refused},
};

#[tokio::test]
async fn a_task_without_changes_is_cleaned_up_whole_and_can_be_made_anew() {
    let scene = Scene::new().await;
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let first = task.provision().await;
    let epoch = task.clock_in("anna").await;
    // What the service made is not work, whatever the agent writes into it.
    write(
        at(&first, "task-progress.md"),
        "# Progress\n\n## Done\n\n- looked at it\n",
    );

    let completed = task.complete(epoch).await.unwrap();
    assert!(completed.cleaned);
    assert_eq!(completed.diff_stat.unwrap().files_changed, 0);
    let worktree = completed.worktree.unwrap();
    assert_state(&worktree, WorktreeState::DoneClean);
    assert_eq!(worktree.task_status(), TaskStatus::Done);
    assert!(!at(&first, "").exists());
    assert_eq!(scene.repo.task_branches(), "");
    assert_eq!(scene.repo.registered().len(), 1);
    let pinned = scene
        .repo
        .tip(&completed.recovery_point)
        .expect("the recovery point is a ref");
    assert!(
        completed
            .recovery_point
            .starts_with("refs/clawboo/recovery/"),
        "{}",
        completed.recovery_point
    );
    assert!(!scene.repo.git(&["rev-list", &pinned]).is_empty());
    before.assert_same(&scene.repo.bystanders());

    let second = task.provision().await;
    assert_ne!(second.id, first.id, "a new row");
    assert_eq!(
        task.get().await.id,
        second.id,
        "the live row, else the newest"
    );
    let name = v1::get_worktree_request::Name::Id(first.id.clone());
    let by_id = scene
        .client
        .get_worktree(v1::GetWorktreeRequest { name: Some(name) })
        .await
        .unwrap();
    assert_state(&by_id.worktree.unwrap(), WorktreeState::DoneClean);
}

#[tokio::test]
async fn nothing_leads_out_of_a_terminal_state() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    task.complete(0).await.unwrap();
    let illegal = |operation: &str, error: &worktreed_client::Error| {
        assert_eq!(
            (metadata(error, "from"), metadata(error, "operation")),
            ("DONE_CLEAN", operation)
        );
    };
    let (code, reason) = (Code::FailedPrecondition, ErrorReason::IllegalTransition);
    illegal(
        "ACQUIRE_LEASE",
        &refused(task.acquire("anna").await, code, reason),
    );
    illegal(
        "WRITE_HANDOFF",
        &refused(task.write_handoff(0, handoff("go")).await, code, reason),
    );
    illegal(
        "CHECKPOINT",
        &refused(task.checkpoint(0).await, code, reason),
    );
    illegal("PAUSE", &refused(task.pause(0).await, code, reason));
    illegal("RESUME", &refused(task.resume().await, code, reason));
    illegal("COMPLETE", &refused(task.complete(0).await, code, reason));
    illegal(
        "REMOVE",
        &refused(task.remove_with(|_| {}).await, code, reason),
    );
    refused(task.diff_stat().await, code, reason);
}

#[tokio::test]
async fn remove_refuses_work_unless_told_and_pins_it_even_then() {
    let scene = Scene::new().await;
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "work.txt"), "committed\n");
    let commit = commit_all(&at(&worktree, ""), "work");
    write(at(&worktree, "loose.txt"), "loose\n");

    refused(
        task.remove_with(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::UnsavedWork,
    );
    assert_state(&task.get().await, WorktreeState::Provisioned);
    assert!(at(&worktree, "loose.txt").exists());

    let removed = task
        .remove_with(|request| request.discard_changes = true)
        .await
        .unwrap();
    let after = removed.worktree.unwrap();
    assert_state(&after, WorktreeState::Removed);
    assert_eq!(after.task_status(), TaskStatus::Cancelled);
    assert!(!at(&worktree, "").exists());
    assert_eq!(scene.repo.task_branches(), "");
    assert_eq!(scene.repo.registered().len(), 1);
    let reachable = scene.repo.git(&["rev-list", &removed.recovery_point]);
    assert!(
        reachable.lines().any(|line| line == commit),
        "law 1: the commit is reachable"
    );
    assert!(pinned_somewhere(
        &scene,
        &removed.recovery_point,
        "loose.txt",
        b"loose\n"
    ));
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn remove_can_keep_the_branch_and_count_the_task_as_done() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let removed = task
        .remove_with(|request| (request.keep_branch, request.complete_task) = (true, true))
        .await
        .unwrap();
    assert_eq!(removed.worktree.unwrap().task_status(), TaskStatus::Done);
    assert_eq!(scene.repo.task_branches(), "clawboo/task-t1");

    // The branch is this task's own: it is attached again, with the baseline that it had.
    let again = task.provision().await;
    assert_eq!(again.head, scene.repo.tip("clawboo/task-t1").unwrap());
    let kinds = events::kinds(&scene.client, "t1").await;
    assert!(
        kinds.contains(&EventKind::RemoveStarted) && kinds.contains(&EventKind::Removed),
        "{kinds:?}"
    );
}

/// Whether one of the commits that a recovery point reaches holds this file with these bytes.
pub(crate) fn pinned_somewhere(
    scene: &Scene,
    recovery_point: &str,
    name: &str,
    bytes: &[u8],
) -> bool {
    let commits = scene.repo.git(&["rev-list", recovery_point]);
    commits.lines().any(|commit| {
        let listing = scene
            .repo
            .git(&["ls-tree", "-r", "-z", "--full-tree", commit]);
        let entries = listing
            .split('\0')
            .filter_map(|entry| entry.split_once('\t'));
        let mut blobs =
            entries.filter(|(_, path)| *path == name || path.ends_with(&format!("/{name}")));
        blobs.any(|(head, _)| {
            let id = head.split(' ').nth(2).unwrap();
            crate::repo::try_git(&scene.repo.path, &["cat-file", "blob", id]).stdout == bytes
        })
    })
}
