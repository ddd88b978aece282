//! Lists: of worktrees and of branches.

use worktreed_client::proto::{self as v1, WorktreeState};

use crate::{
    repo::Repo,
    scene::Scene,
    task::{Task, at},
};

async fn names(scene: &Scene, request: v1::ListWorktreesRequest) -> Vec<String> {
    let listed = scene
        .client
        .list_worktrees(request)
        .await
        .unwrap()
        .worktrees;
    listed
        .into_iter()
        .map(|one| one.key.unwrap().task_id)
        .collect()
}

#[tokio::test]
async fn worktrees_are_listed_by_repository_and_state_the_newest_first() {
    let scene = Scene::new().await;
    let other = Repo::with_files(&scene.path().join("repos/other"), 2);
    for name in ["a", "b", "c"] {
        scene.task(name).provision().await;
    }
    Task::new(&scene.client, &other.path, "d").provision().await;
    scene.task("a").pause(0).await.unwrap();
    scene.task("b").complete(0).await.unwrap();
    let of = |repo: &Repo| repo.path.to_str().unwrap().to_owned();
    assert_eq!(
        names(&scene, v1::ListWorktreesRequest::default()).await,
        ["d", "c", "a"]
    );
    let here = v1::ListWorktreesRequest {
        repo: of(&scene.repo),
        ..Default::default()
    };
    assert_eq!(names(&scene, here).await, ["c", "a"]);
    let paused = v1::ListWorktreesRequest {
        states: vec![WorktreeState::Paused.into()],
        ..Default::default()
    };
    assert_eq!(names(&scene, paused).await, ["a"]);
    let ended = v1::ListWorktreesRequest {
        repo: of(&scene.repo),
        states: vec![WorktreeState::DoneClean.into()],
        ..Default::default()
    };
    assert_eq!(names(&scene, ended).await, ["b"]);
}

#[tokio::test]
async fn branches_are_listed_with_what_is_known_of_each() {
    let scene = Scene::new().await;
    let worktree = scene.task("t1").provision().await;
    scene.repo.git(&["branch", "zeta"]);
    let request = v1::ListBranchesRequest {
        repo: scene.repo.path.to_str().unwrap().to_owned(),
        ..Default::default()
    };
    let branches = scene.client.list_branches(request).await.unwrap().branches;
    let names: Vec<_> = branches.iter().map(|branch| branch.name.as_str()).collect();
    assert_eq!(names, ["clawboo/task-t1", "main", "zeta"]);
    assert_eq!(
        (
            branches[0].owned,
            branches[0].task_id.as_str(),
            branches[0].current
        ),
        (true, "t1", false)
    );
    assert_eq!(
        (
            branches[0].head.as_str(),
            branches[0].checked_out_path.as_str()
        ),
        (worktree.head.as_str(), worktree.path.as_str())
    );
    assert_eq!(
        (
            branches[1].owned,
            branches[1].current,
            branches[1].checked_out_path.as_str()
        ),
        (false, true, scene.repo.path.to_str().unwrap())
    );
    assert_eq!(
        (branches[2].current, branches[2].checked_out_path.as_str()),
        (false, "")
    );
    assert!(branches.iter().all(|branch| branch.commit_time.is_some()));
}

#[tokio::test]
async fn reconcile_tells_what_is_amiss_and_deletes_nothing() {
    let scene = Scene::new().await;
    let gone = scene.task("gone").provision().await;
    let whole = scene.task("whole").provision().await;
    std::fs::remove_dir_all(&gone.path).unwrap();
    let stranger = std::path::Path::new(&gone.path).with_file_name("stranger");
    crate::repo::write(stranger.join("k.txt"), "k\n");
    let findings = scene
        .client
        .reconcile(v1::ReconcileRequest::default())
        .await
        .unwrap()
        .findings;
    let kinds: Vec<_> = findings.iter().map(v1::ReconcileFinding::kind).collect();
    assert!(
        kinds.contains(&v1::ReconcileFindingKind::DirectoryMissing),
        "{findings:?}"
    );
    assert!(
        kinds.contains(&v1::ReconcileFindingKind::UnknownDirectory),
        "{findings:?}"
    );
    assert!(stranger.join("k.txt").exists() && at(&whole, "README.md").exists());
    assert!(scene.repo.tip("clawboo/task-gone").is_some());
}
