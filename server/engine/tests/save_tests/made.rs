//! Making an engine and a checkout.

use std::path::Path;

use worktree_engine::engine::{Engine, EngineConfig};
use worktree_engine::ids::{CommitId, WorktreeId};
use worktree_engine::model::{Checkout, Unobserved};
use worktree_engine::registration::NewHead;

use crate::support::git;

pub(crate) fn engine(root: &Path) -> Engine {
    let mut config = EngineConfig::new(root, "test");
    config.max_saved_file = 64 << 20;
    Engine::new(config).unwrap()
}

/// A task's checkout on a branch whose first commit is a scaffold.
pub(crate) fn provision(engine: &Engine, repo: &Path, task: &str) -> Checkout {
    let base: CommitId = git(repo, &["rev-parse", "HEAD"]).trim().parse().unwrap();
    let branch = format!("clawboo/task-{task}");
    let scratch = repo.parent().unwrap().join("scaffold");
    git(
        repo,
        &[
            "worktree",
            "add",
            "-q",
            "-b",
            &branch,
            scratch.to_str().unwrap(),
        ],
    );
    crate::support::write(scratch.join("TASK.md"), "# Task\n");
    git(&scratch, &["add", "TASK.md"]);
    git(&scratch, &["commit", "-qm", "scaffold"]);
    let base_commit: CommitId = git(&scratch, &["rev-parse", "HEAD"])
        .trim()
        .parse()
        .unwrap();
    git(repo, &["worktree", "remove", scratch.to_str().unwrap()]);
    let repository = engine.open_repository(repo).unwrap();
    let id = WorktreeId::new();
    let checkout = Checkout {
        id,
        task_id: task.parse().unwrap(),
        namespace: engine.config().namespace.clone(),
        common_dir: repository.common_dir.clone(),
        path: engine.config().root.join(repository.repo_id()).join(task),
        admin_id: id.to_string(),
        branch: branch.parse().unwrap(),
        base_sha: base,
        base_commit,
        sor_dir: "".parse().unwrap(),
        identity: None,
        filter_fingerprint: repository.config.filter_fingerprint(),
    };
    git(
        repo,
        &[
            "update-ref",
            &checkout.base_ref(),
            checkout.base_commit.as_str(),
        ],
    );
    let branch = NewHead::Branch(checkout.branch.clone());
    engine
        .rebuild(&checkout, &branch, &mut Unobserved)
        .unwrap()
        .checkout
}
