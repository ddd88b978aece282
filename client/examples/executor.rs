//! A whole turn of a runner: provision, clock in, work, checkpoint, clock out, and complete when nothing is left.
//!
//!     cargo run -p worktreed-client --example executor -- /src/project fix-login

use std::{env, path::Path};

use anyhow::{Result, bail};
use worktreed_client::{
    Client,
    proto::{
        AcquireLeaseRequest, CheckpointWorktreeRequest, CompleteWorktreeRequest, Handoff,
        ProvisionWorktreeRequest, ResumeState, WorktreeKey, WriteHandoffRequest,
    },
};

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let (Some(repo), Some(task_id)) = (arguments.next(), arguments.next()) else {
        bail!("usage: executor REPOSITORY TASK");
    };
    let key = WorktreeKey { repo, task_id };
    let client = Client::from_env()?;

    // 1. The task's own checkout. A repeat answers the one that there is.
    let provision = ProvisionWorktreeRequest {
        key: Some(key.clone()),
        display_name: "Note what was tried".into(),
        ..Default::default()
    };
    let provisioned = client.provision_worktree(provision).await?;
    for warning in &provisioned.warnings {
        eprintln!("warning: {}", warning.message);
    }

    // 2. Clock in: from here on nobody else writes, and all that is known of earlier turns is in the resume state.
    let acquire = AcquireLeaseRequest {
        key: Some(key.clone()),
        holder: format!("example-{}", std::process::id()),
        runtime: "example".into(),
        ..Default::default()
    };
    let turn = client.clock_in(acquire).await?;
    let (guard, checkout, resume) = (turn.guard, turn.worktree.path, turn.resume_state);
    println!("working in {checkout}");

    // 3. Work, and stop at once when the lease is lost: somebody else may be writing already.
    let step = tokio::select! {
        step = work(Path::new(&checkout), &resume) => step?,
        loss = guard.lost() => bail!(loss),
    };

    // 4. Save. Every mutation carries the epoch of the lease.
    let checkpoint = CheckpointWorktreeRequest {
        key: Some(key.clone()),
        lease_epoch: guard.epoch(),
        ..Default::default()
    };
    let saved = client.checkpoint_worktree(checkpoint).await?;
    println!("saved as {}", saved.head);

    // 5. Clock out: the next runtime starts from this. The handoff releases the lease.
    let handoff = Handoff {
        handoff_from: "example".into(),
        runtime: "example".into(),
        completed_subtasks: [resume.done, vec![step]].concat(),
        next_best_step: "Read NOTES.md and go on.".into(),
        ..Default::default()
    };
    let write = WriteHandoffRequest {
        key: Some(key.clone()),
        lease_epoch: guard.epoch(),
        handoff: Some(handoff),
        ..Default::default()
    };
    client.write_handoff(write).await?;
    guard.stop();

    // 6. Done: with changes it is kept for review, without any it is cleaned up.
    let complete = CompleteWorktreeRequest {
        key: Some(key),
        ..Default::default()
    };
    let completed = client.complete_worktree(complete).await?;
    println!("cleaned up: {}", completed.cleaned);
    Ok(())
}

/// Stands for an agent: does one step, and says which.
async fn work(checkout: &Path, resume: &ResumeState) -> Result<String> {
    let step = format!("Step {}", resume.done.len() + 1);
    let notes = checkout.join("NOTES.md");
    let so_far = tokio::fs::read_to_string(&notes).await.unwrap_or_default();
    tokio::fs::write(&notes, format!("{so_far}- {step}\n")).await?;
    Ok(step)
}
