#![allow(clippy::unwrap_used)]

use std::{collections::HashSet, time::Duration};

use jiff::Timestamp;
use tokio::time::timeout;
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;
use worktree_engine::lifecycle::{Operation, State};

use super::*;
use crate::registry::{
    Change, Registry,
    tests::{REPO, events, registry, row},
};

type Stream = ReceiverStream<Result<WatchItem, WatchError>>;

fn options(start: Start) -> WatchOptions {
    WatchOptions {
        filter: EventFilter::default(),
        start,
        bookmark_interval: Duration::from_secs(3600),
        include_progress: false,
    }
}

fn hub(registry: &Registry) -> EventHub {
    EventHub::new(registry.clone(), CancellationToken::new(), 100)
}

async fn next(stream: &mut Stream) -> Result<WatchItem, WatchError> {
    timeout(Duration::from_secs(30), stream.next())
        .await
        .unwrap()
        .unwrap()
}

async fn sequences(stream: &mut Stream, count: usize) -> Vec<i64> {
    let mut seen = Vec::new();
    while seen.len() < count {
        if let WatchItem::Event(event) = next(stream).await.unwrap() {
            seen.push(event.sequence);
        }
    }
    seen
}

#[tokio::test]
async fn m1_a_watch_after_a_position_sees_exactly_what_follows() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    registry.commit(events(10, "t1")).await.unwrap();
    let start = Start::After(hub.position(4));
    let mut stream = hub.watch(options(start)).await.unwrap();
    registry.commit(events(3, "t1")).await.unwrap();
    assert_eq!(
        sequences(&mut stream, 9).await,
        (5..=13).collect::<Vec<_>>()
    );
    let mut stream = hub.watch(options(Start::FromBeginning)).await.unwrap();
    assert_eq!(
        sequences(&mut stream, 13).await,
        (1..=13).collect::<Vec<_>>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m4_m14_nothing_falls_between_replay_and_live_nor_between_pages() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    let writer = tokio::spawn({
        let registry = registry.clone();
        async move {
            for _ in 0..300 {
                registry.commit(events(3, "t1")).await.unwrap();
            }
        }
    });
    let mut watchers = Vec::new();
    for _ in 0..10 {
        let mut stream = hub.watch(options(Start::FromBeginning)).await.unwrap();
        watchers.push(tokio::spawn(
            async move { sequences(&mut stream, 900).await },
        ));
        tokio::task::yield_now().await;
    }
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), (1..=900).collect::<Vec<_>>());
    }
    writer.await.unwrap();
    let (mut after, mut all) = (None, Vec::new());
    loop {
        let page = hub
            .page(&EventFilter::default(), after.as_deref(), 7)
            .await
            .unwrap();
        all.extend(page.events.iter().map(|event| event.sequence));
        after = Some(hub.position(page.next));
        if !page.has_more {
            break;
        }
    }
    assert_eq!(all, (1..=900).collect::<Vec<_>>());
}

