//! How often git is run: counted by a `git` that notes each time.

use std::fs;

use worktreed_client::proto as v1;

use crate::{
    repo::{Repo, write},
    scene::{Scene, Start, directory, shim},
    task::{at, handoff},
};

/// A scene whose server runs a `git` that notes each time, and the file with the notes.
async fn counting() -> (Scene, std::path::PathBuf) {
    let directory = directory();
    let repo = Repo::with_files(&directory.path().join("repos/project"), 100);
    let notes = directory.path().join("notes");
    let body = format!("echo \"$*\" >> '{}'\nexec $REAL \"$@\"", notes.display());
    let path = shim(directory.path(), &body);
    let start = Start {
        path: Some(path),
        ..Start::default()
    };
    (Scene::on(directory, repo, start).await, notes)
}

#[tokio::test]
async fn a_cold_provision_takes_at_most_four_processes_and_a_read_none() {
    let (scene, notes) = counting().await;
    let task = scene.task("t1");
    let taken = || {
        let lines = fs::read_to_string(&notes).unwrap_or_default();
        drop(fs::remove_file(&notes));
        lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The version is asked for once, when the server starts.
    taken();
    let worktree = task.provision().await;
    let provision = taken();
    assert!(provision.len() <= 4, "{provision:#?}");

    task.get().await;
    scene
        .client
        .list_worktrees(v1::ListWorktreesRequest::default())
        .await
        .unwrap();
    task.resume_state("codex").await.unwrap();
    task.get_handoff().await.unwrap();
    task.scaffold().await.unwrap();
    let reads = taken();
    // Which repository a path names may have to be asked once, and is then known.
    assert_eq!(reads, [] as [String; 0]);

    write(at(&worktree, "new.txt"), "new\n");
    let mut counts = Vec::new();
    task.checkpoint(0).await.unwrap();
    counts.push(("checkpoint", taken().len()));
    task.write_handoff(0, handoff("go")).await.unwrap();
    counts.push(("handoff", taken().len()));
    task.pause(0).await.unwrap();
    counts.push(("pause", taken().len()));
    task.resume().await.unwrap();
    counts.push(("resume", taken().len()));
    task.diff_stat().await.unwrap();
    counts.push(("diff", taken().len()));
    task.complete(0).await.unwrap();
    counts.push(("complete", taken().len()));
    println!("git processes: provision {}, {counts:?}", provision.len());
    assert!(counts.iter().all(|(_, count)| *count <= 12), "{counts:?}");
}
