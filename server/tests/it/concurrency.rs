//! Many at once, ours and the user's.

use std::{collections::BTreeSet, process::Child};

use futures::future::join_all;
use worktreed_client::proto::{self as v1, EventKind, WorktreeState};

use crate::{
    events,
    repo::{Repo, git, git_command},
    scene::{Scene, Server, Start, refused_start, text},
    task::{Task, assert_state, at},
};

#[tokio::test]
async fn thirty_two_provisions_at_once_in_one_repository_all_succeed() {
    let scene = Scene::with(100, Start::default()).await;
    let before = scene.repo.bystanders();
    let tasks: Vec<Task> = (0..32)
        .map(|number| scene.task(&format!("t{number}")))
        .collect();
    let worktrees = join_all(tasks.iter().map(Task::provision)).await;
    let paths: BTreeSet<_> = worktrees.iter().map(|one| one.path.clone()).collect();
    assert_eq!(paths.len(), 32);
    let registered: BTreeSet<_> = scene.repo.registered().into_iter().collect();
    assert!(paths.is_subset(&registered));
    for (task, worktree) in tasks.iter().zip(&worktrees) {
        assert_eq!(git(&at(worktree, ""), &["status", "--porcelain"]), "");
        let text = std::fs::read_to_string(at(worktree, "TASK.md")).unwrap();
        assert!(
            text.contains(&task.key.task_id),
            "a tree carries its own task's scaffold"
        );
    }
    scene.repo.git(&["fsck", "--no-dangling"]);
    before.assert_same(&scene.repo.bystanders());
    let completed = join_all(tasks.iter().map(|task| task.complete(0))).await;
    assert!(completed.into_iter().all(|one| one.unwrap().cleaned));
    assert_eq!(
        (
            scene.repo.task_branches().as_str(),
            scene.repo.registered().len()
        ),
        ("", 1)
    );
}

#[tokio::test]
async fn thirty_two_provisions_of_one_task_make_one_worktree() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let answers = join_all((0..32).map(|_| task.try_provision(|_| {}))).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let ids: BTreeSet<_> = answers
        .iter()
        .map(|one| one.worktree.as_ref().unwrap().id.clone())
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(answers.iter().filter(|one| one.created).count(), 1);
    let listed = scene
        .client
        .list_worktrees(v1::ListWorktreesRequest::default())
        .await
        .unwrap();
    assert_eq!(listed.worktrees.len(), 1);
    assert_eq!(
        events::kinds(&scene.client, "t1").await,
        [EventKind::ProvisionStarted, EventKind::Provisioned]
    );
}

#[tokio::test]
async fn many_operations_on_one_task_take_their_turns() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let mut calls = Vec::new();
    for number in 0..8 {
        crate::repo::write(at(&worktree, &format!("f{number}.txt")), "x\n");
        calls.push(task.checkpoint(0));
    }
    let (saves, _) = tokio::join!(join_all(calls), join_all((0..4).map(|_| task.diff_stat())));
    assert!(saves.into_iter().all(|one| one.is_ok()));
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 8);
    let pauses = join_all((0..4).map(|_| task.pause(0))).await;
    assert!(
        pauses.into_iter().all(|one| one.is_ok()),
        "the first pauses, the others find it paused"
    );
    let resumes = join_all((0..4).map(|_| task.resume())).await;
    assert!(resumes.into_iter().all(|one| one.is_ok()));
    assert!(at(&worktree, "f7.txt").exists());
    let acquired =
        join_all((0..8).map(|number| task.acquire(if number % 2 == 0 { "anna" } else { "bert" })))
            .await;
    let holders: BTreeSet<_> = acquired
        .into_iter()
        .flatten()
        .map(|one| one.lease.unwrap().holder)
        .collect();
    assert_eq!(holders.len(), 1, "one writer");
}

