//! The process: its socket, its health, its end, its configuration.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use rustix::process::Signal;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};
use worktreed_client::{
    Client, Code,
    proto::{self as v1, ErrorReason},
};

use crate::{
    events,
    repo::write,
    scene::{PATIENCE, Scene, Start, bare_command, directory, finish, refused_start, text},
    task::{Task, at},
};

#[tokio::test]
async fn the_socket_is_private_and_health_and_reflection_answer() {
    let scene = Scene::new().await;
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(scene.server.socket()), 0o600);
    assert_eq!(mode(&scene.path().join("state")), 0o700);
    let channel = scene.server.channel(|endpoint| endpoint).await.unwrap();
    let mut health = HealthClient::new(channel.clone());
    for service in ["", "worktree.v1.WorktreeService"] {
        let status = health
            .check(HealthCheckRequest {
                service: service.to_owned(),
            })
            .await
            .unwrap()
            .into_inner()
            .status();
        assert_eq!(status, ServingStatus::Serving, "{service:?}");
    }
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = ServerReflectionClient::new(channel)
        .server_reflection_info(tokio_stream::once(request))
        .await
        .unwrap()
        .into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list")
    };
    let names: Vec<_> = list
        .service
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    for service in [
        "WorktreeService",
        "LeaseService",
        "HandoffService",
        "ReviewService",
        "EventService",
        "MaintenanceService",
    ] {
        assert!(
            names.contains(&format!("worktree.v1.{service}").as_str()),
            "{service} is not in {names:?}"
        );
    }
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let mut scene = Scene::new().await;
    let info = scene
        .client
        .get_server_info(v1::GetServerInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(info.namespace, "clawboo");
    assert!(info.git_version.starts_with("2."), "{}", info.git_version);
    assert_eq!(info.state_dir, scene.path().join("state").to_str().unwrap());
    let limits = info.limits.unwrap();
    assert_eq!(
        (
            limits.page_size_default,
            limits.page_size_max,
            limits.title_max_chars,
            limits.text_max_chars
        ),
        (100, 1_000, 200, 65_536)
    );
    assert_eq!(limits.lease_ttl_default.unwrap().seconds, 60);
    assert!(
        info.warnings
            .iter()
            .any(|one| one.contains("tmp") || one.contains("temporary")),
        "b10: {:?}",
        info.warnings
    );
    scene.restart(Start::default()).await;
    let again = scene
        .client
        .get_server_info(v1::GetServerInfoRequest {})
        .await
        .unwrap();
    assert_eq!(
        again.instance_id, info.instance_id,
        "the same over restarts"
    );
}

