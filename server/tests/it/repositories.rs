//! Repositories of every make go through the whole life, and are found as they were.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, WorktreeState},
};

use crate::{
    repo::{Repo, git, try_git, write},
    scene::{Scene, Start, directory, skip},
    task::{Task, assert_state, at, handoff, refused},
};

/// A task's life with and without changes, and that nothing else is touched by it.
async fn whole_life(scene: &Scene, repo: &Repo, named: &Path) {
    let before = repo.bystanders();
    let task = Task::new(&scene.client, named, "work");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    let epoch = task.clock_in("anna").await;
    write(checkout.join("new.txt"), "new\n");
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 1);
    assert!(task.checkpoint(epoch).await.unwrap().committed);
    write(checkout.join("loose.txt"), "loose\n");
    task.write_handoff(epoch, handoff("go on")).await.unwrap();
    let paused = task.pause(0).await.unwrap();
    assert_eq!(repo.tip("clawboo/task-work").unwrap(), paused.head);
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 2);
    let resumed = task.resume().await.unwrap();
    assert_eq!(fs::read(at(&resumed, "loose.txt")).unwrap(), b"loose\n");
    assert!(task.resume_state("codex").await.unwrap().has_handoff);
    let review = task.review("rita", |_| {}).await.unwrap().review.unwrap();
    scene
        .client
        .remove_review(v1::RemoveReviewRequest { id: review.id })
        .await
        .unwrap();
    assert_state(
        &task.complete(0).await.unwrap().worktree.unwrap(),
        WorktreeState::Retained,
    );
    task.remove_with(|request| request.discard_changes = true)
        .await
        .unwrap();
    let clean = Task::new(&scene.client, named, "clean");
    clean.provision().await;
    assert!(clean.complete(0).await.unwrap().cleaned);
    assert_eq!(repo.task_branches(), "");
    before.assert_same(&repo.bystanders());
    repo.git(&["fsck", "--no-dangling"]);
}

async fn scene_of(make: impl FnOnce(&Path) -> Repo) -> Scene {
    let directory = directory();
    let repo = make(&directory.path().join("repos"));
    Scene::on(directory, repo, Start::default()).await
}

#[tokio::test]
async fn e11_names_with_spaces_quotes_line_breaks_and_more() {
    let scene = Scene::with(1, Start::default()).await;
    for name in [
        "a b'\"$x",
        "line\nbreak",
        "ünï-☃",
        "-r",
        "tab\tand\\back",
        "$(touch pwned)`x`",
        "trailing ",
    ] {
        let repo = Repo::with_files(&scene.path().join("repos").join(name), 3);
        whole_life(&scene, &repo, &repo.path).await;
    }
    assert!(!scene.path().join("pwned").exists());
}

