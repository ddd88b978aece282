//! Watching: one ordered history, from any position, for everybody.

use std::time::Duration;

use tokio::time::timeout;
use worktreed_client::{
    Code, Watch, WatchItem,
    proto::{
        self as v1, ErrorReason, Event, EventKind, watch_events_request::Start as Begin,
        watch_events_response::Item,
    },
};

use crate::{
    events::{self, assert_contiguous, take, watch_from, watch_now},
    scene::{PATIENCE, Scene, Start},
    task::refused,
};

/// Makes so many events, quickly: a lease taken and given back are two.
async fn make_events(scene: &Scene, rounds: usize) {
    let task = scene.task("busy");
    if task.try_get().await.is_err() {
        task.provision().await;
    }
    for _ in 0..rounds {
        let epoch = task.clock_in("anna").await;
        task.release(epoch).await.unwrap();
    }
}

fn sequences(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.sequence).collect()
}

#[tokio::test]
async fn m1_a_watch_after_a_position_sees_exactly_what_follows() {
    let scene = Scene::new().await;
    make_events(&scene, 2).await;
    let mut watch = watch_from(&scene.client, Begin::FromBeginning(v1::FromBeginning {}));
    let seen = take(&mut watch, 6).await;
    assert_eq!(sequences(&seen), [1, 2, 3, 4, 5, 6]);
    let position = seen[3].position.clone();
    drop(watch);
    make_events(&scene, 5).await;
    let mut watch = watch_from(&scene.client, Begin::After(position));
    assert_eq!(
        sequences(&take(&mut watch, 12).await),
        (5..=16).collect::<Vec<i64>>()
    );
}

#[tokio::test]
async fn m4_m14_nothing_falls_between_replay_and_live_nor_between_pages() {
    let scene = Scene::new().await;
    make_events(&scene, 1).await;
    let writer = async {
        make_events(&scene, 40).await;
    };
    let readers = async {
        for _ in 0..20 {
            let mut watch = watch_from(&scene.client, Begin::FromBeginning(v1::FromBeginning {}));
            let seen = take(&mut watch, 8).await;
            assert_eq!(seen[0].sequence, 1);
            assert_contiguous(&seen);
            // The paged reader checks that its pages fit together.
            assert!(events::log_by(&scene.client, 3).await.len() >= 4);
        }
    };
    tokio::join!(writer, readers);
    assert_eq!(events::log_by(&scene.client, 3).await.len(), 2 + 82);
}

#[tokio::test]
async fn m5_a_slow_watcher_is_fed_from_the_log_and_slows_nobody() {
    let scene = Scene::new().await;
    make_events(&scene, 1).await;
    let request = v1::WatchEventsRequest {
        start: Some(Begin::FromBeginning(v1::FromBeginning {})),
        ..Default::default()
    };
    // Opened, and not read until all has happened.
    let mut slow = scene.server.client().watch_events(request).await.unwrap();
    make_events(&scene, 150).await;
    let mut next = 1;
    while next <= 304 {
        let message = timeout(PATIENCE, slow.message())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        if let Some(Item::Event(event)) = message.item {
            assert_eq!(event.sequence, next);
            next += 1;
        }
    }
}

