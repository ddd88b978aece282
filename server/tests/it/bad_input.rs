//! Requests that are wrong: the right code, the reason, the field named, and nothing changed.

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, Isolation, provision_worktree_request::Base},
};

use crate::{
    events,
    repo::{Bystanders, tree},
    scene::Scene,
    task::{Task, assert_state, handoff, metadata, refused, refused_field},
};

/// What a refused call must leave as it was.
struct Traces {
    events: usize,
    refs: String,
    registered: Vec<String>,
    root: Vec<String>,
    bystanders: Bystanders,
}

impl Traces {
    async fn of(scene: &Scene) -> Self {
        let root = scene
            .client
            .get_server_info(v1::GetServerInfoRequest {})
            .await
            .unwrap()
            .worktree_root;
        Self {
            events: events::log(&scene.client).await.len(),
            refs: scene.repo.refs(),
            registered: scene.repo.registered(),
            root: tree(std::path::Path::new(&root)),
            bystanders: scene.repo.bystanders(),
        }
    }

    async fn assert_same(&self, scene: &Scene) {
        let after = Self::of(scene).await;
        assert_eq!(
            (self.events, &self.refs, &self.registered, &self.root),
            (after.events, &after.refs, &after.registered, &after.root)
        );
        self.bystanders.assert_same(&after.bystanders);
    }
}

async fn scaffold(
    task: &Task,
    scaffold: v1::Scaffold,
) -> Result<v1::ProvisionWorktreeResponse, worktreed_client::Error> {
    task.try_provision(|request| request.scaffold = Some(scaffold))
        .await
}

#[tokio::test]
async fn texts_that_are_too_long_are_refused_by_field() {
    let scene = Scene::new().await;
    let before = Traces::of(&scene).await;
    let task = scene.task("t1");
    let long = |count: usize| "x".repeat(count);
    let one = v1::Scaffold {
        title: long(1 << 20),
        ..Default::default()
    };
    refused_field(scaffold(&task, one).await, "scaffold.title");
    let one = v1::Scaffold {
        title: long(201),
        ..Default::default()
    };
    refused_field(scaffold(&task, one).await, "scaffold.title");
    let one = v1::Scaffold {
        description: long(65_537),
        ..Default::default()
    };
    refused_field(scaffold(&task, one).await, "scaffold.description");
    let one = v1::Scaffold {
        acceptance_criteria: vec![String::new(); 1_001],
        ..Default::default()
    };
    assert_eq!(
        scaffold(&task, one).await.unwrap_err().code(),
        Code::InvalidArgument
    );
    let commands = Some(v1::ScaffoldCommands {
        verify: long(65_537),
        ..Default::default()
    });
    refused_field(
        scaffold(
            &task,
            v1::Scaffold {
                commands,
                ..Default::default()
            },
        )
        .await,
        "scaffold.commands.verify",
    );
    refused_field(
        task.try_provision(|request| request.kind = long(65)).await,
        "kind",
    );
    refused_field(
        task.try_provision(|request| request.display_name = long(201))
            .await,
        "display_name",
    );
    refused_field(
        task.try_provision(|request| request.labels = [(long(64), String::new())].into())
            .await,
        "labels",
    );
    before.assert_same(&scene).await;
    // A title of many bytes and few characters is fine.
    let one = v1::Scaffold {
        title: "☃".repeat(200),
        ..Default::default()
    };
    scaffold(&task, one).await.unwrap();
}

#[tokio::test]
async fn bases_that_do_not_resolve_or_look_like_options_are_refused() {
    let scene = Scene::new().await;
    let before = Traces::of(&scene).await;
    let task = scene.task("t1");
    let blob = scene.repo.git(&["rev-parse", "HEAD:README.md"]);
    let with = |base: Base| task.try_provision(|request| request.base = Some(base));
    let missing = "f".repeat(40);
    for name in [
        "no-such-branch",
        "HEAD~100",
        "refs/heads/none",
        blob.as_str(),
        missing.as_str(),
    ] {
        let error = with(Base::BaseRef(name.to_owned())).await.unwrap_err();
        assert!(
            matches!(
                error.reason(),
                Some(ErrorReason::BaseNotFound | ErrorReason::InvalidField)
            ),
            "{name}: {error}"
        );
    }
    let error = refused(
        with(Base::BaseSha(missing.clone())).await,
        Code::NotFound,
        ErrorReason::BaseNotFound,
    );
    assert_eq!(metadata(&error, "base"), missing);
    refused(
        with(Base::BaseSha(blob)).await,
        Code::NotFound,
        ErrorReason::BaseNotFound,
    );
    for name in ["--all", "-q", "--output=/tmp/x", "--end-of-options"] {
        let error = with(Base::BaseRef(name.to_owned())).await.unwrap_err();
        assert!(
            matches!(
                error.reason(),
                Some(ErrorReason::BaseNotFound | ErrorReason::InvalidField)
            ),
            "{name}: {error}"
        );
    }
    for sha in [
        "",
        "abc",
        &"F".repeat(40),
        &"g".repeat(40),
        &"a".repeat(41),
        "HEAD",
    ] {
        refused_field(with(Base::BaseSha(sha.to_owned())).await, "base_sha");
    }
    refused_field(with(Base::BaseRef("x".repeat(1_025))).await, "base_ref");
    refused_field(with(Base::BasePolicy(99)).await, "base_policy");
    before.assert_same(&scene).await;
}

