//! The size of the work and its patch.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

use worktreed_client::{
    Code,
    proto::{ErrorReason, Worktree, WorktreeState},
};

use crate::{
    repo::{Repo, commit_all, git, write},
    scene::{Scene, Start, directory},
    task::{Task, assert_state, at, refused},
};

#[tokio::test]
async fn a9_committed_staged_unstaged_and_untracked_work_counts() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 0);
    write(checkout.join("committed.txt"), "1\n");
    commit_all(&checkout, "work");
    assert!(!task.diff_stat().await.unwrap().dirty);
    write(checkout.join("staged.txt"), "1\n2\n");
    git(&checkout, &["add", "staged.txt"]);
    write(checkout.join("README.md"), "# Changed\n");
    write(checkout.join("deep/untracked.txt"), "1\n2\n3");
    write(checkout.join("binary.bin"), b"\0\x01\0\n\n");
    fs::remove_file(checkout.join("src/part0/file0.txt")).unwrap();
    write(
        checkout.join("TASK.md"),
        "what the service made does not count\n",
    );
    let index = fs::read(git(&checkout, &["rev-parse", "--git-path", "index"])).unwrap();

    let (stat, patch) = task.diff(true, false).await.unwrap();
    assert_eq!(
        (
            stat.files_changed,
            stat.insertions,
            stat.deletions,
            stat.dirty
        ),
        (6, 7, 4, true)
    );
    let patch = String::from_utf8(patch).unwrap();
    for name in [
        "committed.txt",
        "staged.txt",
        "README.md",
        "deep/untracked.txt",
        "binary.bin",
        "src/part0/file0.txt",
    ] {
        assert!(
            patch.contains(&format!("b/{name}")),
            "{name} is not in\n{patch}"
        );
    }
    assert!(!patch.contains("TASK.md"));
    assert_eq!(
        fs::read(git(&checkout, &["rev-parse", "--git-path", "index"])).unwrap(),
        index,
        "a look changes nothing"
    );
    let (with_sor, patch) = task.diff(true, true).await.unwrap();
    assert_eq!(with_sor.files_changed, 7);
    assert!(String::from_utf8(patch).unwrap().contains("TASK.md"));

    // The patch is one that git takes.
    let (_, patch) = task.diff(true, false).await.unwrap();
    let text: Vec<u8> = patch;
    let clean = scene.path().join("repos/apply");
    scene.repo.git(&[
        "worktree",
        "add",
        "-q",
        "--detach",
        clean.to_str().unwrap(),
        &worktree.base_commit,
    ]);
    write(scene.path().join("work.patch"), &text);
    git(
        &clean,
        &[
            "apply",
            "--exclude=binary.bin",
            scene.path().join("work.patch").to_str().unwrap(),
        ],
    );
    assert_eq!(
        fs::read(clean.join("deep/untracked.txt")).unwrap(),
        b"1\n2\n3"
    );

    task.pause(0).await.unwrap();
    let paused = task.diff_stat().await.unwrap();
    assert_eq!(
        (
            paused.files_changed,
            paused.insertions,
            paused.deletions,
            paused.dirty
        ),
        (6, 7, 4, false),
        "of the branch's tip"
    );
}

#[tokio::test]
async fn fifty_untracked_files_count_as_fifty() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    scene
        .repo
        .git(&["config", "status.showUntrackedFiles", "no"]);
    for number in 0..50 {
        write(at(&worktree, &format!("new/{number}.txt")), "one\n");
    }
    let stat = task.diff_stat().await.unwrap();
    assert_eq!((stat.files_changed, stat.insertions), (50, 50));
}