#[tokio::test]
async fn m8_watchers_that_vanish_leave_nothing_behind() {
    let scene = Scene::new().await;
    make_events(&scene, 1).await;
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{}/fd", scene.server.pid()))
            .unwrap()
            .count()
    };
    let before = descriptors();
    let mut watches = Vec::new();
    for _ in 0..100 {
        watches.push(watch_now(&scene.server.client()).await);
    }
    assert!(descriptors() >= before + 100);
    drop(watches);
    timeout(PATIENCE, async {
        while descriptors() > before + 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the server notices, although nothing happens");
    make_events(&scene, 1).await;
}

#[tokio::test]
async fn m11_an_idle_watch_shows_that_it_is_alive_and_pings_do_not_end_it() {
    let scene = Scene::new().await;
    make_events(&scene, 1).await;
    let end = events::end_of_log(&scene.client).await;
    let channel = scene
        .server
        .channel(|endpoint| {
            endpoint
                .http2_keep_alive_interval(Duration::from_millis(200))
                .keep_alive_while_idle(true)
        })
        .await
        .unwrap();
    let mut client = v1::event_service_client::EventServiceClient::new(channel);
    let request = v1::WatchEventsRequest {
        bookmark_interval: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
        ..Default::default()
    };
    let mut stream = client.watch_events(request).await.unwrap().into_inner();
    for _ in 0..3 {
        let message = timeout(PATIENCE, stream.message())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let Some(Item::Bookmark(bookmark)) = message.item else {
            panic!("{message:?}")
        };
        assert_eq!(bookmark.position, end);
        assert!(bookmark.time.is_some());
    }
}

#[tokio::test]
async fn m12_a_watch_from_the_head_repeats_nothing_and_one_from_beyond_is_refused() {
    let scene = Scene::new().await;
    make_events(&scene, 1).await;
    let end = events::end_of_log(&scene.client).await;
    let mut watch = watch_from(&scene.client, Begin::After(end.clone()));
    make_events(&scene, 1).await;
    assert_eq!(sequences(&take(&mut watch, 2).await), [5, 6]);

    // A position of another log, and one that this log has not reached: the same log, copied back.
    let other = Scene::new().await;
    make_events(&other, 8).await;
    let foreign = events::end_of_log(&other.client).await;
    let request = v1::ListEventsRequest {
        after: foreign.clone(),
        ..Default::default()
    };
    refused(
        scene.client.list_events(request).await,
        Code::OutOfRange,
        ErrorReason::PositionUnknown,
    );
    let mut watch = watch_from(&scene.client, Begin::After(foreign));
    refused(
        watch.next().await,
        Code::OutOfRange,
        ErrorReason::PositionUnknown,
    );
}

#[tokio::test]
async fn a_position_whose_events_are_no_longer_kept_is_refused_as_such() {
    let start = Start::default()
        .env("WORKTREED_EVENT_RETENTION_COUNT", "3")
        .env("WORKTREED_COMPACTION_INTERVAL", "1s");
    let scene = Scene::with(3, start).await;
    let beginning = events::end_of_log(&scene.client).await;
    make_events(&scene, 4).await;
    let list = || {
        let request = v1::ListEventsRequest {
            after: beginning.clone(),
            ..Default::default()
        };
        scene.client.list_events(request)
    };
    let refusal = timeout(PATIENCE, async {
        loop {
            match list().await {
                Err(error) => break error,
                Ok(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    })
    .await
    .expect("the log is compacted");
    let refusal = refused::<()>(Err(refusal), Code::OutOfRange, ErrorReason::EventsCompacted);
    assert!(!refusal.metadata()["oldest"].is_empty());
    let mut watch = watch_from(&scene.client, Begin::After(beginning.clone()));
    refused(
        watch.next().await,
        Code::OutOfRange,
        ErrorReason::EventsCompacted,
    );
    // From the beginning means from the oldest that is kept.
    assert_eq!(sequences(&events::log(&scene.client).await), [8, 9, 10]);
    make_events(&scene, 1).await;
}

#[tokio::test]
async fn m13_a_removed_worktree_ends_once_and_is_not_made_again() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let request = v1::WatchEventsRequest {
        filter: Some(v1::EventFilter {
            task_ids: vec!["t1".to_owned()],
            ..Default::default()
        }),
        start: Some(Begin::FromBeginning(v1::FromBeginning {})),
        ..Default::default()
    };
    let mut watch = scene.client.watch(request);
    task.remove_with(|_| {}).await.unwrap();
    scene.task("t2").provision().await;
    let mut other = watch_from(&scene.client, Begin::FromBeginning(v1::FromBeginning {}));
    let event = events::wait_for(&mut watch, EventKind::Removed).await;
    assert_eq!(
        event.worktree.as_ref().unwrap().state(),
        v1::WorktreeState::Removed
    );
    assert!(!std::path::Path::new(&worktree.path).exists());
    let all = take(&mut other, events::log(&scene.client).await.len()).await;
    assert_eq!(
        all.iter()
            .filter(|event| event.kind() == EventKind::Removed)
            .count(),
        1
    );
}

#[tokio::test]
async fn the_initial_state_and_what_follows_share_one_instant() {
    let scene = Scene::new().await;
    for name in ["a", "b", "c", "d"] {
        scene.task(name).provision().await;
    }
    scene.task("d").complete(0).await.unwrap();
    let end = events::end_of_log(&scene.client).await;
    let mut watch = watch_from(
        &scene.client,
        Begin::WithInitialState(v1::WithInitialState {}),
    );
    let mut names = Vec::new();
    let end_of_state = loop {
        match timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
            WatchItem::State(worktree) => names.push(worktree.key.unwrap().task_id),
            WatchItem::EndOfState(end) => break end,
            item => panic!("{item:?}"),
        }
    };
    names.sort();
    assert_eq!(names, ["a", "b", "c"], "all that are not terminal");
    assert_eq!((end_of_state.count, &end_of_state.position), (3, &end));
    let epoch = scene.task("a").clock_in("anna").await;
    let event = events::next_event(&mut watch).await;
    assert_eq!(
        (event.kind(), event.worktree.unwrap().lease.unwrap().epoch),
        (EventKind::LeaseAcquired, epoch)
    );
}

#[tokio::test]
async fn filters_choose_and_bookmarks_move_past_what_they_leave_out() {
    let scene = Scene::new().await;
    let filter = v1::EventFilter {
        task_ids: vec!["quiet".to_owned()],
        kinds: vec![EventKind::Provisioned.into()],
        ..Default::default()
    };
    let request = v1::WatchEventsRequest {
        filter: Some(filter),
        start: Some(Begin::FromBeginning(v1::FromBeginning {})),
        bookmark_interval: Some(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        }),
        ..Default::default()
    };
    make_events(&scene, 3).await;
    let end = events::end_of_log(&scene.client).await;
    let mut watch = scene.client.watch(request.clone());
    wait_for_position(&mut watch, &end).await;
    scene.task("quiet").provision().await;
    let event = events::next_event(&mut watch).await;
    assert_eq!(
        (event.kind(), event.key.unwrap().task_id.as_str()),
        (EventKind::Provisioned, "quiet")
    );
    let elsewhere = v1::EventFilter {
        repo: scene.repo.path.to_str().unwrap().to_owned(),
        ..Default::default()
    };
    let all = v1::ListEventsRequest {
        filter: Some(elsewhere),
        page_size: 1000,
        ..Default::default()
    };
    assert_eq!(
        scene.client.list_events(all).await.unwrap().events.len(),
        10
    );
}

async fn wait_for_position(watch: &mut Watch, position: &str) {
    timeout(PATIENCE, async {
        loop {
            match watch.next().await.unwrap() {
                WatchItem::Bookmark(bookmark) if bookmark.position == position => return,
                WatchItem::Bookmark(_) => {}
                item => panic!("the filter leaves this out: {item:?}"),
            }
        }
    })
    .await
    .expect("a bookmark reaches the end of the log");
}

#[tokio::test]
async fn an_event_carries_the_worktree_as_it_was_after_it() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let epoch = task.clock_in("anna").await;
    task.write_handoff(epoch, crate::task::handoff("go"))
        .await
        .unwrap();
    let log = events::log(&scene.client).await;
    let states: Vec<_> = log
        .iter()
        .map(|event| (event.kind(), event.worktree.as_ref().unwrap().state()))
        .collect();
    assert_eq!(
        states[0],
        (EventKind::ProvisionStarted, v1::WorktreeState::Provisioning)
    );
    assert_eq!(
        states[1],
        (EventKind::Provisioned, v1::WorktreeState::Provisioned)
    );
    assert_eq!(
        states[2],
        (EventKind::LeaseAcquired, v1::WorktreeState::Working)
    );
    assert!(states.contains(&(EventKind::HandedOff, v1::WorktreeState::HandedOff)));
    assert!(
        log.windows(2)
            .all(|pair| pair[0].position != pair[1].position)
    );
    assert_eq!(
        log.last().unwrap().worktree.as_ref().unwrap().etag,
        task.get().await.etag
    );
}
