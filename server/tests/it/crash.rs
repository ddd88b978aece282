//! A server that dies at the worst instants: after its restart a task is there whole, or not at all, and a repeat of
//! what was cut off ends well.

use std::{collections::BTreeSet, fs, path::Path};

use uuid::Uuid;
use worktreed_client::{
    Client, Code, Error, RetryPolicy,
    proto::{self as v1, Operation, SaveMode, WorktreeState},
};

use crate::{
    ending::pinned_somewhere,
    events,
    repo::{git, write},
    scene::{Scene, Server, Start},
    task::{Task, at, handoff},
};

/// One step of a task's life, with the id to repeat it by.
#[derive(Debug, Clone, Copy)]
enum Step {
    Provision,
    Checkpoint,
    Handoff,
    PauseCommit,
    PauseSnapshot,
    Resume,
    Review,
    Reap,
    Complete,
    Remove,
}

impl Step {
    async fn run(self, task: &Task, id: &str) -> Result<String, Error> {
        let request_id = id.to_owned();
        let key = Some(task.key.clone());
        match self {
            Self::Provision => task
                .try_provision(|request| request.request_id = request_id)
                .await
                .map(nothing_of),
            Self::Checkpoint => {
                let request = v1::CheckpointWorktreeRequest {
                    key,
                    request_id,
                    ..Default::default()
                };
                task.client
                    .checkpoint_worktree(request)
                    .await
                    .map(nothing_of)
            }
            Self::Handoff => {
                let request = v1::WriteHandoffRequest {
                    key,
                    request_id,
                    handoff: Some(handoff("go on")),
                    ..Default::default()
                };
                task.client.write_handoff(request).await.map(nothing_of)
            }
            Self::PauseCommit => task
                .pause_with(|request| request.request_id = request_id)
                .await
                .map(nothing_of),
            Self::PauseSnapshot => {
                let change = |request: &mut v1::PauseWorktreeRequest| {
                    (request.request_id, request.save) = (request_id, SaveMode::Snapshot.into())
                };
                task.pause_with(change).await.map(nothing_of)
            }
            Self::Resume => task
                .client
                .resume_worktree(v1::ResumeWorktreeRequest { key, request_id })
                .await
                .map(nothing_of),
            Self::Review => {
                let review = task
                    .review("rita", |request| request.request_id = request_id)
                    .await?
                    .review
                    .unwrap();
                task.client
                    .remove_review(v1::RemoveReviewRequest { id: review.id })
                    .await
                    .map(nothing_of)
            }
            Self::Reap => {
                let age = Some(prost_types::Duration {
                    seconds: 0,
                    nanos: 0,
                });
                let request = v1::CollectGarbageRequest {
                    repo: task.key.repo.clone(),
                    max_age: age,
                    ..Default::default()
                };
                let mut parts = task.client.collect_garbage(request).await?;
                while parts.message().await?.is_some() {}
                Ok(String::new())
            }
            Self::Complete => task
                .complete_with(|request| request.request_id = request_id)
                .await
                .map(|answer| answer.recovery_point),
            Self::Remove => {
                let change = |request: &mut v1::RemoveWorktreeRequest| {
                    (request.request_id, request.discard_changes) = (request_id, true)
                };
                task.remove_with(change)
                    .await
                    .map(|answer| answer.recovery_point)
            }
        }
    }
}

fn nothing_of<T>(_: T) -> String {
    String::new()
}

/// A scene whose server is to die at one point.
struct Doomed {
    scene: Scene,
    point: &'static str,
    died: bool,
    before: crate::repo::Bystanders,
}

impl Doomed {
    async fn new(point: &'static str) -> Self {
        let scene = Scene::with(
            5,
            Start::default().env("FAILPOINTS", format!("{point}=return")),
        )
        .await;
        let before = scene.repo.bystanders();
        Self {
            scene,
            point,
            died: false,
            before,
        }
    }

    fn task(&self, task_id: &str) -> Task {
        let client: Client = self.scene.client.clone().with_retry(RetryPolicy::never());
        self.scene.task(task_id).by(&client)
    }

