//! Submodules, filters, sparse checkouts, code that a repository brings: class N of the faults seen in the field.

use std::fs;

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, WarningCode, WorktreeState},
};

use crate::{
    repo::{Repo, git, script, try_git, write},
    scene::Scene,
    task::{assert_state, at, refused},
};

/// Adds a submodule to the scene's repository.
fn submodule(scene: &Scene) {
    let inner = Repo::with_files(&scene.path().join("inner"), 2);
    let mut add = crate::repo::git_command(&scene.repo.path);
    add.args([
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
    ])
    .arg(&inner.path)
    .arg("sub");
    assert!(add.output().unwrap().status.success());
    scene.repo.commit_all("submodule");
}

#[tokio::test]
async fn n1_submodules_that_are_not_initialised_are_told_and_do_no_harm() {
    let scene = Scene::new().await;
    submodule(&scene);
    scene.repo.git(&["config", "submodule.recurse", "true"]);
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let made = task.try_provision(|_| {}).await.unwrap();
    assert!(
        made.warnings
            .iter()
            .any(|one| one.code() == WarningCode::SubmodulesNotInitialised),
        "{:?}",
        made.warnings
    );
    let worktree = made.worktree.unwrap();
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 0);
    write(at(&worktree, "new.txt"), "new\n");
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 1);
    let entry = |commit: &str| scene.repo.git(&["ls-tree", commit, "sub"]);
    task.pause(0).await.unwrap();
    assert_eq!(
        entry("clawboo/task-t1"),
        entry("main"),
        "the submodule is not lost from the commit"
    );
    task.resume().await.unwrap();
    assert_eq!(git(&at(&worktree, ""), &["status", "--porcelain"]), "");
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn a_submodule_with_a_repository_is_refused_by_name_and_kept() {
    let scene = Scene::new().await;
    submodule(&scene);
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    git(
        &checkout,
        &[
            "-c",
            "protocol.file.allow=always",
            "submodule",
            "--quiet",
            "update",
            "--init",
        ],
    );
    write(checkout.join("sub/work.txt"), "work\n");
    refused(
        task.pause(0).await,
        Code::FailedPrecondition,
        ErrorReason::SubmoduleRepository,
    );
    assert!(checkout.join("sub/work.txt").exists());
    assert_state(&task.get().await, WorktreeState::Provisioned);
}

#[tokio::test]
async fn n3_a_required_filter_that_is_missing_is_told_and_nothing_is_left() {
    let scene = Scene::new().await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
    scene.repo.write("big.bin", pointer);
    scene.repo.write(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    );
    scene.repo.commit_all("pointer");
    let configured = |name: &str, value: &str| scene.repo.git(&["config", name, value]);
    configured("filter.lfs.smudge", "no-such-program smudge -- %f");
    configured("filter.lfs.clean", "no-such-program clean -- %f");
    configured("filter.lfs.required", "true");
    let (refs, registered) = (scene.repo.refs(), scene.repo.registered());
    let task = scene.task("t1");
    let error = task.try_provision(|_| {}).await.unwrap_err();
    assert!(
        matches!(error.code(), Code::Internal | Code::FailedPrecondition),
        "{error}"
    );
    assert!(
        error
            .metadata()
            .values()
            .any(|one| one.contains("no-such-program") || one.contains("lfs")),
        "the cause is kept: {:?}",
        error.metadata()
    );
    assert_eq!(
        (scene.repo.refs(), scene.repo.registered()),
        (refs, registered),
        "rolled back whole"
    );
    // Without the filter the pointer is checked out as it is, and is no change.
    scene.repo.git(&["config", "filter.lfs.required", "false"]);
    for name in ["filter.lfs.smudge", "filter.lfs.clean"] {
        scene.repo.git(&["config", "--unset", name]);
    }
    let worktree = task.try_provision(|_| {}).await.unwrap().worktree.unwrap();
    assert_eq!(
        fs::read_to_string(at(&worktree, "big.bin")).unwrap(),
        pointer
    );
    assert_eq!(task.diff_stat().await.unwrap().files_changed, 0);
}

#[tokio::test]
async fn n5_no_repository_extension_is_switched_on() {
    let scene = Scene::new().await;
    scene
        .repo
        .git(&["config", "worktree.useRelativePaths", "true"]);
    let config = fs::read(scene.repo.path.join(".git/config")).unwrap();
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "new.txt"), "new\n");
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    assert_eq!(
        fs::read(scene.repo.path.join(".git/config")).unwrap(),
        config
    );
    assert!(
        fs::read_to_string(at(&worktree, ".git"))
            .unwrap()
            .starts_with("gitdir: /")
    );
}

