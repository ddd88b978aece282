//! A server that is killed at instants that nobody chose.

use uuid::Uuid;
use worktreed_client::{Error, RetryPolicy, proto::ProvisionWorktreeResponse};

use crate::{
    crash::residue,
    events,
    repo::git,
    scene::{Scene, Server, Start},
    task::{Task, at},
};

async fn provision(task: &Task, request_id: String) -> Result<ProvisionWorktreeResponse, Error> {
    task.try_provision(|request| request.request_id = request_id)
        .await
}

/// A server that is killed again and again while it works converges all the same.
#[tokio::test]
async fn a_server_killed_at_any_time_converges() {
    let mut scene = Scene::with(5, Start::default()).await;
    let before = scene.repo.bystanders();
    for round in 0..6_u64 {
        let id = Uuid::now_v7().to_string();
        let task_id = format!("t{round}");
        let task = scene
            .task(&task_id)
            .by(&scene.client.clone().with_retry(RetryPolicy::never()));
        let (call, request_id) = (task.clone(), id.clone());
        let running = tokio::spawn(async move { provision(&call, request_id).await });
        // Wherever the server stands after a while that differs from round to round.
        tokio::time::sleep(std::time::Duration::from_millis(4 * round)).await;
        scene.server.kill9();
        drop(running.await);
        scene.server = Server::start(scene.directory.path(), Start::default()).await;
        scene.client = scene.server.client();
        provision(&scene.task(&task_id), id).await.unwrap();
        let worktree = scene.task(&task_id).get().await;
        assert_eq!(git(&at(&worktree, ""), &["status", "--porcelain"]), "");
    }
    before.assert_same(&scene.repo.bystanders());
    assert_eq!(scene.repo.registered().len(), 7);
    residue(&scene.repo.path.join(".git"), "after six kills");
    events::log(&scene.client).await;
}
