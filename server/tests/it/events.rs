//! The event log as a test reads it.

use tokio::time::timeout;
use worktreed_client::{
    Client, Watch, WatchItem,
    proto::{self as v1, Event, EventKind, watch_events_request::Start},
};

use crate::scene::PATIENCE;

/// The whole log, read page by page, with a check that it has no gap.
pub(crate) async fn log(client: &Client) -> Vec<Event> {
    log_by(client, 500).await
}

pub(crate) async fn log_by(client: &Client, page_size: i32) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut after = String::new();
    loop {
        let request = v1::ListEventsRequest {
            after,
            page_size,
            ..Default::default()
        };
        let page = client.list_events(request).await.unwrap();
        events.extend(page.events);
        after = page.next_position;
        if !page.has_more {
            break;
        }
    }
    assert_contiguous(&events);
    events
}

/// The position at the end of the log.
pub(crate) async fn end_of_log(client: &Client) -> String {
    let mut after = String::new();
    loop {
        let request = v1::ListEventsRequest {
            after,
            page_size: 1000,
            ..Default::default()
        };
        let page = client.list_events(request).await.unwrap();
        after = page.next_position;
        if !page.has_more {
            return after;
        }
    }
}

/// The kinds of a task's events in their order.
pub(crate) async fn kinds(client: &Client, task_id: &str) -> Vec<EventKind> {
    let of_task = |event: &&Event| event.key.as_ref().is_some_and(|key| key.task_id == task_id);
    log(client)
        .await
        .iter()
        .filter(of_task)
        .map(Event::kind)
        .collect()
}

#[track_caller]
pub(crate) fn assert_contiguous(events: &[Event]) {
    for pair in events.windows(2) {
        assert_eq!(pair[1].sequence, pair[0].sequence + 1, "a gap or a repeat");
    }
}

/// A watch from a start, without anything filtered out.
pub(crate) fn watch_from(client: &Client, start: Start) -> Watch {
    client.watch(v1::WatchEventsRequest {
        start: Some(start),
        ..Default::default()
    })
}

/// A watch that has begun: what happens from here on is seen.
pub(crate) async fn watch_now(client: &Client) -> Watch {
    let mut watch = watch_from(client, Start::FromNow(v1::FromNow {}));
    let first = timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert!(matches!(first, WatchItem::Bookmark(_)), "{first:?}");
    watch
}

/// The next event, whatever else comes before it.
pub(crate) async fn next_event(watch: &mut Watch) -> Event {
    loop {
        let item = timeout(PATIENCE, watch.next())
            .await
            .expect("no event came")
            .unwrap();
        if let WatchItem::Event(event) = item {
            return *event;
        }
    }
}

/// Waits for an event of this kind and returns it.
pub(crate) async fn wait_for(watch: &mut Watch, kind: EventKind) -> Event {
    loop {
        let event = next_event(watch).await;
        if event.kind() == kind {
            return event;
        }
    }
}

/// Reads so many events.
pub(crate) async fn take(watch: &mut Watch, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        events.push(next_event(watch).await);
    }
    events
}
