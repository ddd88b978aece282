//! Pause and resume with work of every kind.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use worktreed_client::{
    Code,
    proto::{ErrorReason, NotSavedReason, SaveMode, WarningCode, Worktree, WorktreeState},
};

use crate::{
    repo::{commit_all, git, tree, try_git, write},
    scene::Scene,
    task::{assert_state, at, refused},
};

/// Leaves work of every kind: staged, unstaged, both in one file, untracked, removed, a mode, a link, an empty directory.
fn work(worktree: &Worktree) {
    let checkout = at(worktree, "");
    write(checkout.join("src/part0/file1.txt"), "staged\n");
    git(&checkout, &["add", "src/part0/file1.txt"]);
    write(checkout.join("src/part0/file2.txt"), "staged\n");
    git(&checkout, &["add", "src/part0/file2.txt"]);
    write(checkout.join("src/part0/file2.txt"), "and then more\n");
    write(checkout.join("src/part0/file3.txt"), "unstaged\n");
    write(checkout.join("added.txt"), "staged and new\n");
    git(&checkout, &["add", "added.txt"]);
    write(checkout.join("new dir/ünï \"q\".bin"), b"\0\xff\r\n");
    fs::remove_file(checkout.join("src/part0/file4.txt")).unwrap();
    fs::set_permissions(
        checkout.join("src/part0/file5.txt"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    symlink("README.md", checkout.join("link")).unwrap();
    symlink("/nowhere/at/all", checkout.join("dangling")).unwrap();
    fs::create_dir_all(checkout.join("empty/inside")).unwrap();
}

#[tokio::test]
async fn work_of_every_kind_comes_back_from_a_pause() {
    let scene = Scene::new().await;
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let worktree = task.provision().await;
    work(&worktree);
    let files = tree(&at(&worktree, ""));

    let paused = task.pause(0).await.unwrap();
    assert!(paused.committed, "{paused:?}");
    assert_eq!(
        scene
            .repo
            .git(&["log", "-1", "--format=%s", "clawboo/task-t1"]),
        "clawboo: pause"
    );
    assert!(!at(&worktree, "").exists());
    before.assert_same(&scene.repo.bystanders());

    let resumed = task.resume().await.unwrap();
    assert_eq!(resumed.path, worktree.path);
    assert_eq!(tree(&at(&worktree, "")), files);
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn a_snapshot_gives_back_the_same_split() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    work(&worktree);
    let checkout = at(&worktree, "");
    let seen = || {
        (
            tree(&checkout),
            git(&checkout, &["status", "--porcelain=v2", "-uall"]),
            git(&checkout, &["diff", "--cached"]),
        )
    };
    let split = seen();

    let paused = task
        .pause_with(|request| request.save = SaveMode::Snapshot.into())
        .await
        .unwrap();
    assert!(!paused.committed);
    assert_eq!(
        scene.repo.tip("clawboo/task-t1").unwrap(),
        worktree.base_commit,
        "the branch does not move"
    );
    assert!(scene.repo.tip(&paused.recovery_point).is_some());
    // What is pinned outlives the repository's own housekeeping.
    scene.repo.git(&["gc", "-q", "--prune=now"]);

    task.resume().await.unwrap();
    assert_eq!(seen(), split);
}

#[tokio::test]
async fn files_with_other_line_endings_come_back_byte_for_byte() {
    let scene = Scene::new().await;
    scene.repo.write(".gitattributes", "*.txt text eol=lf\n");
    scene.repo.commit_all("attributes");
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "src/part0/file1.txt"), "one\r\ntwo\r\n");
    let paused = task.pause(0).await.unwrap();
    assert!(
        paused
            .warnings
            .iter()
            .any(|warning| warning.code() == WarningCode::RawBytesPinned),
        "{:?}",
        paused.warnings
    );
    task.resume().await.unwrap();
    assert_eq!(
        fs::read(at(&worktree, "src/part0/file1.txt")).unwrap(),
        b"one\r\ntwo\r\n"
    );
}

