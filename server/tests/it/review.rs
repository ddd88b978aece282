//! Read-only checkouts for reviewers.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, EventKind, WarningCode},
};

use crate::{
    events,
    repo::{commit_all, git, write},
    scene::Scene,
    task::{at, refused, refused_field},
};

async fn remove(
    scene: &Scene,
    id: &str,
) -> Result<v1::RemoveReviewResponse, worktreed_client::Error> {
    scene
        .client
        .remove_review(v1::RemoveReviewRequest { id: id.to_owned() })
        .await
}

#[tokio::test]
async fn a_review_shows_the_branch_s_tip_and_says_whether_it_was_changed() {
    let scene = Scene::new().await;
    let before = scene.repo.bystanders();
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "work.txt"), "work\n");
    let tip = commit_all(&at(&worktree, ""), "work");
    let made = task.review("rita", |_| {}).await.unwrap();
    assert_eq!(made.warnings, []);
    let review = made.review.unwrap();
    assert_eq!(
        (review.sha.as_str(), review.reviewer.as_str()),
        (tip.as_str(), "rita")
    );
    let place = Path::new(&review.path);
    assert_eq!(git(place, &["rev-parse", "HEAD"]), tip);
    assert!(
        !crate::repo::try_git(place, &["symbolic-ref", "-q", "HEAD"])
            .status
            .success(),
        "detached: nothing to push"
    );
    assert_eq!(
        fs::metadata(place.join("work.txt"))
            .unwrap()
            .permissions()
            .mode()
            & 0o222,
        0,
        "not writable"
    );
    assert!(review.expire_time.unwrap().seconds > review.create_time.unwrap().seconds);

    let second = task.review("rolf", |_| {}).await.unwrap().review.unwrap();
    assert_ne!(
        second.path, review.path,
        "each reviewer has a directory of his own"
    );
    let listed = scene
        .client
        .list_reviews(v1::ListReviewsRequest {
            task_id: "t1".to_owned(),
            ..Default::default()
        })
        .await
        .unwrap();
    assert_eq!(
        listed
            .reviews
            .iter()
            .map(|one| one.reviewer.as_str())
            .collect::<Vec<_>>(),
        ["rolf", "rita"]
    );

    let removed = remove(&scene, &review.id).await.unwrap();
    assert!(removed.tree_unchanged && removed.recovery_point.is_empty());
    assert!(!place.exists() && Path::new(&second.path).exists());
    assert_eq!(
        remove(&scene, &review.id).await.unwrap(),
        removed,
        "a repeat answers the same"
    );

    let changed = Path::new(&second.path).join("work.txt");
    fs::set_permissions(&changed, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&changed, "remark\n").unwrap();
    let removed = remove(&scene, &second.id).await.unwrap();
    assert!(!removed.tree_unchanged);
    assert!(crate::ending::pinned_somewhere(
        &scene,
        &removed.recovery_point,
        "work.txt",
        b"remark\n"
    ));
    before.assert_same(&scene.repo.bystanders());
    let kinds: Vec<_> = events::log(&scene.client)
        .await
        .iter()
        .map(v1::Event::kind)
        .collect();
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == EventKind::ReviewCreated)
            .count(),
        2
    );
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == EventKind::ReviewRemoved)
            .count(),
        2
    );
}

#[tokio::test]
async fn a_review_warns_of_work_that_is_not_committed() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "loose.txt"), "loose\n");
    let made = task.review("rita", |_| {}).await.unwrap();
    assert!(
        made.warnings
            .iter()
            .any(|one| one.code() == WarningCode::UncheckpointedWork),
        "{:?}",
        made.warnings
    );
}

#[tokio::test]
async fn a_review_of_a_commit_needs_no_task() {
    let scene = Scene::new().await;
    let head = scene.repo.head();
    let nobody = crate::task::Task::new(&scene.client, &scene.repo.path, "");
    refused_field(nobody.review("rita", |_| {}).await, "sha");
    let review = nobody
        .review("rita", |request| request.sha = head.clone())
        .await
        .unwrap()
        .review
        .unwrap();
    assert_eq!(review.sha, head);
    let missing = "f".repeat(40);
    refused(
        nobody.review("rita", |request| request.sha = missing).await,
        Code::NotFound,
        ErrorReason::BaseNotFound,
    );
    refused_field(
        nobody
            .review("rita", |request| request.sha = "abc".to_owned())
            .await,
        "sha",
    );
    refused_field(
        nobody.review("../rita", |request| request.sha = head).await,
        "reviewer",
    );
    refused(
        remove(&scene, "01890a5d-ac96-774b-bcce-b302099a8057").await,
        Code::NotFound,
        ErrorReason::ReviewNotFound,
    );
    refused_field(remove(&scene, "nonsense").await, "id");
}

#[tokio::test]
async fn a_review_expires_by_itself() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let mut watch = events::watch_now(&scene.client).await;
    let ttl = Some(prost_types::Duration {
        seconds: 1,
        nanos: 0,
    });
    let made = task.review("rita", |request| request.ttl = ttl).await;
    let review = made.unwrap().review.unwrap();
    let event = events::wait_for(&mut watch, EventKind::ReviewRemoved).await;
    let Some(v1::event::Detail::Review(detail)) = event.detail else {
        panic!("{event:?}")
    };
    assert!(detail.expired && detail.tree_unchanged);
    assert_eq!(detail.review.unwrap().id, review.id);
    assert!(!Path::new(&review.path).exists());
}
