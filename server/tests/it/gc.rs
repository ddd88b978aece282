//! Garbage collection: by age and count, never the active ones, always saved first.

use worktreed_client::proto::{
    self as v1, CollectGarbageRequest, EventKind, GcItem, GcReason, GcSummary, GcVerdict,
    WorktreeState, collect_garbage_response::Part,
};

use crate::{
    events,
    repo::{commit_all, write},
    scene::{Scene, Start},
    task::{assert_state, at, refused_field},
};

const ANY_AGE: Option<prost_types::Duration> = Some(prost_types::Duration {
    seconds: 0,
    nanos: 0,
});

async fn sweep(
    scene: &Scene,
    change: impl FnOnce(&mut CollectGarbageRequest),
) -> (Vec<GcItem>, GcSummary) {
    let mut request = CollectGarbageRequest {
        repo: scene.repo.path.to_str().unwrap().to_owned(),
        ..Default::default()
    };
    change(&mut request);
    let mut parts = scene.client.collect_garbage(request).await.unwrap();
    let (mut items, mut summary) = (Vec::new(), None);
    while let Some(message) = parts.message().await.unwrap() {
        match message.part.unwrap() {
            Part::Item(item) => items.push(item),
            Part::Progress(_) => {}
            Part::Summary(one) => {
                assert!(summary.replace(one).is_none(), "one summary");
            }
        }
    }
    (items, summary.expect("the summary comes last"))
}

fn verdict(items: &[GcItem], task_id: &str) -> (GcVerdict, GcReason) {
    let item = items
        .iter()
        .find(|item| item.key.as_ref().unwrap().task_id == task_id);
    let item = item.unwrap_or_else(|| panic!("no verdict on {task_id} in {items:?}"));
    (item.verdict(), item.reason())
}

#[tokio::test]
async fn what_is_old_is_saved_and_reaped_and_comes_back() {
    let scene = Scene::new().await;
    let before = scene.repo.bystanders();
    let task = scene.task("old");
    let worktree = task.provision().await;
    write(at(&worktree, "work.txt"), "work\n");
    let commit = commit_all(&at(&worktree, ""), "work");
    write(at(&worktree, "loose.txt"), "loose\n");

    let (items, summary) = sweep(&scene, |_| {}).await;
    assert_eq!(summary.reaped, 0, "72 hours are not over: {items:?}");
    let (items, summary) = sweep(&scene, |request| request.max_age = ANY_AGE).await;
    assert_eq!(verdict(&items, "old"), (GcVerdict::Reaped, GcReason::Age));
    assert_eq!(
        (summary.reaped, summary.failed, summary.dry_run),
        (1, 0, false)
    );
    let reaped = task.get().await;
    assert_state(&reaped, WorktreeState::Reaped);
    assert!(!at(&worktree, "").exists());
    assert_eq!(
        scene
            .repo
            .git(&["log", "-1", "--format=%s", "clawboo/task-old"]),
        "clawboo: gc autosave"
    );
    assert!(
        scene
            .repo
            .git(&["rev-list", "clawboo/task-old"])
            .contains(&commit)
    );
    let kinds = events::kinds(&scene.client, "old").await;
    assert!(kinds.contains(&EventKind::Reaped), "{kinds:?}");

    let resumed = task.resume().await.unwrap();
    assert_state(&resumed, WorktreeState::Working);
    assert_eq!(
        std::fs::read(at(&resumed, "loose.txt")).unwrap(),
        b"loose\n"
    );
    assert_eq!(
        resumed.base_commit, worktree.base_commit,
        "a3: the baseline is never recomputed"
    );
    before.assert_same(&scene.repo.bystanders());
}

#[tokio::test]
async fn the_protected_are_left_alone_each_with_its_reason() {
    let scene = Scene::new().await;
    scene.repo.write(".gitignore", "/.env\n");
    scene.repo.commit_all("ignore");
    for name in [
        "leased", "named", "retained", "locked", "kept", "paused", "idle",
    ] {
        scene.task(name).provision().await;
    }
    scene.task("leased").clock_in("anna").await;
    write(at(&scene.task("retained").get().await, "x.txt"), "x\n");
    scene.task("retained").complete(0).await.unwrap();
    let locked = scene.task("locked").get().await.path;
    scene.repo.git(&["worktree", "unlock", &locked]);
    scene
        .repo
        .git(&["worktree", "lock", "--reason", "by hand", &locked]);
    scene.task("paused").pause(0).await.unwrap();
    let kept = scene.task("kept").get().await;
    write(at(&kept, ".env"), "SECRET=1\n");

    let (items, summary) = sweep(&scene, |request| {
        request.max_age = ANY_AGE;
        request.active = vec!["named".to_owned()];
    })
    .await;
    assert_eq!(
        verdict(&items, "leased"),
        (GcVerdict::Skipped, GcReason::ActiveLease)
    );
    assert_eq!(
        verdict(&items, "named"),
        (GcVerdict::Skipped, GcReason::NamedActive)
    );
    assert_eq!(
        verdict(&items, "retained"),
        (GcVerdict::Skipped, GcReason::StateProtected)
    );
    assert_eq!(
        verdict(&items, "locked"),
        (GcVerdict::Skipped, GcReason::ForeignLock)
    );
    assert_eq!(
        verdict(&items, "kept"),
        (GcVerdict::Skipped, GcReason::UnsavedIgnored)
    );
    assert_eq!(verdict(&items, "idle"), (GcVerdict::Reaped, GcReason::Age));
    assert_eq!(summary.reaped, 1, "{items:?}");
    for name in ["leased", "named", "retained", "locked", "kept"] {
        let worktree = scene.task(name).get().await;
        assert!(at(&worktree, "README.md").exists(), "{name} is there");
    }
    assert_state(&scene.task("paused").get().await, WorktreeState::Paused);
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_does_nothing() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "loose.txt"), "loose\n");
    let (refs, events) = (scene.repo.refs(), events::log(&scene.client).await.len());
    let (items, summary) = sweep(&scene, |request| {
        (request.max_age, request.dry_run) = (ANY_AGE, true)
    })
    .await;
    assert_eq!(verdict(&items, "t1"), (GcVerdict::WouldReap, GcReason::Age));
    assert_eq!((summary.reaped, summary.dry_run), (1, true));
    assert_eq!(
        (scene.repo.refs(), events::log(&scene.client).await.len()),
        (refs, events)
    );
    assert_state(&task.get().await, WorktreeState::Provisioned);
    assert!(at(&worktree, "loose.txt").exists());
}

