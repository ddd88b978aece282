//! Repositories that cannot be served, and a git that cannot serve.

use std::{fs, os::unix::fs::symlink, path::Path};

use worktreed_client::{
    Code,
    proto::{ErrorReason, GetServerInfoRequest, WarningCode},
};

use crate::{
    events,
    repo::{Repo, git, tree},
    scene::{PATIENCE, Scene, Server, Start, directory, shim},
    task::{Task, metadata, refused},
};

#[tokio::test]
async fn what_is_not_a_repository_is_not_found() {
    let scene = Scene::new().await;
    let repos = scene.path().join("repos");
    fs::create_dir(repos.join("plain")).unwrap();
    fs::write(repos.join("file"), "a file\n").unwrap();
    fs::create_dir(repos.join("hollow")).unwrap();
    fs::write(repos.join("hollow/.git"), "gitdir: /nonexistent\n").unwrap();
    for name in ["missing", "plain", "file", "hollow"] {
        let path = repos.join(name);
        let task = Task::new(&scene.client, &path, "t1");
        let error = refused(
            task.try_provision(|_| {}).await,
            Code::NotFound,
            ErrorReason::RepositoryNotFound,
        );
        assert_eq!(metadata(&error, "repo"), path.to_str().unwrap());
    }
    assert_eq!(
        tree(&repos.join("plain")),
        [] as [String; 0],
        "nothing is made of it"
    );
    let configured = Task::new(&scene.client, Path::new("no-such-name"), "t1");
    refused(
        configured.try_provision(|_| {}).await,
        Code::NotFound,
        ErrorReason::RepositoryNotFound,
    );
    assert_eq!(events::log(&scene.client).await, []);
}

#[tokio::test]
async fn a_repository_outside_the_allowed_roots_is_refused_also_behind_a_link() {
    let scene = Scene::new().await;
    let outside = Repo::with_files(&scene.path().join("outside"), 2);
    symlink(&outside.path, scene.path().join("repos/link-out")).unwrap();
    let before = outside.bystanders();
    let sibling = Repo::with_files(&scene.path().join("repos-and-more"), 2);
    for path in [
        outside.path.clone(),
        scene.path().join("repos/link-out"),
        scene.path().join("repos/../outside"),
        sibling.path,
    ] {
        let task = Task::new(&scene.client, &path, "t1");
        refused(
            task.try_provision(|_| {}).await,
            Code::PermissionDenied,
            ErrorReason::RepositoryNotAllowed,
        );
        refused(
            task.try_get().await,
            Code::PermissionDenied,
            ErrorReason::RepositoryNotAllowed,
        );
    }
    // Whether it exists is not told of what lies outside.
    let missing = Task::new(&scene.client, &scene.path().join("no-such-place"), "t1");
    refused(
        missing.try_provision(|_| {}).await,
        Code::PermissionDenied,
        ErrorReason::RepositoryNotAllowed,
    );
    before.assert_same(&outside.bystanders());
}

#[tokio::test]
async fn a_checkout_inside_whose_repository_lies_outside_is_refused() {
    let scene = Scene::new().await;
    let outside = Repo::with_files(&scene.path().join("outside"), 2);
    let inside = scene.path().join("repos/linked");
    outside.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        inside.to_str().unwrap(),
    ]);
    let task = Task::new(&scene.client, &inside, "t1");
    refused(
        task.try_provision(|_| {}).await,
        Code::PermissionDenied,
        ErrorReason::RepositoryNotAllowed,
    );
}

#[tokio::test]
async fn without_an_allowed_root_the_service_starts_and_says_how_to_allow_one() {
    let directory = directory();
    let repo = Repo::with_files(&directory.path().join("repos/project"), 2);
    let start = Start {
        no_root: true,
        ..Start::default()
    };
    let scene = Scene::on(directory, repo, start).await;
    let error = refused(
        scene.task("t1").try_provision(|_| {}).await,
        Code::PermissionDenied,
        ErrorReason::RepositoryNotAllowed,
    );
    assert!(
        error.message().contains("allow-root"),
        "{}",
        error.message()
    );
}

