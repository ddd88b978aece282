//! Which repository, which base, which branch, which name.

use std::{fs, os::unix::fs::symlink};

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, Worktree, provision_worktree_request::Base},
};

use crate::{
    events,
    repo::{Repo, git, tree, try_git, write},
    scene::{Scene, Start, directory},
    task::{Task, at, handoff, metadata, refused, refused_field},
};

async fn provision_at(
    task: &Task,
    base: Option<Base>,
) -> Result<Worktree, worktreed_client::Error> {
    Ok(task
        .try_provision(|request| request.base = base)
        .await?
        .worktree
        .unwrap())
}

#[tokio::test]
async fn e1_the_base_is_the_one_asked_for() {
    let scene = Scene::new().await;
    let first = scene.repo.head();
    let second = scene.repo.commit_all("on main");
    scene
        .repo
        .git(&["update-ref", "refs/remotes/origin/main", &first]);
    scene.repo.git(&["tag", "-a", "v1", "-m", "v1", &first]);
    scene.repo.git(&["switch", "-q", "-c", "feature"]);
    let third = scene.repo.commit_all("on feature");
    let cases = [
        ("unset", None, &third),
        (
            "head",
            Some(Base::BasePolicy(v1::BasePolicy::Head.into())),
            &third,
        ),
        ("branch", Some(Base::BaseRef("main".to_owned())), &second),
        (
            "full",
            Some(Base::BaseRef("refs/heads/main".to_owned())),
            &second,
        ),
        (
            "remote",
            Some(Base::BaseRef("origin/main".to_owned())),
            &first,
        ),
        ("tag", Some(Base::BaseRef("v1".to_owned())), &first),
        ("sha", Some(Base::BaseSha(first.clone())), &first),
    ];
    for (name, base, expected) in cases {
        let worktree = provision_at(&scene.task(name), base).await.unwrap();
        assert_eq!(&worktree.base_sha, expected, "{name}");
        assert_eq!(
            &git(&at(&worktree, ""), &["rev-parse", "HEAD^"]),
            expected,
            "{name}"
        );
    }
}