#[tokio::test]
async fn the_count_spares_what_was_active_within_the_hour() {
    let scene = Scene::new().await;
    for name in ["a", "b"] {
        scene.task(name).provision().await;
    }
    let (items, summary) = sweep(&scene, |request| request.max_count = Some(0)).await;
    assert_eq!(summary.reaped, 0, "{items:?}");
    assert_eq!(
        verdict(&items, "a"),
        (GcVerdict::Skipped, GcReason::TooRecent)
    );
    assert_state(&scene.task("b").get().await, WorktreeState::Provisioned);
}

#[tokio::test]
async fn beyond_the_count_the_longest_idle_go_and_the_protected_use_it_up() {
    let scene = Scene::with(5, Start::default().env("WORKTREED_GC_IDLE", "0s")).await;
    for name in ["a", "b", "c", "d"] {
        scene.task(name).provision().await;
    }
    scene.task("d").clock_in("anna").await;
    // The oldest becomes the one that was active last.
    scene.task("a").checkpoint(0).await.unwrap();
    let (items, summary) = sweep(&scene, |request| request.max_count = Some(2)).await;
    assert_eq!(summary.reaped, 2, "{items:?}");
    for name in ["b", "c"] {
        assert_eq!(
            verdict(&items, name),
            (GcVerdict::Reaped, GcReason::Count),
            "{name}"
        );
    }
    assert_state(&scene.task("a").get().await, WorktreeState::Provisioned);
    assert_state(&scene.task("d").get().await, WorktreeState::Working);
}

#[tokio::test]
async fn one_failure_never_stops_the_sweep() {
    let scene = Scene::new().await;
    for name in ["a", "b", "c"] {
        scene.task(name).provision().await;
    }
    let broken = scene.task("b").get().await;
    // Another directory in its place: what it is is unknown, and unknown means keep.
    std::fs::rename(&broken.path, scene.path().join("moved")).unwrap();
    write(at(&broken, "foreign.txt"), "foreign\n");
    let (items, summary) = sweep(&scene, |request| request.max_age = ANY_AGE).await;
    assert_eq!(summary.reaped, 2, "{items:?}");
    let (seen, _) = verdict(&items, "b");
    assert!(matches!(seen, GcVerdict::Skipped | GcVerdict::Failed));
    assert!(at(&broken, "foreign.txt").exists() && scene.path().join("moved/README.md").exists());
    let finished = events::log(&scene.client)
        .await
        .into_iter()
        .filter(|event| event.kind() == EventKind::SweepFinished);
    assert!(finished.count() >= 1);
}

#[tokio::test]
async fn a_sweep_with_wrong_numbers_is_refused() {
    let scene = Scene::new().await;
    let client = &scene.client;
    let sweep = |request: CollectGarbageRequest| async move {
        client.collect_garbage(request).await?.message().await
    };
    let past = Some(prost_types::Duration {
        seconds: -1,
        nanos: 0,
    });
    refused_field(
        sweep(CollectGarbageRequest {
            max_age: past,
            ..Default::default()
        })
        .await,
        "max_age",
    );
    refused_field(
        sweep(CollectGarbageRequest {
            max_count: Some(-1),
            ..Default::default()
        })
        .await,
        "max_count",
    );
    refused_field(
        sweep(CollectGarbageRequest {
            active: vec!["a/b".to_owned()],
            ..Default::default()
        })
        .await,
        "active[0]",
    );
}

#[tokio::test]
async fn k6_work_that_was_merged_by_hand_completes_as_it_is() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "work.txt"), "work\n");
    commit_all(&at(&worktree, ""), "work");
    scene
        .repo
        .git(&["merge", "-q", "--no-edit", "clawboo/task-t1"]);
    let first = task.complete(0).await.unwrap();
    let second = task.complete(0).await.unwrap();
    assert_eq!(first.diff_stat, second.diff_stat);
    assert_state(&second.worktree.unwrap(), v1::WorktreeState::Retained);
}