    /// Runs a step; if the server dies of it, starts it again, looks around, and repeats the step.
    async fn step(&mut self, task_id: &str, step: Step) -> String {
        let id = Uuid::now_v7().to_string();
        let error = match step.run(&self.task(task_id), &id).await {
            Ok(answer) => return answer,
            Err(error) => error,
        };
        assert!(
            !self.died
                && matches!(
                    error.code(),
                    Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled
                ),
            "{} {step:?}: {error}",
            self.point
        );
        let status = self.scene.server.wait().await;
        assert!(!status.success(), "{} {step:?}: {error}", self.point);
        self.died = true;
        self.scene.server = Server::start(self.scene.directory.path(), Start::default()).await;
        self.scene.client = self.scene.server.client();
        self.look_around(step).await;
        step.run(&self.task(task_id), &id)
            .await
            .unwrap_or_else(|error| panic!("{} {step:?}, repeated: {error}", self.point))
    }

    /// All that must hold after a restart, whatever was cut off.
    async fn look_around(&self, step: Step) {
        let what = format!("after {} in {step:?}", self.point);
        self.before.assert_same(&self.scene.repo.bystanders());
        let listed = self
            .scene
            .client
            .list_worktrees(v1::ListWorktreesRequest::default())
            .await
            .unwrap()
            .worktrees;
        let registered: BTreeSet<_> = self.scene.repo.registered().into_iter().collect();
        for worktree in &listed {
            assert_eq!(
                worktree.pending_operation(),
                Operation::Unspecified,
                "{what}"
            );
            let there = at(worktree, "README.md").exists();
            match worktree.state() {
                WorktreeState::Paused | WorktreeState::Reaped => {
                    assert!(
                        !at(worktree, "").exists() && !registered.contains(&worktree.path),
                        "{what}: {worktree:?}"
                    );
                }
                WorktreeState::Provisioned
                | WorktreeState::Working
                | WorktreeState::HandedOff
                | WorktreeState::Retained => {
                    assert!(
                        there && registered.contains(&worktree.path),
                        "{what}: {worktree:?}"
                    );
                    git(&at(worktree, ""), &["status", "--porcelain"]);
                    assert_eq!(
                        git(&at(worktree, ""), &["rev-parse", "--abbrev-ref", "HEAD"]),
                        worktree.branch,
                        "{what}"
                    );
                }
                state => panic!("{what}: {state:?}"),
            }
            assert!(
                self.scene.repo.tip(&worktree.branch).is_some(),
                "{what}: the branch is there"
            );
        }
        let live: BTreeSet<_> = listed
            .iter()
            .map(|worktree| worktree.branch.clone())
            .collect();
        let branches: BTreeSet<_> = self
            .scene
            .repo
            .task_branches()
            .lines()
            .map(str::to_owned)
            .collect();
        assert!(
            branches.is_subset(&live),
            "{what}: a branch without a task among {branches:?}"
        );
        let checkouts = listed
            .iter()
            .filter(|worktree| at(worktree, "").exists())
            .count();
        assert_eq!(registered.len(), checkouts + 1, "{what}: {registered:?}");
        residue(&self.scene.repo.path.join(".git"), &what);
        self.scene.repo.git(&["fsck", "--no-dangling"]);
        // Without a gap; checked as it is read.
        events::log(&self.scene.client).await;
    }
}

/// Fails on what a killed operation would leave: locks, temporary directories and files.
pub(crate) fn residue(git_dir: &Path, what: &str) {
    for entry in fs::read_dir(git_dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            !name.ends_with(".lock")
                && !name.starts_with("clawboo-tmp-")
                && !name.starts_with("tmp_"),
            "{what}: {} is left",
            path.display()
        );
        if path.is_dir() && !path.is_symlink() {
            residue(&path, what);
        }
    }
}