#[tokio::test]
async fn tasks_that_need_no_worktree_and_isolation_that_is_not_made_are_refused() {
    let scene = Scene::new().await;
    let before = Traces::of(&scene).await;
    let task = scene.task("t1");
    for kind in ["research", "review"] {
        let answer = task
            .try_provision(|request| request.kind = kind.to_owned())
            .await;
        let error = refused(
            answer,
            Code::InvalidArgument,
            ErrorReason::TaskNeedsNoWorktree,
        );
        assert_eq!(metadata(&error, "kind"), kind);
    }
    let answer = task
        .try_provision(|request| request.isolation = Isolation::Container.into())
        .await;
    refused(
        answer,
        Code::InvalidArgument,
        ErrorReason::IsolationNotProvisioned,
    );
    refused_field(
        task.try_provision(|request| request.isolation = 77).await,
        "isolation",
    );
    for directory in [
        "/abs",
        "..",
        "a/../b",
        "a//b",
        "a/b/c/d/e",
        ".git",
        "a/.git",
        "-x\n",
        "a\\b",
    ] {
        refused_field(
            task.try_provision(|request| request.sor_dir = directory.to_owned())
                .await,
            "sor_dir",
        );
    }
    refused_field(
        task.try_provision(|request| request.request_id = "not-a-uuid".to_owned())
            .await,
        "request_id",
    );
    before.assert_same(&scene).await;
    let made = task
        .try_provision(|request| request.kind = "gardening".to_owned())
        .await
        .unwrap();
    assert_eq!(
        made.worktree.unwrap().kind,
        "gardening",
        "an unknown kind counts as code"
    );
}

#[tokio::test]
async fn a_missing_key_and_an_unknown_worktree_are_told_apart() {
    let scene = Scene::new().await;
    let before = Traces::of(&scene).await;
    let client = &scene.client;
    refused_field(
        client
            .provision_worktree(v1::ProvisionWorktreeRequest::default())
            .await,
        "key",
    );
    refused_field(
        client.get_worktree(v1::GetWorktreeRequest::default()).await,
        "name",
    );
    refused_field(
        client
            .pause_worktree(v1::PauseWorktreeRequest::default())
            .await,
        "key",
    );
    refused_field(
        client
            .acquire_lease(v1::AcquireLeaseRequest::default())
            .await,
        "key",
    );
    refused_field(
        Task::new(client, std::path::Path::new(""), "t1")
            .try_get()
            .await,
        "key.repo",
    );
    let by_id = |id: &str| {
        client.get_worktree(v1::GetWorktreeRequest {
            name: Some(v1::get_worktree_request::Name::Id(id.to_owned())),
        })
    };
    refused_field(by_id("not-a-uuid").await, "id");
    refused(
        by_id("01890a5d-ac96-774b-bcce-b302099a8057").await,
        Code::NotFound,
        ErrorReason::WorktreeNotFound,
    );

    let task = scene.task("unknown");
    let (code, reason) = (Code::NotFound, ErrorReason::WorktreeNotFound);
    let error = refused(task.try_get().await, code, reason);
    assert_eq!(metadata(&error, "task_id"), "unknown");
    refused(task.acquire("anna").await, code, reason);
    refused(task.renew(1).await, code, reason);
    refused(task.release(1).await, code, reason);
    refused(task.checkpoint(0).await, code, reason);
    refused(task.pause(0).await, code, reason);
    refused(task.resume().await, code, reason);
    refused(task.complete(0).await, code, reason);
    refused(task.remove_with(|_| {}).await, code, reason);
    refused(task.write_handoff(0, handoff("go")).await, code, reason);
    refused(task.get_handoff().await, code, reason);
    refused(task.resume_state("").await, code, reason);
    refused(task.scaffold().await, code, reason);
    refused(task.diff_stat().await, code, reason);
    refused(task.review("rita", |_| {}).await, code, reason);
    before.assert_same(&scene).await;
}

#[tokio::test]
async fn wrong_lease_requests_are_refused_by_field() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let before = Traces::of(&scene).await;
    refused_field(task.acquire("").await, "holder");
    refused_field(task.acquire(&"h".repeat(201)).await, "holder");
    refused_field(
        task.acquire_with("anna", |request| request.runtime = "r".repeat(65))
            .await,
        "runtime",
    );
    for seconds in [-1, 0, 4, 86_401, i64::MAX] {
        let ttl = Some(prost_types::Duration { seconds, nanos: 0 });
        refused_field(
            task.acquire_with("anna", |request| request.ttl = ttl).await,
            "ttl",
        );
    }
    refused_field(task.renew(0).await, "lease_epoch");
    refused_field(task.release(-1).await, "lease_epoch");
    refused_field(task.checkpoint(-1).await, "lease_epoch");
    let process = Some(v1::HolderProcess {
        pid: 0,
        ..Default::default()
    });
    refused_field(
        task.acquire_with("anna", |request| request.holder_process = process)
            .await,
        "holder_process.pid",
    );
    let stale = task
        .pause_with(|request| request.etag = "stale".to_owned())
        .await;
    let error = refused(stale, Code::Aborted, ErrorReason::EtagMismatch);
    assert_eq!(metadata(&error, "etag"), task.get().await.etag);
    refused_field(task.pause_with(|request| request.save = 42).await, "save");
    before.assert_same(&scene).await;
    assert_state(&task.get().await, v1::WorktreeState::Provisioned);
}