#[tokio::test]
async fn n11_a_sparse_source_gives_a_full_worktree_and_stays_sparse() {
    let scene = Scene::new().await;
    scene.repo.git(&["sparse-checkout", "set", "src/part0"]);
    assert!(!scene.repo.path.join("src/part1").exists());
    let before = scene.repo.bystanders();
    let worktree = scene.task("t1").provision().await;
    assert!(at(&worktree, "src/part1/file12.txt").exists());
    assert_eq!(git(&at(&worktree, ""), &["status", "--porcelain"]), "");
    scene.task("t1").pause(0).await.unwrap();
    scene.task("t1").resume().await.unwrap();
    assert!(at(&worktree, "src/part1/file12.txt").exists());
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn n12_a_repository_that_jujutsu_shares() {
    let scene = Scene::new().await;
    scene.repo.git(&["switch", "-q", "--detach"]);
    scene.repo.write(".jj/repo/store/type", "git");
    scene.repo.git(&["update-ref", "refs/jj/keep/1", "HEAD"]);
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "new.txt"), "new\n");
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn n13_code_that_the_repository_brings_is_not_run() {
    let scene = Scene::new().await;
    let marker = scene.path().join("ran");
    let run = format!("#!/bin/sh\necho \"$0\" >> '{}'\n", marker.display());
    for hook in [
        "post-checkout",
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "fsmonitor-watchman",
    ] {
        script(&scene.repo.path.join(".git/hooks").join(hook), &run);
    }
    let program = scene.path().join("program.sh");
    script(&program, &run);
    for name in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "sequence.editor",
    ] {
        scene.repo.git(&["config", name, program.to_str().unwrap()]);
    }
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "new.txt"), "new\n");
    task.checkpoint(0).await.unwrap();
    task.diff(true, true).await.unwrap();
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    task.review("rita", |_| {}).await.unwrap();
    task.remove_with(|request| request.discard_changes = true)
        .await
        .unwrap();
    assert!(
        !marker.exists(),
        "{}",
        fs::read_to_string(&marker).unwrap_or_default()
    );
}

#[tokio::test]
async fn n14_a_remote_that_wants_credentials_is_never_asked() {
    let scene = Scene::new().await;
    // Nothing listens there; whoever fetched would fail or wait.
    scene
        .repo
        .git(&["remote", "add", "origin", "https://user@127.0.0.1:9/x.git"]);
    scene.repo.git(&["config", "fetch.prune", "true"]);
    let task = scene.task("t1");
    task.provision().await;
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    assert!(task.complete(0).await.unwrap().cleaned);
}

#[tokio::test]
async fn n16_a_torn_registration_of_somebody_else_stops_nobody() {
    let scene = Scene::new().await;
    let ghost = scene.repo.path.join(".git/worktrees/ghost");
    write(ghost.join("gitdir"), "/nowhere/ghost/.git\n");
    let torn = scene.repo.path.join(".git/worktrees/torn");
    write(torn.join("gitdir"), "/nowhere/torn/.git\n");
    write(torn.join("commondir"), "");
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "new.txt"), "new\n");
    task.diff_stat().await.unwrap();
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    task.review("rita", |_| {}).await.unwrap();
    scene
        .client
        .reconcile(v1::ReconcileRequest::default())
        .await
        .unwrap();
    task.complete(0).await.unwrap();
    before.assert_same(&scene.repo.bystanders());
    assert!(ghost.join("gitdir").exists() && torn.join("gitdir").exists());
}

#[tokio::test]
async fn d2_a_checkout_without_its_git_file_never_acts_on_another_repository() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "new.txt"), "new\n");
    let before = scene.repo.bystanders();
    let other = Repo::with_files(&scene.path().join("other"), 2);
    let theirs = other.bystanders();
    fs::write(
        at(&worktree, ".git"),
        format!("gitdir: {}\n", other.path.join(".git").display()),
    )
    .unwrap();
    for answer in [
        task.checkpoint(0).await.map(drop),
        task.pause(0).await.map(drop),
        task.complete(0).await.map(drop),
    ] {
        refused(
            answer,
            Code::FailedPrecondition,
            ErrorReason::CheckoutRetargeted,
        );
    }
    theirs.assert_same(&other.bystanders());
    before.assert_same(&scene.repo.bystanders());
    assert!(at(&worktree, "new.txt").exists());
    assert!(
        try_git(&scene.repo.path, &["rev-parse", "clawboo/task-t1"])
            .status
            .success()
    );
}