/// The life of a task with work, and of one without, with a server that dies once on the way.
async fn dies_at(point: &'static str) {
    let mut doomed = Doomed::new(point).await;
    doomed.step("work", Step::Provision).await;
    let worktree = doomed.task("work").get().await;
    write(at(&worktree, "one.txt"), "one\n");
    doomed.step("work", Step::Checkpoint).await;
    doomed.step("work", Step::Handoff).await;
    write(at(&worktree, "two.txt"), "two\n");
    doomed.step("work", Step::PauseCommit).await;
    doomed.step("work", Step::Resume).await;
    write(at(&worktree, "three.txt"), "three\n");
    git(&at(&worktree, ""), &["add", "three.txt"]);
    write(at(&worktree, "three.txt"), "three and more\n");
    doomed.step("work", Step::PauseSnapshot).await;
    doomed.step("work", Step::Resume).await;
    assert_eq!(
        git(&at(&worktree, ""), &["status", "--porcelain"]),
        "AM three.txt",
        "{point}"
    );
    doomed.step("work", Step::Review).await;
    doomed.step("work", Step::Reap).await;
    doomed.step("work", Step::Resume).await;
    for (name, content) in [
        ("one.txt", "one\n"),
        ("two.txt", "two\n"),
        ("three.txt", "three and more\n"),
    ] {
        assert_eq!(
            fs::read_to_string(at(&worktree, name)).unwrap(),
            content,
            "{point}: law 1"
        );
    }
    let pinned = doomed.step("work", Step::Remove).await;
    assert!(
        pinned_somewhere(&doomed.scene, &pinned, "three.txt", b"three and more\n"),
        "{point}: law 1"
    );
    doomed.step("clean", Step::Provision).await;
    doomed.step("clean", Step::Complete).await;
    // A removal without a directory.
    doomed.step("away", Step::Provision).await;
    doomed.step("away", Step::PauseCommit).await;
    doomed.step("away", Step::Remove).await;
    assert!(doomed.died, "{point} is never reached");
    assert_eq!(
        (
            doomed.scene.repo.task_branches().as_str(),
            doomed.scene.repo.registered().len()
        ),
        ("", 1),
        "{point}"
    );
    doomed.look_around(Step::Complete).await;
}

/// The instants at which the code can be made to die, a test each so that they run side by side.
macro_rules! points {
    ($($test:ident: $point:literal;)+) => {
        $(#[tokio::test]
        async fn $test() {
            dies_at($point).await;
        })+

        const POINTS: &[&str] = &[$($point),+];
    };
}

points! {
    dies_at_drop_journalled: "drop.journalled";
    dies_at_drop_refs_deleted: "drop.refs_deleted";
    dies_at_drop_renamed: "drop.renamed";
    dies_at_drop_unregistered: "drop.unregistered";
    dies_at_materialise_checked_out: "materialise.checked_out";
    dies_at_materialise_directory_made: "materialise.directory_made";
    dies_at_materialise_refs_made: "materialise.refs_made";
    dies_at_materialise_registered: "materialise.registered";
    dies_at_provision_objects_written: "provision.objects_written";
    dies_at_register_built: "register.built";
    dies_at_register_git_file_written: "register.git_file_written";
    dies_at_register_moved_in: "register.moved_in";
    dies_at_remove_unregistered: "remove.unregistered";
    dies_at_save_branch_moved: "save.branch_moved";
    dies_at_save_commit_written: "save.commit_written";
    dies_at_save_index_locked: "save.index_locked";
    dies_at_save_index_replaced: "save.index_replaced";
    dies_at_save_objects_written: "save.objects_written";
    dies_at_save_recovery_pinned: "save.recovery_pinned";
    dies_at_unregister_moved_out: "unregister.moved_out";
}

#[test]
fn every_crash_point_of_the_code_is_tried() {
    let mut found = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for directory in [root.join("src"), root.join("engine/src")] {
        search(&directory, &mut found);
    }
    let tried: BTreeSet<_> = POINTS.iter().map(|point| (*point).to_owned()).collect();
    assert_eq!(found, tried);
}

fn search(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let pieces = text.split("crash_point!(\"").skip(1);
            found.extend(
                pieces
                    .filter_map(|piece| piece.split('"').next())
                    .map(str::to_owned),
            );
        }
    }
}
