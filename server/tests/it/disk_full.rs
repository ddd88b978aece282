//! A filesystem that fills up in the middle: refused by name, nothing half made, and all goes on when there is room.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use worktreed_client::{
    Code, Error,
    proto::{self as v1, ErrorReason, WorktreeState},
};

use crate::{
    repo::{Repo, write},
    scene::{Scene, Start, directory, skip},
    task::{assert_state, at, handoff, refused},
};

/// A small filesystem in memory, gone when it is dropped.
struct Small {
    place: PathBuf,
}

impl Small {
    fn mount(test: &str, place: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir_all(place).unwrap();
        let options = format!("size={megabytes}m,mode=700");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "worktreed-test"])
            .arg(place)
            .output();
        if mount.is_ok_and(|output| output.status.success()) {
            return Some(Self {
                place: place.to_owned(),
            });
        }
        skip(test, "a mount is not possible here");
        None
    }

    /// Leaves so many bytes.
    fn fill(&self, leave: u64) {
        let status = rustix::fs::statvfs(&self.place).unwrap();
        let free = status.f_bavail * status.f_frsize;
        fs::write(
            self.place.join("ballast"),
            vec![1; usize::try_from(free.saturating_sub(leave)).unwrap()],
        )
        .unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.place.join("ballast")).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(
            Command::new("umount")
                .args(["-l"])
                .arg(&self.place)
                .status(),
        );
    }
}

#[track_caller]
fn full<T: std::fmt::Debug>(answer: Result<T, Error>) {
    let error = refused(answer, Code::ResourceExhausted, ErrorReason::DiskFull);
    assert!(error.retry_delay().is_none() || error.retry_delay().unwrap().as_secs() > 0);
}

#[tokio::test]
async fn a_full_disk_in_the_middle_of_a_provision_leaves_nothing_half_made() {
    let directory = directory();
    let state = directory.path().join("state");
    let Some(small) = Small::mount(
        "a_full_disk_in_the_middle_of_a_provision_leaves_nothing_half_made",
        &state,
        24,
    ) else {
        return;
    };
    let repo = Repo::with_files(&directory.path().join("repos/project"), 10);
    repo.write("large.bin", vec![7; 8 << 20]);
    repo.commit_all("large");
    let scene = Scene::on(directory, repo, Start::default()).await;
    let before = scene.repo.bystanders();
    small.fill(4 << 20);
    let task = scene.task("t1");
    full(task.try_provision(|_| {}).await);
    before.assert_same(&scene.repo.bystanders());
    assert_eq!(
        (
            scene.repo.task_branches().as_str(),
            scene.repo.registered().len()
        ),
        ("", 1)
    );
    if let Ok(worktree) = task.try_get().await {
        assert_state(&worktree, WorktreeState::Failed);
        assert!(!at(&worktree, "").exists());
    }
    small.free();
    let worktree = task.provision().await;
    assert_eq!(
        fs::metadata(at(&worktree, "large.bin")).unwrap().len(),
        8 << 20
    );
    drop(scene);
}

#[tokio::test]
async fn a_full_disk_in_the_middle_of_a_checkpoint_loses_nothing() {
    let directory = directory();
    let Some(small) = Small::mount(
        "a_full_disk_in_the_middle_of_a_checkpoint_loses_nothing",
        &directory.path().join("repos"),
        16,
    ) else {
        return;
    };
    let repo = Repo::with_files(&directory.path().join("repos/project"), 10);
    let scene = Scene::on(directory, repo, Start::default()).await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    // Bytes that do not compress.
    let mut noise = 1_u64;
    let bytes: Vec<u8> = (0..4 << 20)
        .map(|_| {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u8::try_from(noise >> 56).unwrap()
        })
        .collect();
    write(at(&worktree, "noise.bin"), &bytes);
    small.fill(2 << 20);
    full(task.checkpoint(0).await);
    full(task.pause(0).await);
    assert_eq!(
        scene.repo.tip("clawboo/task-t1").unwrap(),
        worktree.base_commit
    );
    assert!(fs::read(at(&worktree, "noise.bin")).unwrap() == bytes);
    assert_state(&task.get().await, WorktreeState::Provisioned);
    small.free();
    scene.repo.git(&["fsck", "--no-dangling"]);
    task.pause(0).await.unwrap();
    task.resume().await.unwrap();
    assert!(fs::read(at(&worktree, "noise.bin")).unwrap() == bytes);
    drop(scene);
}

#[tokio::test]
async fn a_full_disk_keeps_the_handoff_that_there_was_and_the_registry_whole() {
    let directory = directory();
    let state = directory.path().join("state");
    let Some(small) = Small::mount(
        "a_full_disk_keeps_the_handoff_that_there_was_and_the_registry_whole",
        &state,
        24,
    ) else {
        return;
    };
    let repo = Repo::with_files(&directory.path().join("repos/project"), 10);
    let mut scene = Scene::on(directory, repo, Start::default()).await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    task.write_handoff(0, handoff("the first")).await.unwrap();
    let first = fs::read(at(&worktree, "AGENT_HANDOFF.json")).unwrap();
    small.fill(0);
    let mut large = handoff("the second");
    large.completed_subtasks = vec!["x".repeat(500_000)];
    full(task.write_handoff(0, large.clone()).await);
    assert_eq!(
        fs::read(at(&worktree, "AGENT_HANDOFF.json")).unwrap(),
        first
    );
    // No room even for a row of the registry: refused, and reads go on.
    let mut refusal = None;
    for _ in 0..2_000 {
        let turn = match task.acquire("anna").await {
            Ok(answer) => task.release(answer.lease.unwrap().epoch).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = turn {
            refusal = Some(error);
            break;
        }
    }
    full::<()>(Err(refusal.expect("the registry found room without end")));
    let seen = task.get().await;
    assert_eq!(
        task.get_handoff()
            .await
            .unwrap()
            .handoff
            .unwrap()
            .next_best_step,
        "the first"
    );
    small.free();
    let epoch = seen.lease.map_or(0, |lease| lease.epoch);
    let answer = task.write_handoff(epoch, large).await.unwrap();
    assert_eq!(answer.number, 2);
    scene.restart(Start::default()).await;
    assert_eq!(scene.task("t1").handoffs().await.len(), 2);
    crate::events::log(&scene.client).await;
    assert_state(&scene.task("t1").get().await, v1::WorktreeState::HandedOff);
    drop(scene);
}