#[tokio::test]
async fn a_mirror_clone_is_refused() {
    let scene = Scene::new().await;
    let mirror = scene.path().join("repos/mirror.git");
    scene
        .repo
        .git(&["clone", "-q", "--mirror", ".", mirror.to_str().unwrap()]);
    let task = Task::new(&scene.client, &mirror, "t1");
    let error = refused(
        task.try_provision(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::RepositoryIsMirror,
    );
    assert_eq!(metadata(&error, "repo"), mirror.to_str().unwrap());
    assert_eq!(git(&mirror, &["for-each-ref", "refs/heads/clawboo"]), "");
}

#[tokio::test]
async fn n9_a_repository_of_another_user_is_refused() {
    let scene = Scene::new().await;
    let other = Repo::with_files(&scene.path().join("repos/other"), 2);
    let chown = std::process::Command::new("chown")
        .args(["-R", "12345:12345"])
        .arg(&other.path)
        .status()
        .unwrap();
    if !chown.success() {
        return crate::scene::skip(
            "n9_a_repository_of_another_user_is_refused",
            "chown needs root",
        );
    }
    let task = Task::new(&scene.client, &other.path, "t1");
    refused(
        task.try_provision(|_| {}).await,
        Code::PermissionDenied,
        ErrorReason::RepositoryOwnerMismatch,
    );
    assert!(
        !scene.path().join("home/.gitconfig").exists(),
        "no configuration is written"
    );
}

#[tokio::test]
async fn n15_a_git_that_is_too_old_is_told() {
    let directory = directory();
    let repo = Repo::with_files(&directory.path().join("repos/project"), 2);
    let path = shim(
        directory.path(),
        "case \"$*\" in *version*) echo 'git version 2.25.1'; exit;; esac
exec $REAL \"$@\"",
    );
    told_of_git(directory, repo, path, "2.25.1").await;
}

#[tokio::test]
async fn a_git_that_is_missing_is_told() {
    let directory = directory();
    let repo = Repo::with_files(&directory.path().join("repos/project"), 2);
    // A directory in which `git` cannot be run stands for the whole path.
    let empty = directory.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let start = Start::default().env("PATH", empty.to_str().unwrap());
    told(directory, repo, start, "git").await;
}

async fn told_of_git(
    directory: tempfile::TempDir,
    repo: Repo,
    path: std::path::PathBuf,
    found: &str,
) {
    told(
        directory,
        repo,
        Start {
            path: Some(path),
            ..Start::default()
        },
        found,
    )
    .await;
}

/// A server without a fit git either refuses to start or answers so; it says what it found, and makes nothing.
async fn told(directory: tempfile::TempDir, repo: Repo, start: Start, found: &str) {
    let before = repo.bystanders();
    let mut server = Server::spawn(directory.path(), &start);
    if let Err(status) = server.wait_until_ready().await {
        assert!(!status.success());
        let log = server.log();
        assert!(log.contains(found) && log.contains("2.38"), "{log}");
    } else {
        let task = Task::new(&server.client(), &repo.path, "t1");
        let error = refused(
            task.try_provision(|_| {}).await,
            Code::FailedPrecondition,
            ErrorReason::GitTooOld,
        );
        assert!(metadata(&error, "required").contains("2.38"));
        server
            .client()
            .get_server_info(GetServerInfoRequest {})
            .await
            .unwrap();
    }
    before.assert_same(&repo.bystanders());
}

#[tokio::test]
async fn a_leftover_directory_in_the_way_is_moved_and_not_wiped() {
    let scene = Scene::new().await;
    let first = scene.task("t1").provision().await;
    let place = Path::new(&first.path).with_file_name("t2");
    crate::repo::write(place.join("k.txt"), "somebody's\n");
    let made = scene.task("t2").try_provision(|_| {}).await.unwrap();
    let warning = made
        .warnings
        .iter()
        .find(|warning| warning.code() == WarningCode::LeftoverMoved)
        .expect("it is told");
    assert_eq!(made.worktree.unwrap().path, place.to_str().unwrap());
    assert!(!place.join("k.txt").exists());
    let info = scene
        .client
        .get_server_info(GetServerInfoRequest {})
        .await
        .unwrap();
    let places = [info.worktree_root, info.state_dir].map(|one| tree(Path::new(&one)).join("\n"));
    assert!(
        places
            .iter()
            .any(|one| one.contains("k.txt") && one.contains("somebody's")),
        "{}",
        warning.message
    );
}

#[tokio::test]
async fn a_git_that_hangs_is_killed_with_its_children_at_the_deadline() {
    let directory = directory();
    let repo = Repo::with_files(&directory.path().join("repos/project"), 2);
    let hang = directory.path().join("hang");
    let children = directory.path().join("children");
    let body = format!(
        "if [ -e '{0}' ]; then case \"$*\" in *rev-parse*|*config*) sleep 600 & echo $$ $! >> '{1}'; wait;; esac; fi\nexec $REAL \"$@\"",
        hang.display(),
        children.display()
    );
    let path = shim(directory.path(), &body);
    let start = Start {
        path: Some(path),
        ..Start::default()
    }
    .env("WORKTREED_GIT_DEADLINE", "1s")
    .env("WORKTREED_PROBE_DEADLINE", "1s");
    let scene = Scene::on(directory, repo, start).await;
    fs::write(&hang, "").unwrap();
    let error = tokio::time::timeout(PATIENCE, scene.task("t1").try_provision(|_| {}))
        .await
        .expect("it ends by its own deadline");
    let error = refused(error, Code::DeadlineExceeded, ErrorReason::GitTimeout);
    assert!(
        error.metadata().contains_key("command") && error.metadata().contains_key("timeout"),
        "{:?}",
        error.metadata()
    );
    for pid in fs::read_to_string(&children).unwrap().split_whitespace() {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(
            state.is_empty() || state.contains(") Z "),
            "{pid} still runs"
        );
    }
    fs::remove_file(&hang).unwrap();
    scene.task("t1").provision().await;
}
