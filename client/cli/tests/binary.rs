//! The binary as scripts and people run it, against a server that answers the same every time.
#![allow(clippy::unwrap_used, missing_docs)]

use std::{
    path::PathBuf,
    pin::Pin,
    process::{Command, Output, Stdio},
};

use futures::Stream;
use serde_json::Value;
use tokio::{net::UnixListener, task::JoinHandle};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt};
use worktree_proto::v1::{
    self, CollectGarbageResponse, Event, EventKind, GcItem, GcReason, GcSummary, GcVerdict,
    WatchEventsResponse, WorktreeKey, collect_garbage_response::Part, event_service_server,
    maintenance_service_server, watch_events_response::Item,
};

type Items<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

struct Fake;

#[tonic::async_trait]
impl maintenance_service_server::MaintenanceService for Fake {
    type CollectGarbageStream = Items<CollectGarbageResponse>;

    async fn collect_garbage(
        &self,
        request: Request<v1::CollectGarbageRequest>,
    ) -> Result<Response<Self::CollectGarbageStream>, Status> {
        let dry_run = request.into_inner().dry_run;
        let item = GcItem {
            key: Some(WorktreeKey {
                repo: "/r".into(),
                task_id: "old".into(),
            }),
            verdict: if dry_run {
                GcVerdict::WouldReap
            } else {
                GcVerdict::Reaped
            }
            .into(),
            reason: GcReason::Age.into(),
            ..Default::default()
        };
        let summary = GcSummary {
            reaped: 1,
            dry_run,
            ..Default::default()
        };
        let parts = [Part::Item(item), Part::Summary(summary)];
        let parts = parts.map(|part| Ok(CollectGarbageResponse { part: Some(part) }));
        Ok(Response::new(Box::pin(futures::stream::iter(parts))))
    }

    async fn reconcile(
        &self,
        request: Request<v1::ReconcileRequest>,
    ) -> Result<Response<v1::ReconcileResponse>, Status> {
        let metadata =
            std::collections::HashMap::from([("repo".to_owned(), request.into_inner().repo)]);
        let details =
            ErrorDetails::with_error_info("REPOSITORY_NOT_FOUND", "worktree.v1", metadata);
        Err(Status::with_error_details(
            Code::NotFound,
            "no such repository",
            details,
        ))
    }

    async fn get_server_info(
        &self,
        _: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        Ok(Response::new(v1::GetServerInfoResponse {
            version: "9.8.7".into(),
            ..Default::default()
        }))
    }
}

#[tonic::async_trait]
impl event_service_server::EventService for Fake {
    type WatchEventsStream = Items<WatchEventsResponse>;

    async fn watch_events(
        &self,
        _: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let event = |sequence| Event {
            position: format!("p{sequence}"),
            sequence,
            kind: EventKind::HandedOff.into(),
            ..Default::default()
        };
        let events = (1..).map(move |sequence| {
            Ok(WatchEventsResponse {
                item: Some(Item::Event(event(sequence))),
            })
        });
        Ok(Response::new(Box::pin(futures::stream::iter(events))))
    }

    async fn list_events(
        &self,
        _: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        Err(Status::unimplemented("not in this test"))
    }
}

struct Server {
    socket: PathBuf,
    task: JoinHandle<()>,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("fake.sock");
        let incoming = UnixListenerStream::new(UnixListener::bind(&socket).unwrap());
        let server = tonic::transport::Server::builder()
            .add_service(maintenance_service_server::MaintenanceServiceServer::new(
                Fake,
            ))
            .add_service(event_service_server::EventServiceServer::new(Fake))
            .serve_with_incoming(incoming);
        let task = tokio::spawn(async move { server.await.unwrap() });
        Self {
            socket,
            task,
            _directory: directory,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_worktreectl"));
        command
            .args(arguments)
            .env_clear()
            .env(
                "WORKTREED_ENDPOINT",
                format!("unix:{}", self.socket.display()),
            )
            .stdin(Stdio::null());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    bytes
        .split_inclusive(|&byte| byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_a_table_for_people_and_one_object_for_scripts() {
    let server = Server::start();
    let people = server.run(&["info"]).await;
    assert!(text(&people.stdout).starts_with("version"), "{people:?}");
    let scripts = server.run(&["info", "--json"]).await;
    let objects = lines(&scripts.stdout);
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["version"], "9.8.7");
    assert!(
        scripts.status.success() && scripts.stderr.is_empty(),
        "{scripts:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_is_one_line_a_worktree_and_its_counts() {
    let server = Server::start();
    let people = server.run(&["gc", "--all-repos", "--dry-run"]).await;
    assert_eq!(
        text(&people.stdout),
        "would_reap  age                     old\n1 would be reaped, 0 skipped, 0 failed\n"
    );
    assert!(
        people.stderr.is_empty(),
        "a bar was drawn where there is no terminal: {people:?}"
    );
    let scripts = lines(&server.run(&["--json", "gc"]).await.stdout);
    assert_eq!(scripts[0]["item"]["verdict"], "GC_VERDICT_REAPED");
    assert_eq!(scripts[1]["summary"]["reaped"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_gives_the_exit_code_of_its_class_and_its_reason() {
    let server = Server::start();
    let people = server.run(&["reconcile", "--repo", "/nowhere"]).await;
    assert_eq!(people.status.code(), Some(3));
    assert_eq!(
        text(&people.stderr),
        "error: no such repository (REPOSITORY_NOT_FOUND)\n  repo: /nowhere\n"
    );
    let scripts = server
        .run(&["--json", "reconcile", "--repo", "/nowhere"])
        .await;
    assert_eq!(scripts.status.code(), Some(3));
    assert_eq!(
        lines(&scripts.stderr)[0]["error"]["reason"],
        "REPOSITORY_NOT_FOUND"
    );
    assert!(scripts.stdout.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_prints_one_object_a_line_and_ends_at_its_count() {
    let server = Server::start();
    let output = server.run(&["--json", "watch", "--count", "2"]).await;
    assert!(output.status.success(), "{output:?}");
    let sequences: Vec<_> = lines(&output.stdout)
        .iter()
        .map(|line| line["event"]["sequence"].clone())
        .collect();
    assert_eq!(sequences, [1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_has_seen_enough_is_no_error() {
    let server = Server::start();
    let mut child = server
        .command(&["watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap())
        .await
        .unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn a_server_that_is_not_there_ends_with_7_and_says_where_it_was_looked_for() {
    let output = Command::new(env!("CARGO_BIN_EXE_worktreectl"))
        .args(["info", "--endpoint", "unix:/nonexistent/worktreed.sock"])
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(
        text(&output.stderr).contains("/nonexistent/worktreed.sock"),
        "{output:?}"
    );
}
