//! Idempotency: a repeat answers what was answered.

use futures::future::join_all;
use worktreed_client::{
    Client, Code, Deadlines, RetryPolicy,
    proto::{self as v1, ErrorReason, EventKind, WorktreeState},
};

use crate::{
    events,
    repo::write,
    scene::{Scene, Start},
    task::{assert_state, at, refused},
};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test]
async fn the_same_request_id_answers_as_before_also_after_a_restart() {
    let mut scene = Scene::new().await;
    let task = scene.task("t1");
    let with_id = |request: &mut v1::ProvisionWorktreeRequest| request.request_id = ID.to_owned();
    let first = task.try_provision(with_id).await.unwrap();
    assert!(first.created);
    assert_eq!(task.try_provision(with_id).await.unwrap(), first);
    task.clock_in("anna").await;
    assert_eq!(
        task.try_provision(with_id).await.unwrap(),
        first,
        "as it was, although the worktree has changed"
    );
    scene.restart(Start::default()).await;
    assert_eq!(
        scene.task("t1").try_provision(with_id).await.unwrap(),
        first
    );
    let error = refused(
        scene.task("t2").try_provision(with_id).await,
        Code::InvalidArgument,
        ErrorReason::RequestIdReused,
    );
    assert_eq!(error.metadata()["request_id"], ID);
}

#[tokio::test]
async fn a_repeat_with_many_labels_is_the_same_request() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    // Made anew for each call: the order in which a map is sent says nothing.
    let labelled = |request: &mut v1::ProvisionWorktreeRequest| {
        request.request_id = ID.to_owned();
        request.labels = (0..20)
            .map(|number| (format!("k{number}"), "v".to_owned()))
            .collect();
    };
    let first = task.try_provision(labelled).await.unwrap();
    for _ in 0..5 {
        assert_eq!(task.try_provision(labelled).await.unwrap(), first);
    }
}

#[tokio::test]
async fn concurrent_calls_with_one_request_id_join() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "x.txt"), "x\n");
    let call = || task.pause_with(|request| request.request_id = ID.to_owned());
    let answers: Vec<_> = join_all((0..8).map(|_| call()))
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert!(
        answers
            .iter()
            .all(|one| one == &answers[0] && one.committed)
    );
    let paused = events::kinds(&scene.client, "t1")
        .await
        .into_iter()
        .filter(|kind| *kind == EventKind::Paused);
    assert_eq!(paused.count(), 1);
}

#[tokio::test]
async fn after_an_error_the_same_id_runs_again() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let base = |name: &str| {
        Some(v1::provision_worktree_request::Base::BaseRef(
            name.to_owned(),
        ))
    };
    let call = || {
        task.try_provision(|request| {
            request.request_id = ID.to_owned();
            request.base = base("later");
        })
    };
    refused(call().await, Code::NotFound, ErrorReason::BaseNotFound);
    scene.repo.git(&["branch", "later"]);
    assert!(call().await.unwrap().created);
}

#[tokio::test]
async fn every_mutation_remembers_its_answer() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let id = || uuid::Uuid::now_v7().to_string();
    let same = id();
    let acquire = || task.acquire_with("anna", |request| request.request_id = same.clone());
    assert_eq!(acquire().await.unwrap(), acquire().await.unwrap());
    write(at(&worktree, "x.txt"), "x\n");
    let request = v1::CheckpointWorktreeRequest {
        key: Some(task.key.clone()),
        request_id: id(),
        lease_epoch: 1,
        ..Default::default()
    };
    let first = scene
        .client
        .checkpoint_worktree(request.clone())
        .await
        .unwrap();
    assert!(first.committed);
    assert_eq!(
        scene.client.checkpoint_worktree(request).await.unwrap(),
        first
    );
    let request = v1::WriteHandoffRequest {
        key: Some(task.key.clone()),
        request_id: id(),
        lease_epoch: 1,
        handoff: Some(crate::task::handoff("go")),
        ..Default::default()
    };
    let first = scene.client.write_handoff(request.clone()).await.unwrap();
    assert_eq!(
        scene.client.write_handoff(request).await.unwrap(),
        first,
        "although the lease is given back by it"
    );
    assert_eq!(task.handoffs().await.len(), 1);
    let request = v1::CompleteWorktreeRequest {
        key: Some(task.key.clone()),
        request_id: id(),
        ..Default::default()
    };
    let first = scene
        .client
        .complete_worktree(request.clone())
        .await
        .unwrap();
    assert_eq!(
        scene.client.complete_worktree(request).await.unwrap(),
        first
    );
    let request = v1::RemoveWorktreeRequest {
        key: Some(task.key.clone()),
        request_id: id(),
        discard_changes: true,
        ..Default::default()
    };
    let first = scene.client.remove_worktree(request.clone()).await.unwrap();
    assert_eq!(scene.client.remove_worktree(request).await.unwrap(), first);
    assert_state(&task.get().await, WorktreeState::Removed);
}

#[tokio::test]
async fn the_client_s_deadline_ends_the_reply_and_not_the_mutation() {
    let scene = Scene::with(100, Start::default()).await;
    let mut watch = events::watch_now(&scene.client).await;
    let hasty: Client = scene
        .server
        .client()
        .with_retry(RetryPolicy::never())
        .with_deadlines(Deadlines {
            read: None,
            write: Some(std::time::Duration::from_millis(1)),
        });
    let task = scene.task("t1").by(&hasty);
    let with_id = |request: &mut v1::ProvisionWorktreeRequest| request.request_id = ID.to_owned();
    // The connection is made first, so that the deadline falls into the call and not before it.
    hasty
        .get_server_info(v1::GetServerInfoRequest {})
        .await
        .unwrap();
    if task.try_provision(with_id).await.is_err() {
        // The call may not have been sent before its deadline; the repeat joins it or does it.
        assert!(
            scene
                .task("t1")
                .try_provision(with_id)
                .await
                .unwrap()
                .created
        );
    }
    let event = events::wait_for(&mut watch, EventKind::Provisioned).await;
    assert_eq!(event.key.unwrap().task_id, "t1");
    assert_eq!(
        events::kinds(&scene.client, "t1").await,
        [EventKind::ProvisionStarted, EventKind::Provisioned]
    );
}