#[tokio::test]
async fn a_second_server_on_the_same_state_directory_is_refused_and_told_who_holds_it() {
    let scene = Scene::new().await;
    scene.task("t1").provision().await;
    let output = refused_start(scene.path(), &Start::default());
    let said = text(&output);
    assert!(said.contains(&scene.server.pid().to_string()), "{said}");
    scene.task("t1").get().await;
    scene.task("t2").provision().await;
}

#[tokio::test]
async fn a_server_killed_leaves_no_lock_behind() {
    let mut scene = Scene::new().await;
    scene.task("t1").provision().await;
    scene.restart(Start::default()).await;
    assert_state(&scene.task("t1").get().await, WorktreeState::Provisioned);
    assert!(scene.repo.path.join(".git/worktrees").exists());
}

/// The user's own git beside ours: adds, lists, prunes and removes until it is told to stop.
fn user(repo: &Repo, number: usize, place: &std::path::Path) -> Child {
    let script = format!(
        "set -u; for round in 1 2 3; do
           git worktree add -q --detach '{0}/u{number}' 2>/dev/null
           git worktree list >/dev/null 2>&1
           git worktree prune >/dev/null 2>&1
           git worktree remove --force '{0}/u{number}' 2>/dev/null
         done; true",
        place.display()
    );
    let mut command = std::process::Command::new("bash");
    let hermetic = git_command(&repo.path);
    for (name, value) in hermetic.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .args(["-c", &script])
        .current_dir(&repo.path)
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn registrations_survive_sixteen_processes_of_the_user_s_own_git() {
    let scene = Scene::new().await;
    let place = scene.path().join("users");
    std::fs::create_dir(&place).unwrap();
    let mut users: Vec<_> = (0..16)
        .map(|number| user(&scene.repo, number, &place))
        .collect();
    let tasks: Vec<Task> = (0..12)
        .map(|number| scene.task(&format!("t{number}")))
        .collect();
    let lives = join_all(tasks.iter().enumerate().map(|(number, task)| async move {
        let worktree = task.provision().await;
        crate::repo::write(at(&worktree, "work.txt"), "work\n");
        task.pause(0).await.unwrap();
        let resumed = task.resume().await.unwrap();
        assert_eq!(std::fs::read(at(&resumed, "work.txt")).unwrap(), b"work\n");
        if number % 3 == 0 {
            task.remove_with(|request| request.discard_changes = true)
                .await
                .unwrap();
        }
    }));
    lives.await;
    for child in &mut users {
        assert!(child.wait().unwrap().success());
    }
    scene.repo.git(&["worktree", "prune"]);
    let registered = scene.repo.registered();
    for (number, task) in tasks.iter().enumerate() {
        let worktree = task.get().await;
        assert_eq!(
            registered.contains(&worktree.path),
            number % 3 != 0,
            "{}",
            worktree.path
        );
        if number % 3 != 0 {
            git(&at(&worktree, ""), &["status", "--porcelain"]);
        }
    }
}

#[tokio::test]
async fn two_servers_with_their_own_state_share_a_repository() {
    let scene = Scene::new().await;
    let second = crate::scene::directory();
    let start = Start::default()
        .arg("--allow-root")
        .arg(scene.path().join("repos").to_str().unwrap());
    let other = Server::start(second.path(), start).await;
    let theirs: Vec<Task> = (0..6)
        .map(|number| Task::new(&other.client(), &scene.repo.path, &format!("b{number}")))
        .collect();
    let ours: Vec<Task> = (0..6)
        .map(|number| scene.task(&format!("a{number}")))
        .collect();
    join_all(ours.iter().chain(&theirs).map(Task::provision)).await;
    scene
        .client
        .reconcile(v1::ReconcileRequest::default())
        .await
        .unwrap();
    for task in ours.iter().chain(&theirs) {
        assert!(at(&task.get().await, "README.md").exists());
    }
    assert_eq!(scene.repo.registered().len(), 13);
    drop(other);
}