#[tokio::test]
async fn a_path_that_is_not_utf8_is_refused_by_name_also_behind_a_link() {
    let scene = Scene::with(1, Start::default()).await;
    let path = scene
        .path()
        .join("repos")
        .join(OsStr::from_bytes(b"latin-\xe9"));
    let repo = Repo::with_files(&path, 3);
    let link = scene.path().join("repos/link");
    symlink(&path, &link).unwrap();
    let before = repo.bystanders();
    let task = Task::new(&scene.client, &link, "t1");
    let error = refused(
        task.try_provision(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::RepositoryUnsupported,
    );
    assert!(error.metadata()["detail"].contains("UTF-8"));
    before.assert_same(&repo.bystanders());
}

#[tokio::test]
async fn n7_a_bare_repository() {
    let scene = scene_of(|repos| {
        let source = Repo::with_files(&repos.join("source"), 5);
        source.git(&[
            "clone",
            "-q",
            "--bare",
            ".",
            repos.join("bare.git").to_str().unwrap(),
        ]);
        Repo {
            path: repos.join("bare.git"),
        }
    })
    .await;
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
    assert_eq!(
        scene.repo.git(&["rev-parse", "--is-bare-repository"]),
        "true"
    );
}

#[tokio::test]
async fn a_shallow_clone() {
    let scene = scene_of(|repos| {
        let source = Repo::with_files(&repos.join("source"), 5);
        source.commit_all("second");
        let url = format!("file://{}", source.path.display());
        source.git(&[
            "clone",
            "-q",
            "--depth",
            "1",
            &url,
            repos.join("shallow").to_str().unwrap(),
        ]);
        Repo {
            path: repos.join("shallow"),
        }
    })
    .await;
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
    assert_eq!(
        scene.repo.git(&["rev-parse", "--is-shallow-repository"]),
        "true"
    );
}

#[tokio::test]
async fn a_detached_source() {
    let scene = scene_of(|repos| {
        let repo = Repo::with_files(&repos.join("detached"), 5);
        repo.git(&["switch", "-q", "--detach"]);
        repo
    })
    .await;
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
}

#[tokio::test]
async fn a_reftable_repository_is_refused_by_name() {
    let probe = directory();
    if !try_git(
        probe.path(),
        &["init", "-q", "--ref-format=reftable", "probe"],
    )
    .status
    .success()
    {
        return skip(
            "a_reftable_repository_is_refused_by_name",
            "this git has no reftable",
        );
    }
    let scene = scene_of(|repos| {
        Repo::with_files_and(&repos.join("reftable"), 5, &["--ref-format=reftable"])
    })
    .await;
    let before = scene.repo.bystanders();
    let answer = scene.task("t1").try_provision(|_| {}).await;
    let error = refused(
        answer,
        Code::FailedPrecondition,
        ErrorReason::RepositoryUnsupported,
    );
    assert!(error.metadata()["detail"].contains("reftable"));
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn packed_refs_and_packed_objects() {
    let scene = scene_of(|repos| {
        let repo = Repo::with_files(&repos.join("packed"), 5);
        repo.git(&["gc", "-q"]);
        repo
    })
    .await;
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
}

#[tokio::test]
async fn a_separate_git_directory() {
    let scene = scene_of(|repos| {
        let git_dir = repos.join("elsewhere.git");
        fs::create_dir_all(repos).unwrap();
        Repo::with_files_and(
            &repos.join("split"),
            5,
            &["--separate-git-dir", git_dir.to_str().unwrap()],
        )
    })
    .await;
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
}

#[tokio::test]
async fn a_repository_without_any_identity() {
    let scene = Scene::new().await;
    scene.repo.git(&["config", "user.useConfigOnly", "true"]);
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
}

#[tokio::test]
async fn g6_git_variables_in_the_server_s_environment_are_not_heard() {
    let directory = directory();
    let other = Repo::with_files(&directory.path().join("other"), 3);
    let repo = Repo::with_files(&directory.path().join("repos/project"), 5);
    let git_dir = other.path.join(".git");
    let set = |start: Start, name: &str, value: PathBuf| start.env(name, value.to_str().unwrap());
    let mut start = Start::default();
    start = set(start, "GIT_DIR", git_dir.clone());
    start = set(start, "GIT_WORK_TREE", other.path.clone());
    start = set(start, "GIT_INDEX_FILE", git_dir.join("index"));
    start = set(start, "GIT_OBJECT_DIRECTORY", git_dir.join("objects"));
    start = set(start, "GIT_COMMON_DIR", git_dir.clone());
    start = start
        .env("GIT_NAMESPACE", "ns")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "core.bare")
        .env("GIT_CONFIG_VALUE_0", "true");
    start = start
        .env("GIT_AUTHOR_DATE", "nonsense")
        .env("GIT_TRACE", "1");
    let before = other.bystanders();
    let objects = crate::repo::tree(&git_dir.join("objects"));
    let scene = Scene::on(directory, repo, start).await;
    whole_life(&scene, &scene.repo, &scene.repo.path).await;
    before.assert_same(&other.bystanders());
    assert_eq!(crate::repo::tree(&git_dir.join("objects")), objects);
}

#[tokio::test]
async fn a_repository_that_is_itself_a_linked_checkout() {
    let scene = Scene::new().await;
    let linked = scene.path().join("repos/linked");
    scene.repo.git(&[
        "worktree",
        "add",
        "-q",
        "-b",
        "side",
        linked.to_str().unwrap(),
    ]);
    write(linked.join("side.txt"), "side\n");
    let tip = crate::repo::commit_all(&linked, "on side");
    let task = Task::new(&scene.client, &linked, "t1");
    let worktree = task.provision().await;
    assert_eq!(
        (worktree.base_sha.as_str(), worktree.base_ref.as_str()),
        (tip.as_str(), "side"),
        "HEAD of the checkout that was named"
    );
    assert!(at(&worktree, "side.txt").exists());
    assert_eq!(git(&linked, &["status", "--porcelain"]), "");
}

/// Copies so many files of the sources that cargo has fetched.
fn copy_sources(to: &Path, count: usize) -> Option<usize> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))?;
    let mut pending = vec![home.join("registry/src")];
    let mut copied = 0;
    while let Some(next) = pending.pop() {
        let Ok(entries) = fs::read_dir(&next) else {
            continue;
        };
        for entry in entries.flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            let inside = path
                .strip_prefix(home.join("registry/src"))
                .ok()?
                .to_owned();
            let hidden = inside
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(b".git"));
            if kind.is_dir() && !hidden {
                pending.push(path);
            } else if kind.is_file()
                && !hidden
                && copied < count
                && entry.metadata().is_ok_and(|one| one.len() < 200_000)
            {
                let target = to.join(inside.iter().skip(1).collect::<PathBuf>());
                fs::create_dir_all(target.parent()?).ok()?;
                fs::copy(&path, target).ok()?;
                copied += 1;
            }
        }
        if copied >= count {
            break;
        }
    }
    (copied > 0).then_some(copied)
}

#[tokio::test]
async fn five_thousand_real_files() {
    let directory = directory();
    let repo = Repo::init(&directory.path().join("repos/large"), &[]);
    match copy_sources(&repo.path, 5_000) {
        Some(count) if count >= 5_000 => {}
        _ => {
            return skip(
                "five_thousand_real_files",
                "the cargo registry holds no 5,000 source files",
            );
        }
    }
    repo.commit_all("sources");
    let scene = Scene::on(directory, repo, Start::default()).await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    assert_eq!(git(&checkout, &["status", "--porcelain"]), "");
    write(checkout.join("new.txt"), "new\n");
    task.pause(0).await.unwrap();
    let resumed = task.resume().await.unwrap();
    assert_eq!(git(&at(&resumed, ""), &["status", "--porcelain"]), "");
    assert_eq!(
        git(
            &at(&resumed, ""),
            &["diff", "--stat", "HEAD", &worktree.base_commit]
        )
        .lines()
        .count(),
        2,
        "nothing but the new file"
    );
    assert_eq!(
        task.complete(0)
            .await
            .unwrap()
            .diff_stat
            .unwrap()
            .files_changed,
        1
    );
}