#[tokio::test]
async fn a8_a_detached_commit_is_saved_as_it_is_and_survives_housekeeping() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    git(&checkout, &["switch", "-q", "--detach"]);
    write(checkout.join("x.txt"), "x\n");
    let commit = commit_all(&checkout, "detached");
    let paused = task.pause(0).await.unwrap();
    assert!(
        paused
            .warnings
            .iter()
            .any(|warning| warning.code() == WarningCode::SavedAsSnapshot),
        "{:?}",
        paused.warnings
    );
    scene
        .repo
        .git(&["reflog", "expire", "--expire=now", "--all"]);
    scene.repo.git(&["gc", "-q", "--prune=now"]);
    assert!(
        !scene
            .repo
            .git(&["for-each-ref", "--contains", &commit])
            .is_empty()
    );
    task.resume().await.unwrap();
    assert_eq!(git(&checkout, &["rev-parse", "HEAD"]), commit);
    assert_eq!(
        scene.repo.tip("clawboo/task-t1").unwrap(),
        worktree.base_commit
    );
}

#[tokio::test]
async fn a6_the_user_s_branch_in_the_checkout_is_left_alone() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    git(&checkout, &["switch", "-q", "-c", "theirs"]);
    write(checkout.join("x.txt"), "x\n");
    let commit = commit_all(&checkout, "theirs");
    write(checkout.join("y.txt"), "y\n");
    task.pause(0).await.unwrap();
    assert_eq!(
        scene.repo.tip("theirs").unwrap(),
        commit,
        "nothing is committed to it"
    );
    task.resume().await.unwrap();
    assert_eq!(fs::read(checkout.join("y.txt")).unwrap(), b"y\n");
    task.remove_with(|request| request.discard_changes = true)
        .await
        .unwrap();
    assert_eq!(scene.repo.tip("theirs").unwrap(), commit);
}

#[tokio::test]
async fn a12_a_rebase_in_progress_is_refused_by_name_and_kept() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let checkout = at(&worktree, "");
    for number in 0..2 {
        write(checkout.join("r.txt"), format!("{number}\n"));
        commit_all(&checkout, "step");
    }
    let editor = scene.path().join("editor.sh");
    crate::repo::script(
        &editor,
        "#!/bin/sh\necho break > \"$1.new\" && cat \"$1\" >> \"$1.new\" && mv \"$1.new\" \"$1\"\n",
    );
    let mut rebase = crate::repo::git_command(&checkout);
    rebase
        .args(["rebase", "-q", "-i", "HEAD~1"])
        .env("GIT_SEQUENCE_EDITOR", &editor);
    drop(rebase.output().unwrap());
    let directory = git(&checkout, &["rev-parse", "--absolute-git-dir"]);
    assert!(
        std::path::Path::new(&directory)
            .join("rebase-merge")
            .exists()
    );
    for answer in [
        task.pause(0).await.map(drop),
        task.remove_with(|request| request.discard_changes = true)
            .await
            .map(drop),
    ] {
        refused(
            answer,
            Code::FailedPrecondition,
            ErrorReason::OperationInProgress,
        );
    }
    assert!(
        checkout.exists()
            && std::path::Path::new(&directory)
                .join("rebase-merge")
                .exists()
    );
    assert!(try_git(&checkout, &["rebase", "--abort"]).status.success());
}

