//! Fifty watchers, reconnects at random, and a server that is killed in the middle.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
};

use futures::future::join_all;
use worktreed_client::{
    Client, RetryPolicy,
    proto::{self as v1, Event, watch_events_request::Start},
};

use crate::{
    events::{assert_contiguous, log, next_event, watch_from},
    scene::{Scene, Server, Start as ServerStart},
};

const WATCHERS: u64 = 50;
/// The task whose making says that there is no more to come.
const LAST: &str = "last";

/// A number that looks random and is the same in every run.
fn chance(watcher: u64, step: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    (watcher, step).hash(&mut hasher);
    hasher.finish()
}

/// Watches from the beginning until the last event, and breaks off now and then to go on over a new connection.
async fn watcher(endpoint: worktreed_client::Endpoint, number: u64) -> Vec<Event> {
    let patient = RetryPolicy {
        max_attempts: 400,
        initial_backoff: std::time::Duration::from_millis(20),
        max_backoff: std::time::Duration::from_millis(50),
    };
    let connect = || Client::new(&endpoint).with_retry(patient);
    let mut seen: Vec<Event> = Vec::new();
    let mut watch = watch_from(&connect(), Start::FromBeginning(v1::FromBeginning {}));
    loop {
        let event = next_event(&mut watch).await;
        let last = event.key.as_ref().is_some_and(|key| key.task_id == LAST)
            && event.kind() == v1::EventKind::Provisioned;
        seen.push(event);
        if last {
            return seen;
        }
        if chance(number, seen.len()).is_multiple_of(7) {
            let position = seen.last().unwrap().position.clone();
            watch = watch_from(&connect(), Start::After(position));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_watchers_see_every_event_once_through_reconnects_and_a_killed_server() {
    let mut scene = Scene::new().await;
    scene.task("t1").provision().await;
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|number| tokio::spawn(watcher(scene.server.endpoint(), number)))
        .collect();
    for round in 0..3 {
        for _ in 0..12 {
            let task = scene.task("t1");
            let epoch = task.clock_in("anna").await;
            task.release(epoch).await.unwrap();
        }
        // The middle: with a mutation under way, so that the log ends wherever it ends.
        let task = scene
            .task(&format!("cut{round}"))
            .by(&scene.client.clone().with_retry(RetryPolicy::never()));
        let cut = tokio::spawn(async move { task.try_provision(|_| {}).await.is_ok() });
        tokio::task::yield_now().await;
        scene.server.kill9();
        drop(cut.await);
        scene.server = Server::start(scene.directory.path(), ServerStart::default()).await;
        scene.client = scene.server.client();
    }
    scene.task(LAST).provision().await;
    let complete = log(&scene.client).await;
    let complete: Vec<_> = complete
        .into_iter()
        .map(|event| (event.sequence, event.position, event.kind))
        .collect();
    for (number, seen) in join_all(watchers).await.into_iter().enumerate() {
        let seen = seen.unwrap();
        assert_contiguous(&seen);
        assert_eq!(seen[0].sequence, 1);
        let seen: Vec<_> = seen
            .into_iter()
            .map(|event| (event.sequence, event.position, event.kind))
            .collect();
        assert_eq!(seen, complete[..seen.len()], "watcher {number}");
    }
}
