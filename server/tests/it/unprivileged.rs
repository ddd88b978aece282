//! What only an ordinary user meets: files that cannot be read or written. Run by root, the server gets another user.

use std::{
    fs, os::unix::fs::PermissionsExt, os::unix::process::CommandExt, path::Path, process::Command,
};

use worktreed_client::{
    Code,
    proto::{ErrorReason, NotSavedReason, WorktreeState},
};

use crate::{
    repo::{Repo, write},
    scene::{Scene, Start, directory, skip},
    task::{assert_state, at, refused},
};

const USER: u32 = 12_345;

/// A scene in which server and files belong to an ordinary user.
async fn unprivileged(test: &str) -> Option<Scene> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "only root can run the server as another user");
        return None;
    }
    let directory = directory();
    let repo = Repo::with_files(&directory.path().join("repos/project"), 5);
    own(directory.path());
    // The binary itself may lie where that user cannot reach.
    let reach = Command::new(env!("CARGO_BIN_EXE_worktreed"))
        .arg("--version")
        .uid(USER)
        .gid(USER)
        .output();
    if !reach.is_ok_and(|output| output.status.success()) {
        skip(test, "another user cannot run the binary where it lies");
        return None;
    }
    Some(
        Scene::on(
            directory,
            repo,
            Start {
                user: Some(USER),
                ..Start::default()
            },
        )
        .await,
    )
}

fn own(path: &Path) {
    let owner = format!("{USER}:{USER}");
    assert!(
        Command::new("chown")
            .args(["-Rh", &owner])
            .arg(path)
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn c5_what_cannot_be_read_is_named_stops_a_drop_and_never_the_rest() {
    let Some(scene) =
        unprivileged("c5_what_cannot_be_read_is_named_stops_a_drop_and_never_the_rest").await
    else {
        return;
    };
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "a.txt"), "a\n");
    write(at(&worktree, "secret"), "s\n");
    write(at(&worktree, "closed/inside.txt"), "i\n");
    own(&at(&worktree, ""));
    for name in ["secret", "closed"] {
        fs::set_permissions(at(&worktree, name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let saved = task.checkpoint(0).await.unwrap();
    assert!(saved.committed, "the rest is saved");
    let named = |list: &[worktreed_client::proto::NotSaved]| {
        let unreadable = list
            .iter()
            .filter(|one| one.reason() == NotSavedReason::Unreadable);
        let mut names: Vec<_> = unreadable
            .map(|one| String::from_utf8(one.path.clone()).unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(named(&saved.not_saved), ["closed/", "secret"]);
    let error = refused(
        task.pause(0).await,
        Code::FailedPrecondition,
        ErrorReason::UnsavedWork,
    );
    let subjects: Vec<_> = error
        .precondition_violations()
        .iter()
        .map(|one| (one.kind.as_str(), one.subject.as_str()))
        .collect();
    assert_eq!(
        subjects,
        [("UNREADABLE", "closed/"), ("UNREADABLE", "secret")]
    );
    refused(
        task.remove_with(|_| {}).await,
        Code::FailedPrecondition,
        ErrorReason::UnsavedWork,
    );
    assert!(at(&worktree, "secret").exists());
    assert_state(&task.get().await, WorktreeState::Provisioned);
    let forced = task
        .pause_with(|request| request.force = true)
        .await
        .unwrap();
    assert_eq!(named(&forced.not_saved), ["closed/", "secret"]);
    assert_eq!(
        fs::read(at(&task.resume().await.unwrap(), "a.txt")).unwrap(),
        b"a\n"
    );
}

#[tokio::test]
async fn a_review_cannot_be_written_into() {
    let Some(scene) = unprivileged("a_review_cannot_be_written_into").await else {
        return;
    };
    let task = scene.task("t1");
    task.provision().await;
    let review = task.review("rita", |_| {}).await.unwrap().review.unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "echo x >> README.md"])
        .current_dir(&review.path)
        .uid(USER)
        .gid(USER);
    assert!(!shell.output().unwrap().status.success());
    assert_eq!(
        fs::read(Path::new(&review.path).join("README.md")).unwrap(),
        b"# Project\n"
    );
}
