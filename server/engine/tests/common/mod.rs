//! Scenes for the engine's tests: real repositories in temporary directories, shut off from the user's configuration.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    missing_debug_implementations,
    clippy::unwrap_used
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use worktree_engine::ids::{SorDir, TaskId, WorktreeId};
use worktree_engine::materialise::Provisioned;
use worktree_engine::model::{Checkout, Unobserved};
use worktree_engine::provision::{Base, ProvisionRequest};
use worktree_engine::repository::Repository;
use worktree_engine::sor::ScaffoldRequest;
use worktree_engine::{Engine, EngineConfig, Result};

/// A repository, and an engine whose root is beside it.
pub struct Scene {
    pub directory: tempfile::TempDir,
    pub repo: PathBuf,
    pub engine: Engine,
}

/// git as a user would run it, without the machine's configuration.
pub fn git_command(at: &Path) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(at)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org");
    command
}

/// Runs git and gives its output; fails the test if git fails.
pub fn git(at: &Path, arguments: &[&str]) -> String {
    let output = git_command(at).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// Whether git succeeds.
pub fn git_succeeds(at: &Path, arguments: &[&str]) -> bool {
    git_command(at)
        .args(arguments)
        .output()
        .unwrap()
        .status
        .success()
}

impl Scene {
    /// A repository with one commit of a few files.
    pub fn new() -> Self {
        Self::with(&["init", "-q", "-b", "main"])
    }

    /// The same, made by another `git init`.
    pub fn with(init: &[&str]) -> Self {
        Self::named("repo", init)
    }

    /// The same at another name.
    pub fn named(name: &str, init: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repo = directory.path().join(name);
        std::fs::create_dir_all(&repo).unwrap();
        git(&repo, init);
        std::fs::write(repo.join("a.txt"), "one\ntwo\n").unwrap();
        std::fs::create_dir(repo.join("src")).unwrap();
        std::fs::write(repo.join("src/lib.rs"), "fn main() {}\n").unwrap();
        std::fs::write(repo.join(".gitignore"), "target/\n*.log\n.env\n").unwrap();
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-q", "-m", "first"]);
        let repo = repo.canonicalize().unwrap();
        let engine = engine(&directory.path().join("root"));
        Self {
            directory,
            repo,
            engine,
        }
    }

    pub fn git(&self, arguments: &[&str]) -> String {
        git(&self.repo, arguments)
    }

    pub fn repository(&self) -> Repository {
        self.engine.open_repository(&self.repo).unwrap()
    }

    /// Provisions a task at HEAD.
    pub fn provision(&self, task: &str) -> Provisioned {
        self.try_provision(task, |_| {}).unwrap()
    }

    /// Provisions a task with a request of one's own making.
    pub fn try_provision(
        &self,
        task: &str,
        change: impl FnOnce(&mut ProvisionRequest),
    ) -> Result<Provisioned> {
        let repository = self.engine.open_repository(&self.repo)?;
        let mut request = request(&repository, task);
        change(&mut request);
        let plan = self.engine.plan_provision(&repository, &request)?;
        self.engine.provision(&repository, &plan, &mut Unobserved)
    }

    /// Everything of the source that no operation may change, by name.
    pub fn bystanders(&self) -> BTreeMap<String, Vec<u8>> {
        let common =
            PathBuf::from(self.git(&["rev-parse", "--path-format=absolute", "--git-common-dir"]));
        let mut seen = BTreeMap::new();
        for name in ["HEAD", "index", "config", "info", "hooks", "description"] {
            read_below(&common.join(name), name, &mut seen);
        }
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let others: Vec<&str> = refs
            .lines()
            .filter(|line| !line.contains("clawboo"))
            .collect();
        seen.insert("(refs)".to_owned(), others.join("\n").into_bytes());
        for name in ["a.txt", "src", ".gitignore"] {
            read_below(&self.repo.join(name), name, &mut seen);
        }
        seen
    }
}

/// An engine with that root.
pub fn engine(root: &Path) -> Engine {
    Engine::new(EngineConfig::new(root, "test-instance")).unwrap()
}

/// The plainest request.
pub fn request(repository: &Repository, task: &str) -> ProvisionRequest {
    ProvisionRequest {
        id: WorktreeId::new(),
        task_id: task.parse::<TaskId>().unwrap(),
        repo_id: repository.repo_id(),
        kind: "code".to_owned(),
        isolation: String::new(),
        base: Base::Head,
        scaffold: ScaffoldRequest {
            title: "A task".to_owned(),
            ..ScaffoldRequest::default()
        },
        sor_dir: "".parse::<SorDir>().unwrap(),
        known_branch: None,
    }
}

/// What `git status` says in a checkout, as the agent would see it.
pub fn status(checkout: &Checkout) -> String {
    git(
        &checkout.path,
        &["status", "--porcelain=v2", "--untracked-files=all"],
    )
}

fn read_below(path: &Path, name: &str, into: &mut BTreeMap<String, Vec<u8>>) {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return;
    };
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            read_below(
                &entry.path(),
                &format!("{name}/{}", entry.file_name().to_string_lossy()),
                into,
            );
        }
    } else {
        into.insert(name.to_owned(), std::fs::read(path).unwrap());
    }
}