#[tokio::test]
async fn m5_a_watcher_that_does_not_read_holds_up_nobody_and_misses_nothing() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    let mut slow = hub.watch(options(Start::FromBeginning)).await.unwrap();
    let mut quick = hub.watch(options(Start::FromBeginning)).await.unwrap();
    registry.commit(events(1_000, "t1")).await.unwrap();
    assert_eq!(sequences(&mut quick, 1_000).await.len(), 1_000);
    assert_eq!(
        sequences(&mut slow, 1_000).await,
        (1..=1_000).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn m12_positions_ahead_of_another_log_or_compacted_are_told_apart() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    registry.commit(events(10, "t1")).await.unwrap();
    let mut stream = hub
        .watch(options(Start::After(hub.position(10))))
        .await
        .unwrap();
    registry.commit(events(1, "t1")).await.unwrap();
    assert_eq!(sequences(&mut stream, 1).await, [11]);
    let refused = async |token: String| match hub.watch(options(Start::After(token))).await {
        Err(WatchError::Position(error)) => error,
        other => panic!("{other:?}"),
    };
    let foreign = Position {
        log_id: uuid::Uuid::new_v4(),
        sequence: 1,
    };
    assert_eq!(refused(foreign.token()).await, PositionError::OtherLog);
    assert_eq!(
        refused(hub.position(12)).await,
        PositionError::Ahead { head: 11 }
    );
    registry
        .compact(Timestamp::UNIX_EPOCH, 5, Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    assert_eq!(
        refused(hub.position(5)).await,
        PositionError::Compacted { oldest: 7 }
    );
    let mut stream = hub
        .watch(options(Start::After(hub.position(6))))
        .await
        .unwrap();
    assert_eq!(sequences(&mut stream, 5).await, [7, 8, 9, 10, 11]);
    // Even with nothing kept, the head itself is a position to go on from, and what lies before it is not.
    registry
        .compact(Timestamp::MAX, 5, Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    hub.watch(options(Start::After(hub.position(11))))
        .await
        .unwrap();
    assert_eq!(
        refused(hub.position(10)).await,
        PositionError::Compacted { oldest: 12 }
    );
}

#[tokio::test]
async fn a_slow_watcher_overtaken_by_compaction_is_told() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    let mut stream = hub.watch(options(Start::FromNow)).await.unwrap();
    registry.commit(events(2_000, "t1")).await.unwrap();
    // It waits for its reader, far behind what is about to go.
    registry
        .compact(Timestamp::UNIX_EPOCH, 10, Timestamp::UNIX_EPOCH)
        .await
        .unwrap();
    let mut last = 0;
    let error = loop {
        match next(&mut stream).await {
            Ok(WatchItem::Event(event)) => {
                assert_eq!(event.sequence, last + 1);
                last = event.sequence;
            }
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    let compacted = PositionError::Compacted { oldest: 1_991 };
    assert!(matches!(error, WatchError::Position(found) if found == compacted));
}

#[tokio::test]
async fn the_initial_state_and_what_follows_share_one_snapshot() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    let mut gone = row("gone");
    gone.state = State::Removed;
    let rows = vec![row("a"), row("b"), gone];
    let mut change = events(3, "a");
    change.rows = rows;
    registry.commit(change).await.unwrap();
    let mut options = options(Start::WithInitialState);
    let mut stream = hub.watch(options.clone()).await.unwrap();
    registry.commit(events(1, "b")).await.unwrap();
    for task in ["a", "b"] {
        let WatchItem::State(row) = next(&mut stream).await.unwrap() else {
            panic!()
        };
        assert_eq!(row.task_id().as_str(), task);
    }
    let end = WatchItem::EndOfState {
        sequence: 3,
        count: 2,
    };
    assert_eq!(next(&mut stream).await.unwrap(), end);
    assert_eq!(sequences(&mut stream, 1).await, [4]);
    options.filter.task_ids = HashSet::from(["b".to_owned()]);
    let mut stream = hub.watch(options).await.unwrap();
    assert!(
        matches!(next(&mut stream).await.unwrap(), WatchItem::State(row) if row.task_id().as_str() == "b")
    );
}

#[tokio::test]
async fn bookmarks_come_at_once_from_now_and_move_past_what_is_left_out() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    registry.commit(events(2, "t1")).await.unwrap();
    let mut options = options(Start::FromNow);
    options.filter.repo_id = Some(REPO.to_owned());
    options.filter.task_ids = HashSet::from(["quiet".to_owned()]);
    options.bookmark_interval = Duration::ZERO;
    let mut stream = hub.watch(options).await.unwrap();
    let first = next(&mut stream).await.unwrap();
    assert!(
        matches!(first, WatchItem::Bookmark { sequence: 2, .. }),
        "{first:?}"
    );
    registry.commit(events(5, "loud")).await.unwrap();
    let begun = std::time::Instant::now();
    let second = next(&mut stream).await.unwrap();
    assert!(
        matches!(second, WatchItem::Bookmark { sequence: 7, .. }),
        "{second:?}"
    );
    assert!(
        begun.elapsed() > Duration::from_millis(500),
        "a second at least"
    );
    registry.commit(events(1, "quiet")).await.unwrap();
    assert_eq!(sequences(&mut stream, 1).await, [8]);
}

#[tokio::test]
async fn m9_the_end_comes_with_the_last_position_even_to_one_that_reads_late() {
    let (_directory, registry) = registry().await;
    let shutdown = CancellationToken::new();
    let hub = EventHub::new(registry.clone(), shutdown.clone(), 2);
    registry.commit(events(3, "t1")).await.unwrap();
    let mut stream = hub.watch(options(Start::FromBeginning)).await.unwrap();
    let waiting = hub.watch(options(Start::FromNow)).await.unwrap();
    let third = hub.watch(options(Start::FromNow)).await;
    assert!(matches!(third, Err(WatchError::TooMany { limit: 2 })));
    assert_eq!(sequences(&mut stream, 3).await, [1, 2, 3]);
    shutdown.cancel();
    for mut stream in [stream, waiting] {
        let error = loop {
            if let Err(error) = next(&mut stream).await {
                break error;
            }
        };
        assert!(
            matches!(error, WatchError::Draining { sequence: 3 }),
            "{error}"
        );
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn m8_a_watcher_that_vanishes_gives_its_place_back() {
    let (_directory, registry) = registry().await;
    let hub = EventHub::new(registry.clone(), CancellationToken::new(), 1);
    drop(hub.watch(options(Start::FromNow)).await.unwrap());
    timeout(Duration::from_secs(30), async {
        while hub.watch(options(Start::FromNow)).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn progress_is_shown_to_who_asks_and_passes_the_filter() {
    let (_directory, registry) = registry().await;
    let hub = hub(&registry);
    let mut options = options(Start::FromNow);
    options.include_progress = true;
    options.filter.task_ids = HashSet::from(["t1".to_owned()]);
    let mut stream = hub.watch(options).await.unwrap();
    next(&mut stream).await.unwrap();
    let update = |task: &str| ProgressUpdate {
        repo: "/repo".to_owned(),
        repo_id: REPO.to_owned(),
        task_id: task.to_owned(),
        operation: Operation::Provision,
        stage: "checkout",
        done: 1,
        total: 2,
        unit: "files",
        time: Timestamp::UNIX_EPOCH,
    };
    hub.report(update("t2"));
    hub.report(update("t1"));
    let item = next(&mut stream).await.unwrap();
    assert_eq!(item, WatchItem::Progress(Box::new(update("t1"))));
    registry.commit(Change::default()).await.unwrap();
}
