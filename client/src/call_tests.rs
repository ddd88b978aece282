#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tonic_types::{ErrorDetails, StatusExt};
use worktree_proto::v1::{
    GetWorktreeRequest, GetWorktreeResponse, PauseWorktreeRequest, PauseWorktreeResponse,
};

use super::*;
use crate::{Client, Deadlines, Endpoint, testing::Fake};

const PAUSE: &str = "/worktree.v1.WorktreeService/PauseWorktree";
const GET: &str = "/worktree.v1.WorktreeService/GetWorktree";

/// A server whose PauseWorktree fails with each of these in turn and then succeeds, and the ids that it saw.
fn failing_with(errors: Vec<Status>) -> (Fake, Arc<Mutex<Vec<String>>>) {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let seen = ids.clone();
    let errors = Mutex::new(errors.into_iter());
    let fake = Fake::default().unary(PAUSE, move |request: PauseWorktreeRequest| {
        seen.lock().unwrap().push(request.request_id);
        errors
            .lock()
            .unwrap()
            .next()
            .map_or_else(|| Ok(PauseWorktreeResponse::default()), Err)
    });
    (fake, ids)
}

fn busy() -> Status {
    let mut details = ErrorDetails::with_error_info("WORKTREE_BUSY", "worktree.v1", []);
    details.set_retry_info(Some(Duration::from_millis(1)));
    Status::with_error_details(Code::Aborted, "busy", details)
}

#[tokio::test]
async fn a_request_id_is_filled_in_and_the_same_on_every_try() {
    let (fake, ids) = failing_with(vec![Status::unavailable("restart"), busy()]);
    let server = fake.serve();
    server
        .client()
        .pause_worktree(PauseWorktreeRequest::default())
        .await
        .unwrap();
    let ids = ids.lock().unwrap().clone();
    assert_eq!(ids.len(), 3);
    assert!(uuid::Uuid::parse_str(&ids[0]).is_ok());
    assert!(ids.iter().all(|id| *id == ids[0]));
}

#[tokio::test]
async fn a_request_id_that_is_given_is_kept() {
    let (fake, ids) = failing_with(vec![]);
    let server = fake.serve();
    let request = PauseWorktreeRequest {
        request_id: "mine".into(),
        ..Default::default()
    };
    server.client().pause_worktree(request).await.unwrap();
    assert_eq!(*ids.lock().unwrap(), ["mine"]);
}

#[tokio::test]
async fn what_will_not_mend_itself_is_not_tried_again() {
    for code in [
        Code::FailedPrecondition,
        Code::Aborted,
        Code::Internal,
        Code::Unknown,
        Code::DeadlineExceeded,
    ] {
        let (fake, ids) = failing_with(vec![Status::new(code, "no")]);
        let server = fake.serve();
        let error = server
            .client()
            .pause_worktree(PauseWorktreeRequest::default())
            .await
            .unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(ids.lock().unwrap().len(), 1, "{code:?}");
    }
}

#[tokio::test]
async fn tries_are_bounded() {
    let (fake, ids) = failing_with((0..9).map(|_| Status::unavailable("down")).collect());
    let server = fake.serve();
    let error = server
        .client()
        .pause_worktree(PauseWorktreeRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(ids.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_method_that_the_contract_does_not_call_safe_is_tried_once() {
    let tries = Mutex::new(0);
    let options = CallOptions {
        path: "/worktree.v1.WorktreeService/Unheard",
        deadline: None,
        retry: RetryPolicy::default(),
    };
    let answer: Result<(), _> = call(options, GetWorktreeRequest::default(), |_| {
        *tries.lock().unwrap() += 1;
        async { Err(Status::unavailable("down")) }
    })
    .await;
    assert_eq!(answer.unwrap_err().code(), Code::Unavailable);
    assert_eq!(*tries.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_deadline_ends_the_reply_and_travels_with_the_call() {
    let options = CallOptions {
        path: GET,
        deadline: Some(Duration::from_millis(20)),
        retry: RetryPolicy::default(),
    };
    let answer: Result<(), _> = call(options, GetWorktreeRequest::default(), |request| {
        assert!(request.metadata().contains_key("grpc-timeout"));
        std::future::pending()
    })
    .await;
    assert_eq!(answer.unwrap_err().code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_wait_that_outlasts_the_deadline_gives_the_error_at_once() {
    let mut details = ErrorDetails::new();
    details.set_retry_info(Some(Duration::from_secs(3600)));
    let full = Status::with_error_details(Code::ResourceExhausted, "full", details);
    let (fake, ids) = failing_with(vec![full]);
    let server = fake.serve();
    let deadlines = Deadlines {
        read: None,
        write: Some(Duration::from_secs(60)),
    };
    let client = server.client().with_deadlines(deadlines);
    let error = client
        .pause_worktree(PauseWorktreeRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted);
    assert_eq!(ids.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable() {
    let directory = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::Unix(directory.path().join("none.sock"));
    let client = Client::new(&endpoint).with_retry(RetryPolicy::never());
    let error = client
        .get_worktree(GetWorktreeRequest::default())
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.is_retryable());
}

#[tokio::test]
async fn reads_carry_no_id_and_answer() {
    let fake = Fake::default().unary(GET, |_: GetWorktreeRequest| {
        Ok(GetWorktreeResponse::default())
    });
    let server = fake.serve();
    assert!(
        server
            .client()
            .get_worktree(GetWorktreeRequest::default())
            .await
            .unwrap()
            .worktree
            .is_none()
    );
}

#[tokio::test]
async fn an_answer_lost_with_its_connection_is_asked_for_again_with_the_same_id() {
    let (arrived, mut arrivals) = tokio::sync::mpsc::unbounded_channel();
    let answered_before = AtomicBool::new(false);
    let fake = Fake::default().unary_async(PAUSE, move |request: PauseWorktreeRequest| {
        arrived.send(request.request_id).unwrap();
        // The first answer never comes; the connection is cut meanwhile.
        let lost = !answered_before.swap(true, Ordering::SeqCst);
        async move {
            if lost {
                std::future::pending::<()>().await;
            }
            Ok(PauseWorktreeResponse {
                committed: true,
                ..Default::default()
            })
        }
    });
    let server = fake.serve();
    let mut wire = crate::testing::Wire::to(&server);
    let client = wire.client();
    let call =
        tokio::spawn(async move { client.pause_worktree(PauseWorktreeRequest::default()).await });
    let first = arrivals.recv().await.unwrap();
    wire.cut().await;
    assert!(call.await.unwrap().unwrap().committed);
    assert_eq!(arrivals.recv().await.unwrap(), first);
}
