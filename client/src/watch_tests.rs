#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use worktree_proto::v1::{FromNow, WithInitialState};

use super::*;
use crate::testing::{Fake, Items, Wire};

const WATCH: &str = "/worktree.v1.EventService/WatchEvents";

fn event(sequence: i64) -> Item {
    Item::Event(Event {
        position: format!("p{sequence}"),
        sequence,
        ..Default::default()
    })
}

fn bookmark(position: &str) -> Item {
    Item::Bookmark(Bookmark {
        position: position.into(),
        time: None,
    })
}

fn draining(position: Option<&str>) -> Status {
    let metadata = position.map(|position| (POSITION_KEY.to_owned(), position.to_owned()));
    let details = ErrorDetails::with_error_info(
        "SERVER_DRAINING",
        "worktree.v1",
        metadata
            .into_iter()
            .collect::<std::collections::HashMap<_, _>>(),
    );
    Status::with_error_details(Code::Unavailable, "the server is shutting down", details)
}

type Script = Vec<(Vec<Item>, Option<Status>)>;

/// A server that plays one entry of the script a connection: the items, then the error, or an end without one.
/// Returns it with the starts that it was asked for.
fn scripted(script: Script) -> (Fake, Arc<Mutex<Vec<Option<Start>>>>) {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = starts.clone();
    let script = Mutex::new(script.into_iter());
    let fake = Fake::default().streaming(WATCH, move |request: WatchEventsRequest| {
        seen.lock().unwrap().push(request.start);
        let (items, error) = script
            .lock()
            .unwrap()
            .next()
            .ok_or_else(|| Status::data_loss("end of the script"))?;
        let items = items
            .into_iter()
            .map(|item| Ok(WatchEventsResponse { item: Some(item) }));
        let items: Vec<_> = items.chain(error.map(Err)).collect();
        let stream: Items<WatchEventsResponse> = Box::pin(futures::stream::iter(items));
        Ok(stream)
    });
    (fake, starts)
}

fn after(position: &str) -> Option<Start> {
    Some(Start::After(position.into()))
}

async fn collect(watch: &mut Watch) -> (Vec<WatchItem>, Error) {
    let mut items = Vec::new();
    loop {
        match watch.next().await {
            Ok(item) => items.push(item),
            Err(error) => return (items, error),
        }
    }
}

fn sequences(items: &[WatchItem]) -> Vec<i64> {
    let events = items.iter().filter_map(|item| {
        if let WatchItem::Event(event) = item {
            Some(event.sequence)
        } else {
            None
        }
    });
    events.collect()
}

#[tokio::test]
async fn a_watch_goes_on_after_its_last_position_whatever_cut_it_off() {
    let (fake, starts) = scripted(vec![
        (vec![bookmark("p0"), event(1), event(2)], None),
        (
            vec![event(3), bookmark("p9")],
            Some(Status::unavailable("restart")),
        ),
        (vec![event(10)], Some(draining(Some("p12")))),
        (vec![event(13)], None),
    ]);
    let server = fake.serve();
    let start = Some(Start::FromNow(FromNow {}));
    let mut watch = server.client().watch(WatchEventsRequest {
        start: start.clone(),
        ..Default::default()
    });

    let (items, error) = collect(&mut watch).await;
    assert_eq!(error.code(), Code::DataLoss);
    assert_eq!(sequences(&items), [1, 2, 3, 10, 13]);
    assert_eq!(
        *starts.lock().unwrap(),
        [start, after("p2"), after("p9"), after("p12"), after("p13")]
    );
    assert_eq!(watch.position(), Some("p13"));
}

#[tokio::test]
async fn an_initial_state_that_is_cut_off_begins_anew_and_says_so() {
    let state = || {
        Item::State(Worktree {
            id: "w".into(),
            ..Default::default()
        })
    };
    let end = Item::EndOfState(EndOfState {
        position: "p5".into(),
        count: 2,
    });
    let (fake, starts) = scripted(vec![
        (vec![state()], Some(draining(Some("p4")))),
        (vec![state(), state(), end], None),
        (vec![event(6)], None),
    ]);
    let server = fake.serve();
    let start = Some(Start::WithInitialState(WithInitialState {}));
    let mut watch = server.client().watch(WatchEventsRequest {
        start: start.clone(),
        ..Default::default()
    });

    let (items, _) = collect(&mut watch).await;
    let kinds: Vec<_> = items
        .iter()
        .map(|item| match item {
            WatchItem::State(_) => 's',
            WatchItem::StateRestarted => 'r',
            WatchItem::EndOfState(_) => 'e',
            WatchItem::Event(_) => 'v',
            WatchItem::Bookmark(_) | WatchItem::Progress(_) => '?',
        })
        .collect();
    assert_eq!(kinds, ['s', 'r', 's', 's', 'e', 'v']);
    assert_eq!(
        *starts.lock().unwrap(),
        [start.clone(), start, after("p5"), after("p6")]
    );
}

#[tokio::test]
async fn a_compacted_position_is_passed_up() {
    let compacted = Status::with_error_details(
        Code::OutOfRange,
        "compacted",
        ErrorDetails::with_error_info("EVENTS_COMPACTED", "worktree.v1", []),
    );
    let (fake, starts) = scripted(vec![(vec![event(1)], None), (vec![], Some(compacted))]);
    let server = fake.serve();
    let mut watch = server.client().watch(WatchEventsRequest {
        start: after("p0"),
        ..Default::default()
    });
    let (items, error) = collect(&mut watch).await;
    assert_eq!(sequences(&items), [1]);
    assert!(error.is(ErrorReason::EventsCompacted));
    assert_eq!(starts.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_connection_that_breaks_without_a_word_costs_no_event() {
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = starts.clone();
    let fake = Fake::default().streaming(WATCH, move |request: WatchEventsRequest| {
        let mut seen = seen.lock().unwrap();
        seen.push(request.start);
        let item = event(i64::try_from(seen.len()).unwrap());
        let first = futures::stream::iter([Ok(WatchEventsResponse { item: Some(item) })]);
        // One event, and then silence, as a watch has it most of the time.
        let stream: Items<WatchEventsResponse> =
            Box::pin(futures::StreamExt::chain(first, futures::stream::pending()));
        Ok(stream)
    });
    let server = fake.serve();
    let mut wire = Wire::to(&server);
    let mut watch = wire.client().watch(WatchEventsRequest {
        start: after("p0"),
        ..Default::default()
    });
    for sequence in 1..=3 {
        let item = watch.next().await.unwrap();
        assert!(matches!(item, WatchItem::Event(event) if event.sequence == sequence));
        wire.cut().await;
    }
    assert_eq!(
        *starts.lock().unwrap(),
        [after("p0"), after("p1"), after("p2")]
    );
}
