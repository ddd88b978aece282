//! A task's whole life with the engine alone, on a repository made for the occasion:
//! `cargo run -p worktree-engine --example lifecycle`.

use std::path::Path;
use std::process::Command;

use worktree_engine::ids::WorktreeId;
use worktree_engine::model::{SaveMode, Unobserved};
use worktree_engine::provision::{Base, ProvisionRequest};
use worktree_engine::sor::{self, ScaffoldRequest};
use worktree_engine::{Engine, EngineConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let repo = scratch.path().join("repo");
    git(scratch.path(), &["init", "-q", "repo"])?;
    let identity = ["-c", "user.name=You", "-c", "user.email=you@example.org"];
    let commit = ["commit", "-q", "--allow-empty", "-m", "first"];
    git(&repo, &[&identity[..], &commit[..]].concat())?;

    let engine = Engine::new(EngineConfig::new(
        scratch.path().join("worktrees"),
        "example",
    ))?;
    let repository = engine.open_repository(&repo)?;
    let request = ProvisionRequest {
        id: WorktreeId::new(),
        task_id: "t1".parse()?,
        repo_id: repository.repo_id(),
        kind: "code".to_owned(),
        isolation: "worktree".to_owned(),
        base: Base::Head,
        scaffold: ScaffoldRequest {
            title: "Say hello".to_owned(),
            ..ScaffoldRequest::default()
        },
        sor_dir: "".parse()?,
        known_branch: None,
    };
    let plan = engine.plan_provision(&repository, &request)?;
    let made = engine.provision(&repository, &plan, &mut Unobserved)?;
    println!(
        "provisioned {} on {}",
        made.checkout.path.display(),
        made.checkout.branch
    );

    std::fs::write(made.checkout.path.join("hello.txt"), "hello\n")?;
    let saved = engine.pause(
        &made.checkout,
        SaveMode::Commit,
        false,
        "clawboo: pause",
        &mut Unobserved,
    )?;
    println!(
        "paused at {}, directory there: {}",
        saved.head,
        made.checkout.path.exists()
    );

    let resumed = engine.resume(
        &made.checkout,
        saved.recovery_point.as_ref(),
        &mut Unobserved,
    )?;
    let state = sor::resume_state(&resumed.checkout.path, &resumed.checkout.sor_dir, None);
    println!("resumed; init is {}", state.commands.init);

    let completed = engine.complete(&resumed.checkout, false, &mut Unobserved)?;
    println!(
        "completed: {} file(s) changed, cleaned away: {}",
        completed.stat.files_changed, completed.cleaned
    );
    Ok(())
}

fn git(at: &Path, arguments: &[&str]) -> std::io::Result<()> {
    let status = Command::new("git")
        .current_dir(at)
        .args(arguments)
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(std::io::Error::other("git failed"))
    }
}
