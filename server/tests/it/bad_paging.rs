//! Page tokens, positions and filters that are wrong.

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason},
};

use crate::{
    scene::Scene,
    task::{refused, refused_field},
};

#[tokio::test]
async fn a_page_token_from_elsewhere_is_refused() {
    let scene = Scene::new().await;
    for name in ["t1", "t2", "t3"] {
        scene.task(name).provision().await;
    }
    let client = &scene.client;
    let list = |page_token: &str, states: Vec<i32>| {
        client.list_worktrees(v1::ListWorktreesRequest {
            page_size: 2,
            page_token: page_token.to_owned(),
            states,
            ..Default::default()
        })
    };
    let first = list("", vec![]).await.unwrap();
    assert_eq!(first.worktrees.len(), 2);
    let second = list(&first.next_page_token, vec![]).await.unwrap();
    assert_eq!(
        (second.worktrees.len(), second.next_page_token.as_str()),
        (1, "")
    );
    let names: Vec<_> = first
        .worktrees
        .iter()
        .chain(&second.worktrees)
        .map(|one| one.key.as_ref().unwrap().task_id.as_str())
        .collect();
    assert_eq!(names, ["t3", "t2", "t1"], "the newest first");

    let (code, reason) = (Code::InvalidArgument, ErrorReason::PageTokenInvalid);
    refused(list("nonsense", vec![]).await, code, reason);
    refused(list("AAAA", vec![]).await, code, reason);
    refused(
        list(
            &first.next_page_token,
            vec![v1::WorktreeState::Paused.into()],
        )
        .await,
        code,
        reason,
    );
    let branches = |page_token: &str| {
        let repo = scene.repo.path.to_str().unwrap().to_owned();
        client.list_branches(v1::ListBranchesRequest {
            repo,
            page_size: 1,
            page_token: page_token.to_owned(),
        })
    };
    refused(branches(&first.next_page_token).await, code, reason);
    let page = branches("").await.unwrap();
    assert_eq!(page.branches[0].name, "clawboo/task-t1");
    refused(list(&page.next_page_token, vec![]).await, code, reason);
    refused_field(
        client
            .list_worktrees(v1::ListWorktreesRequest {
                page_size: -1,
                ..Default::default()
            })
            .await,
        "page_size",
    );
}

#[tokio::test]
async fn positions_and_filters_that_say_nothing_are_refused() {
    let scene = Scene::new().await;
    scene.task("t1").provision().await;
    let client = &scene.client;
    let list = |after: &str| {
        client.list_events(v1::ListEventsRequest {
            after: after.to_owned(),
            ..Default::default()
        })
    };
    for position in ["nonsense", "0", "AAAAAAAA"] {
        let error = list(position).await.unwrap_err();
        assert!(
            matches!(
                error.reason(),
                Some(ErrorReason::PositionUnknown | ErrorReason::InvalidField)
            ),
            "{error}"
        );
    }
    let watch = |request: v1::WatchEventsRequest| async move {
        client.watch_events(request).await?.message().await
    };
    let filter = |filter: v1::EventFilter| v1::WatchEventsRequest {
        filter: Some(filter),
        ..Default::default()
    };
    let missing = v1::EventFilter {
        repo: scene.path().join("repos/none").to_str().unwrap().to_owned(),
        ..Default::default()
    };
    refused(
        watch(filter(missing)).await,
        Code::NotFound,
        ErrorReason::RepositoryNotFound,
    );
    let empty_name = v1::EventFilter {
        task_ids: vec![String::new()],
        ..Default::default()
    };
    refused_field(watch(filter(empty_name)).await, "filter.task_ids[0]");
    let many = v1::EventFilter {
        task_ids: vec!["a".to_owned(); 1_001],
        ..Default::default()
    };
    refused_field(watch(filter(many)).await, "filter.task_ids");
    let none = v1::EventFilter {
        kinds: vec![0],
        ..Default::default()
    };
    refused_field(watch(filter(none)).await, "filter.kinds[0]");
    let short = Some(prost_types::Duration {
        seconds: 0,
        nanos: 1,
    });
    refused_field(
        watch(v1::WatchEventsRequest {
            bookmark_interval: short,
            ..Default::default()
        })
        .await,
        "bookmark_interval",
    );
}