#[tokio::test]
async fn j1_the_user_s_diff_configuration_changes_nothing() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "README.md"), "# Changed\n");
    write(at(&worktree, "new.txt"), "new\n");
    git(
        &at(&worktree, ""),
        &["mv", "src/part0/file0.txt", "moved.txt"],
    );
    let clean = task.diff(true, false).await.unwrap();
    let marker = scene.path().join("ran");
    let script = scene.path().join("external.sh");
    crate::repo::script(
        &script,
        &format!("#!/bin/sh\ntouch '{}'\n", marker.display()),
    );
    let order = scene.path().join("order");
    write(&order, "src/*\n");
    let settings = [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.external", script.to_str().unwrap()),
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("diff.algorithm", "histogram"),
        ("diff.renames", "copies"),
        ("diff.orderFile", order.to_str().unwrap()),
        ("diff.context", "0"),
        ("diff.interHunkContext", "9"),
        ("core.quotePath", "true"),
        ("diff.txt.textconv", script.to_str().unwrap()),
        ("diff.ignoreSubmodules", "all"),
        ("diff.relative", "true"),
        ("diff.srcPrefix", "x/"),
        ("diff.dstPrefix", "y/"),
    ];
    for (name, value) in settings {
        scene.repo.git(&["config", name, value]);
    }
    write(
        scene.repo.path.join(".git/info/attributes"),
        "*.txt diff=txt\n*.md diff=txt\n",
    );
    let set = task.diff(true, false).await.unwrap();
    assert_eq!(set.0, clean.0);
    assert_eq!(
        String::from_utf8_lossy(&set.1),
        String::from_utf8_lossy(&clean.1)
    );
    assert!(!marker.exists(), "no code of the repository runs");
}

#[tokio::test]
async fn j3_a_base_that_moved_on_does_not_show() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "mine.txt"), "mine\n");
    for number in 0..3 {
        scene.repo.write("theirs.txt", format!("{number}\n"));
        scene.repo.commit_all("main moves on");
    }
    let (stat, patch) = task.diff(true, false).await.unwrap();
    assert_eq!(
        (stat.files_changed, stat.insertions, stat.deletions),
        (1, 1, 0)
    );
    assert!(!String::from_utf8(patch).unwrap().contains("theirs"));
}

#[tokio::test]
async fn j4_a_checkout_that_is_gone_never_shows_another_one_s_diff() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    scene.repo.write("dirty-in-main.txt", "dirty\n");
    fs::remove_dir_all(&worktree.path).unwrap();
    refused(
        task.diff(true, false).await,
        Code::FailedPrecondition,
        ErrorReason::CheckoutAbsent,
    );
    fs::create_dir(&worktree.path).unwrap();
    let error = task.diff(true, false).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
}

#[tokio::test]
async fn j6_names_and_content_that_are_not_utf8_are_bytes() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let names: [&[u8]; 4] = [
        b"\xff.txt",
        b"tab\t.txt",
        b"quote\".txt",
        b"line\nbreak.txt",
    ];
    for name in names {
        write(
            at(&worktree, "").join(OsStr::from_bytes(name)),
            b"caf\xe9\n",
        );
    }
    let (stat, patch) = task.diff(true, false).await.unwrap();
    assert_eq!((stat.files_changed, stat.insertions), (4, 4));
    assert!(
        patch.windows(5).any(|bytes| bytes == b"caf\xe9\n"),
        "latin-1 as it is"
    );
    task.pause(0).await.unwrap();
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 4);
    task.resume().await.unwrap();
    for name in names {
        assert_eq!(
            fs::read(at(&worktree, "").join(OsStr::from_bytes(name))).unwrap(),
            b"caf\xe9\n"
        );
    }
}

#[tokio::test]
async fn j7_a_sha256_repository_goes_through_its_life() {
    let directory = directory();
    let repo = Repo::with_files_and(
        &directory.path().join("repos/sha256"),
        5,
        &["--object-format=sha256"],
    );
    let scene = Scene::on(directory, repo, Start::default()).await;
    let before = scene.repo.bystanders();
    let task: Task = scene.task("t1");
    let worktree: Worktree = task.provision().await;
    for id in [&worktree.base_sha, &worktree.base_commit, &worktree.head] {
        assert_eq!(id.len(), 64);
    }
    write(at(&worktree, "new.txt"), "new\n");
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 1);
    let observed = task
        .write_handoff(0, crate::task::handoff("go"))
        .await
        .unwrap()
        .handoff
        .unwrap()
        .observed
        .unwrap();
    assert_eq!(observed.head.len(), 64);
    assert_eq!(task.pause(0).await.unwrap().head.len(), 64);
    let resumed = task.resume().await.unwrap();
    assert_eq!(fs::read(at(&resumed, "new.txt")).unwrap(), b"new\n");
    assert_state(
        &task.complete(0).await.unwrap().worktree.unwrap(),
        WorktreeState::Retained,
    );
    let clean = scene.task("t2");
    clean.provision().await;
    assert!(clean.complete(0).await.unwrap().cleaned);
    before.assert_same(&scene.repo.bystanders());
}
