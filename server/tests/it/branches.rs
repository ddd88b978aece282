//! Whose branch it is: names that are taken, held elsewhere, gone, or inherited.

use std::fs;

use worktreed_client::{
    Code,
    proto::{ErrorReason, WorktreeState},
};

use crate::{
    repo::{commit_all, write},
    scene::Scene,
    task::{assert_state, at, handoff, metadata, refused},
};

#[tokio::test]
async fn e14_a_branch_that_is_not_the_task_s_is_never_attached_or_reset() {
    let scene = Scene::new().await;
    let base = scene.repo.head();
    scene.repo.git(&["switch", "-q", "-c", "clawboo/task-t1"]);
    let tip = scene.repo.commit_all("theirs");
    scene.repo.git(&["switch", "-q", "main"]);
    let error = refused(
        scene.task("t1").try_provision(|_| {}).await,
        Code::AlreadyExists,
        ErrorReason::BranchExists,
    );
    assert_eq!(
        (metadata(&error, "branch"), metadata(&error, "tip")),
        ("clawboo/task-t1", tip.as_str())
    );
    assert_eq!(scene.repo.tip("clawboo/task-t1").unwrap(), tip);
    // Nothing was made, or a row that says so.
    if let Ok(worktree) = scene.task("t1").try_get().await {
        assert_state(&worktree, WorktreeState::Failed);
        assert!(!at(&worktree, "").exists());
    }

    // At the branch point itself there is nothing to lose.
    scene.repo.git(&["branch", "clawboo/task-t2", &base]);
    assert_eq!(scene.task("t2").provision().await.base_sha, base);
}

#[tokio::test]
async fn d1_a_branch_checked_out_elsewhere_is_refused_with_its_place() {
    let scene = Scene::new().await;
    scene.repo.git(&["switch", "-q", "-c", "clawboo/task-t1"]);
    let error = refused(
        scene.task("t1").try_provision(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::BranchCheckedOut,
    );
    assert_eq!(
        (metadata(&error, "branch"), metadata(&error, "path")),
        ("clawboo/task-t1", scene.repo.path.to_str().unwrap())
    );

    // The same when a paused task's branch was taken meanwhile.
    let task = scene.task("t2");
    task.provision().await;
    task.pause(0).await.unwrap();
    scene.repo.git(&["switch", "-q", "clawboo/task-t2"]);
    let error = refused(
        task.resume().await,
        Code::FailedPrecondition,
        ErrorReason::BranchCheckedOut,
    );
    assert_eq!(metadata(&error, "path"), scene.repo.path.to_str().unwrap());
    assert_state(&task.get().await, WorktreeState::Paused);
    scene.repo.git(&["switch", "-q", "main"]);
    task.resume().await.unwrap();
}

#[tokio::test]
async fn a_branch_named_like_the_namespace_is_named() {
    let scene = Scene::new().await;
    scene.repo.git(&["branch", "clawboo"]);
    let error = refused(
        scene.task("t1").try_provision(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::BranchNamespaceBlocked,
    );
    assert_eq!(metadata(&error, "branch"), "clawboo");
}

#[tokio::test]
async fn e15_a_branch_that_is_gone_is_told_and_nothing_is_made_of_it() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    task.pause(0).await.unwrap();
    scene
        .repo
        .git(&["update-ref", "-d", "refs/heads/clawboo/task-t1"]);
    let error = refused(
        task.resume().await,
        Code::FailedPrecondition,
        ErrorReason::BranchGone,
    );
    assert_eq!(metadata(&error, "branch"), "clawboo/task-t1");
    refused(
        task.acquire("anna").await,
        Code::FailedPrecondition,
        ErrorReason::BranchGone,
    );
    assert!(!at(&worktree, "").exists());
    assert_state(&task.get().await, WorktreeState::Paused);
}

#[tokio::test]
async fn a_merged_task_s_scaffold_and_handoff_are_not_taken_for_the_next_one_s() {
    let scene = Scene::new().await;
    let first = scene.task("t1");
    let worktree = first.provision().await;
    write(at(&worktree, "feature.txt"), "done\n");
    let mut note = handoff("merge it");
    (note.completed_subtasks, note.native_session_id) =
        (vec!["all of it".to_owned()], Some("session-1".to_owned()));
    first.write_handoff(0, note).await.unwrap();
    commit_all(&at(&worktree, ""), "work");
    scene
        .repo
        .git(&["merge", "-q", "--no-edit", "clawboo/task-t1"]);

    let second = scene.task("t2").provision().await;
    let state = scene.task("t2").resume_state("codex").await.unwrap();
    assert!(
        !state.has_handoff && state.done.is_empty() && state.native_session_id.is_none(),
        "{state:?}"
    );
    assert!(
        String::from_utf8(fs::read(at(&second, "TASK.md")).unwrap())
            .unwrap()
            .contains("t2")
    );
    assert!(at(&second, "feature.txt").exists());
}

#[tokio::test]
async fn a_file_of_the_repository_with_a_name_of_ours_is_refused_unless_it_gets_a_place_of_its_own()
{
    let scene = Scene::new().await;
    scene.repo.write("TASK.md", "our own tasks\n");
    scene.repo.commit_all("tasks");
    let task = scene.task("t1");
    let error = refused(
        task.try_provision(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::SorFileConflict,
    );
    assert_eq!(metadata(&error, "path"), "TASK.md");
    assert_eq!(scene.repo.task_branches(), "");

    let worktree = task
        .try_provision(|request| request.sor_dir = ".task".to_owned())
        .await
        .unwrap()
        .worktree
        .unwrap();
    assert_eq!(worktree.sor_dir, ".task");
    assert_eq!(
        fs::read(at(&worktree, "TASK.md")).unwrap(),
        b"our own tasks\n"
    );
    assert!(at(&worktree, ".task/TASK.md").exists() && at(&worktree, ".task/init.sh").exists());
    let commands = task.resume_state("").await.unwrap().commands.unwrap();
    assert_eq!(commands.init, "./.task/init.sh");
    task.write_handoff(0, handoff("go")).await.unwrap();
    assert!(at(&worktree, ".task/AGENT_HANDOFF.json").exists());
    write(at(&worktree, "TASK.md"), "changed\n");
    assert_eq!(
        task.diff_stat().await.unwrap().files_changed,
        1,
        "their file is work, ours is not"
    );
}