#[tokio::test]
async fn the_dirty_source_checkout_is_neither_the_base_nor_changed() {
    let scene = Scene::new().await;
    scene.repo.write("README.md", "dirty\n");
    scene.repo.write("untracked.txt", "untracked\n");
    scene.repo.git(&["add", "README.md"]);
    scene.repo.write("README.md", "dirtier\n");
    let before = scene.repo.bystanders();
    let worktree = scene.task("t1").provision().await;
    assert_eq!(
        fs::read(at(&worktree, "README.md")).unwrap(),
        b"# Project\n"
    );
    assert!(!at(&worktree, "untracked.txt").exists());
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn e3_a_fetched_base_is_refused_plainly() {
    let scene = Scene::new().await;
    let fresh = Base::BasePolicy(v1::BasePolicy::Fresh.into());
    refused(
        provision_at(&scene.task("t1"), Some(fresh)).await,
        Code::Unimplemented,
        ErrorReason::NotImplemented,
    );
}

#[tokio::test]
async fn e4_a_repository_without_commits_is_refused_and_a_lost_head_is_not_taken_for_one() {
    let directory = directory();
    let empty = Repo::init(&directory.path().join("repos/empty"), &[]);
    let scene = Scene::on(directory, empty, Start::default()).await;
    let before = scene.repo.bystanders();
    refused(
        scene.task("t1").try_provision(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::RepositoryHasNoCommits,
    );
    before.assert_same(&scene.repo.bystanders());

    // HEAD names a branch that is gone, while others exist.
    let other = Repo::with_files(&scene.path().join("repos/other"), 3);
    let tip = other.head();
    other.git(&["symbolic-ref", "HEAD", "refs/heads/deleted"]);
    let task = Task::new(&scene.client, &other.path, "t1");
    let answer = task.try_provision(|_| {}).await;
    let error = refused(answer, Code::NotFound, ErrorReason::BaseNotFound);
    assert!(!metadata(&error, "base").is_empty());
    let named = provision_at(&task, Some(Base::BaseRef("main".to_owned())))
        .await
        .unwrap();
    assert_eq!(named.base_sha, tip, "with a base named it works");
}

#[tokio::test]
async fn e6_the_branch_has_no_upstream() {
    let scene = Scene::new().await;
    let origin = scene.path().join("repos/origin.git");
    scene
        .repo
        .git(&["clone", "-q", "--bare", ".", origin.to_str().unwrap()]);
    scene
        .repo
        .git(&["remote", "add", "origin", origin.to_str().unwrap()]);
    scene.repo.git(&["fetch", "-q", "origin"]);
    scene
        .repo
        .git(&["config", "branch.autoSetupMerge", "always"]);
    let worktree = provision_at(
        &scene.task("t1"),
        Some(Base::BaseRef("origin/main".to_owned())),
    )
    .await
    .unwrap();
    assert!(
        !try_git(&at(&worktree, ""), &["rev-parse", "@{u}"])
            .status
            .success()
    );
}

#[tokio::test]
async fn e8_names_that_are_unsafe_are_refused_at_the_door() {
    let scene = Scene::new().await;
    let long = "x".repeat(129);
    let names = [
        "",
        ".",
        "..",
        "a..b",
        "a.lock",
        "a.",
        ".a",
        "-a",
        "--force",
        "a/b",
        "/a",
        "../a",
        "a\\b",
        "a b",
        "a\nb",
        "a\0b",
        "a@{b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "ü",
        "\u{202e}a",
        "$(id)",
        &long,
    ];
    let root = scene
        .client
        .get_server_info(v1::GetServerInfoRequest {})
        .await
        .unwrap()
        .worktree_root;
    let seen = || (tree(std::path::Path::new(&root)), scene.repo.refs());
    let before = seen();
    for name in names {
        let task = scene.task(name);
        refused_field(task.try_provision(|_| {}).await, "key.task_id");
        refused_field(task.try_get().await, "key.task_id");
        refused_field(task.acquire("anna").await, "key.task_id");
        refused_field(task.checkpoint(0).await, "key.task_id");
        refused_field(task.pause(0).await, "key.task_id");
        refused_field(task.resume().await, "key.task_id");
        refused_field(task.complete(0).await, "key.task_id");
        refused_field(task.remove_with(|_| {}).await, "key.task_id");
        refused_field(task.write_handoff(0, handoff("go")).await, "key.task_id");
        refused_field(task.resume_state("").await, "key.task_id");
        refused_field(task.diff_stat().await, "key.task_id");
    }
    assert_eq!(seen(), before);
    assert_eq!(events::log(&scene.client).await, []);
    for name in ["a", "A.b_c-d", "0", &"y".repeat(128)] {
        scene.task(name).provision().await;
    }
}

#[tokio::test]
async fn e10_tasks_that_differ_by_case_do_not_share() {
    let scene = Scene::new().await;
    let lower = scene.task("task").provision().await;
    let upper = scene.task("Task").provision().await;
    assert_ne!(lower.id, upper.id);
    write(at(&lower, "mine.txt"), "lower");
    assert!(lower.path != upper.path && !at(&upper, "mine.txt").exists());
}

#[tokio::test]
async fn e13_a_detached_source_gives_a_task_branch_at_that_commit() {
    let scene = Scene::new().await;
    let first = scene.repo.head();
    scene.repo.commit_all("on main");
    scene.repo.git(&["switch", "-q", "--detach", &first]);
    let worktree = scene.task("t1").provision().await;
    assert_eq!(
        (worktree.base_sha.as_str(), worktree.base_ref.as_str()),
        (first.as_str(), "")
    );
    assert_eq!(
        git(&at(&worktree, ""), &["symbolic-ref", "HEAD"]),
        "refs/heads/clawboo/task-t1"
    );
    assert!(
        !try_git(&scene.repo.path, &["symbolic-ref", "-q", "HEAD"])
            .status
            .success(),
        "the source stays detached"
    );
}

#[tokio::test]
async fn a_link_and_a_subdirectory_name_the_same_repository() {
    let scene = Scene::new().await;
    symlink(&scene.repo.path, scene.path().join("repos/link")).unwrap();
    let worktree = scene.task("t1").provision().await;
    for name in [
        "repos/link",
        "repos/project/src",
        "repos/project/src/part0/../..",
        "repos/link/src/part1",
    ] {
        let same = Task::new(&scene.client, &scene.path().join(name), "t1");
        let seen = same.get().await;
        assert_eq!(seen.id, worktree.id, "{name}");
        assert_eq!(
            seen.key.unwrap().repo,
            scene.repo.path.to_str().unwrap(),
            "replies carry the canonical spelling"
        );
        assert!(!same.try_provision(|_| {}).await.unwrap().created);
    }
}

#[tokio::test]
async fn p3_two_repositories_do_not_share_a_task_and_a_relative_path_is_refused() {
    let scene = Scene::new().await;
    let other = Repo::with_files(&scene.path().join("repos/other"), 3);
    let before = other.bystanders();
    let mine = scene.task("t1").provision().await;
    before.assert_same(&other.bystanders());
    let theirs = Task::new(&scene.client, &other.path, "t1")
        .provision()
        .await;
    assert!(mine.id != theirs.id && mine.repo_id != theirs.repo_id && mine.path != theirs.path);
    let relative = Task::new(&scene.client, std::path::Path::new("./repos/project"), "t1");
    assert!(matches!(
        relative.try_provision(|_| {}).await.unwrap_err().code(),
        Code::InvalidArgument | Code::NotFound
    ));
}