#[tokio::test]
async fn b4_ignored_files_on_the_keep_list_stop_a_drop_and_caches_do_not() {
    let scene = Scene::new().await;
    scene
        .repo
        .write(".gitignore", "/.env\n*.db\nnode_modules/\n");
    scene.repo.commit_all("ignore");
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "node_modules/a/index.js"), "1");
    write(at(&worktree, "node_modules/b/index.js"), "2");
    let paused = task.pause(0).await.unwrap();
    let cache = paused
        .not_saved
        .iter()
        .find(|one| one.path == b"node_modules/")
        .expect("caches are listed");
    assert_eq!(
        (cache.reason(), cache.file_count, cache.size_bytes),
        (NotSavedReason::Ignored, 2, 2)
    );
    task.resume().await.unwrap();

    write(at(&worktree, ".env"), "SECRET=1\n");
    write(at(&worktree, "data.db"), "rows");
    for answer in [
        task.pause(0).await.map(drop),
        task.complete(0).await.map(drop),
        task.remove_with(|_| {}).await.map(drop),
    ] {
        let error = refused(answer, Code::FailedPrecondition, ErrorReason::UnsavedWork);
        let subjects: Vec<_> = error
            .precondition_violations()
            .iter()
            .map(|one| one.subject.as_str())
            .collect();
        assert!(
            subjects.contains(&".env") && subjects.contains(&"data.db"),
            "{subjects:?}"
        );
        assert_eq!(fs::read(at(&worktree, ".env")).unwrap(), b"SECRET=1\n");
    }
    assert_state(&task.get().await, WorktreeState::Working);

    let forced = task
        .complete_with(|request| request.force = true)
        .await
        .unwrap();
    assert!(forced.cleaned);
    let kept = forced
        .not_saved
        .iter()
        .filter(|one| one.reason() == NotSavedReason::IgnoredKept);
    let names: Vec<_> = kept.map(|one| one.path.as_slice()).collect();
    assert_eq!(
        names,
        [b".env".as_slice(), b"data.db"],
        "what is dropped is named"
    );
    assert!(
        scene.repo.tip(&forced.recovery_point).is_some(),
        "a forced step pins first"
    );
}

#[tokio::test]
async fn c1_c3_hooks_and_signing_never_stop_a_save() {
    let scene = Scene::new().await;
    let marker = scene.path().join("hook-ran");
    for hook in [
        "pre-commit",
        "commit-msg",
        "prepare-commit-msg",
        "post-commit",
        "post-checkout",
        "reference-transaction",
    ] {
        let path = scene.path().join("hooks").join(hook);
        crate::repo::script(
            &path,
            &format!("#!/bin/sh\ntouch '{}'\nexit 1\n", marker.display()),
        );
    }
    scene.repo.git(&[
        "config",
        "core.hooksPath",
        scene.path().join("hooks").to_str().unwrap(),
    ]);
    scene.repo.git(&["config", "commit.gpgsign", "true"]);
    scene.repo.git(&["config", "gpg.program", "/bin/false"]);
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "work.txt"), "work\n");
    assert!(task.checkpoint(0).await.unwrap().committed);
    write(at(&worktree, "more.txt"), "more\n");
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    assert_eq!(fs::read(at(&worktree, "more.txt")).unwrap(), b"more\n");
    assert!(!marker.exists(), "no code of the repository runs");
}

#[tokio::test]
async fn work_that_only_the_agent_s_own_rules_ignore_is_saved() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, ".gitignore"), "*.log\n");
    write(at(&worktree, "run.log"), "precious\n");
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    assert_eq!(fs::read(at(&worktree, "run.log")).unwrap(), b"precious\n");
}

#[tokio::test]
async fn b6_a_worktree_that_somebody_else_locked_is_left_alone() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    scene.repo.git(&["worktree", "unlock", &worktree.path]);
    scene.repo.git(&[
        "worktree",
        "lock",
        "--reason",
        "mine, do not touch",
        &worktree.path,
    ]);
    let error = refused(
        task.pause(0).await,
        Code::FailedPrecondition,
        ErrorReason::ForeignLock,
    );
    assert_eq!(
        error.metadata().get("lock_reason").map(String::as_str),
        Some("mine, do not touch")
    );
    assert!(at(&worktree, "README.md").exists());
    scene.repo.git(&["worktree", "unlock", &worktree.path]);
    task.pause(0).await.unwrap();
}

#[tokio::test]
async fn a_nested_repository_is_refused_by_name_and_kept() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    git(&at(&worktree, ""), &["init", "-q", "inner"]);
    write(at(&worktree, "inner/a.txt"), "a\n");
    commit_all(&at(&worktree, "inner"), "inner");
    let error = refused(
        task.pause(0).await,
        Code::FailedPrecondition,
        ErrorReason::NestedRepository,
    );
    assert!(
        error
            .metadata()
            .get("path")
            .is_some_and(|path| path.contains("inner")),
        "{:?}",
        error.metadata()
    );
    assert!(at(&worktree, "inner/a.txt").exists());
    assert_state(&task.get().await, WorktreeState::Provisioned);
}