#[tokio::test]
async fn sigterm_ends_the_server_well_and_soon() {
    let mut scene = Scene::new().await;
    scene.task("t1").provision().await;
    let (status, took) = scene.server.sigterm().await;
    assert!(status.success(), "{status}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(!scene.server.socket().exists(), "the socket is gone");
    scene.restart(Start::default()).await;
    scene.task("t1").get().await;
}

#[tokio::test]
async fn m9_watches_end_with_their_position_when_the_server_drains() {
    let mut scene = Scene::new().await;
    let mut streams = Vec::new();
    for _ in 0..10 {
        let request = v1::WatchEventsRequest {
            start: Some(v1::watch_events_request::Start::FromBeginning(
                v1::FromBeginning {},
            )),
            ..Default::default()
        };
        streams.push(scene.server.client().watch_events(request).await.unwrap());
    }
    scene.task("t1").provision().await;
    let end = events::end_of_log(&scene.client).await;
    for stream in &mut streams {
        for _ in 0..2 {
            stream.message().await.unwrap().unwrap();
        }
    }
    scene.server.signal(Signal::TERM);
    for stream in &mut streams {
        let error = loop {
            match tokio::time::timeout(PATIENCE, stream.message())
                .await
                .unwrap()
            {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a watch never ends well"),
                Err(error) => break error,
            }
        };
        assert_eq!(
            (error.code(), error.reason()),
            (Code::Unavailable, Some(ErrorReason::ServerDraining)),
            "{error}"
        );
        assert_eq!(error.metadata().get("position"), Some(&end));
    }
    assert!(scene.server.wait().await.success());
}

#[tokio::test]
async fn a_mutation_that_runs_when_the_end_is_asked_for_is_finished_or_not_begun() {
    let mut scene = Scene::with(100, Start::default()).await;
    let tasks: Vec<Task> = (0..6)
        .map(|number| scene.task(&format!("t{number}")))
        .collect();
    let running: Vec<_> = tasks
        .into_iter()
        .map(|task| {
            let client = scene
                .server
                .client()
                .with_retry(worktreed_client::RetryPolicy::never());
            tokio::spawn(async move { task.by(&client).try_provision(|_| {}).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let (status, _) = scene.server.sigterm().await;
    assert!(status.success(), "{status}");
    let mut made = Vec::new();
    for (number, answer) in running.into_iter().enumerate() {
        if answer.await.unwrap().is_ok() {
            made.push(format!("t{number}"));
        }
    }
    scene.restart(Start::default()).await;
    for name in &made {
        assert!(
            at(&scene.task(name).get().await, "TASK.md").exists(),
            "{name} was answered, so it is there"
        );
    }
    let listed = scene
        .client
        .list_worktrees(v1::ListWorktreesRequest::default())
        .await
        .unwrap()
        .worktrees;
    assert_eq!(scene.repo.registered().len(), listed.len() + 1);
}

#[tokio::test]
async fn only_loopback_is_listened_on() {
    let directory = directory();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:7420"] {
        let said = text(&refused_start(
            directory.path(),
            &Start::default().arg("--listen").arg(address),
        ));
        assert!(said.to_lowercase().contains("loopback"), "{said}");
    }
}

#[tokio::test]
async fn tcp_on_loopback_serves_too() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let scene = Scene::with(3, Start::default().arg("--listen").arg(free.to_string())).await;
    let client = Client::new(&format!("http://{free}").parse().unwrap());
    client
        .get_server_info(v1::GetServerInfoRequest {})
        .await
        .unwrap();
    Task::new(&client, &scene.repo.path, "t1").provision().await;
}

#[test]
fn plain_worktreed_prints_help_and_config_says_where_each_value_comes_from() {
    let directory = directory();
    let help = finish(bare_command(directory.path(), None));
    let said = text(&help);
    for word in ["serve", "config", "demo"] {
        assert!(said.contains(word), "{said}");
    }
    let mut command = bare_command(directory.path(), None);
    command.arg("config").env("WORKTREED_NAMESPACE", "from-env");
    let output = finish(command);
    let said = text(&output);
    assert!(
        output.status.success() && said.contains("from-env"),
        "{said}"
    );
    assert!(said.to_lowercase().contains("env"), "{said}");
    let home = directory.path().join("home/.local/state/worktreed");
    assert!(
        said.contains(home.to_str().unwrap()),
        "b10: state is kept in the home directory by default: {said}"
    );
    assert!(!home.exists(), "a look makes nothing");
}

#[tokio::test]
async fn another_namespace_names_branches_messages_and_refs() {
    let scene = Scene::with(3, Start::default().arg("--namespace").arg("crew")).await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    assert_eq!(worktree.branch, "crew/task-t1");
    write(at(&worktree, "x.txt"), "x\n");
    task.pause(0).await.unwrap();
    assert_eq!(
        scene
            .repo
            .git(&["log", "-1", "--format=%s", "crew/task-t1"]),
        "crew: pause"
    );
    let removed = task
        .remove_with(|request| request.discard_changes = true)
        .await
        .unwrap();
    assert!(
        removed.recovery_point.starts_with("refs/crew/recovery/"),
        "{}",
        removed.recovery_point
    );
}
