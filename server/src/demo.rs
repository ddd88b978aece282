//! The demo: a server of its own, driven through the client on a real repository, from provision to the end.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, Result, bail};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use worktree_engine::{
    Engine, EngineConfig,
    git::{GitCommand, GitDir},
    ids::Namespace,
    refs::RefEdit,
    repository::locate,
};
use worktreed_client::{Client, Endpoint, Watch, WatchItem, proto as v1};

use crate::{config::Config, serve};

/// Runs the demo on `repo`, or on the repository that the working directory is in, and leaves it as it was.
pub async fn run(repo: Option<PathBuf>) -> Result<()> {
    let place = match repo {
        Some(path) => path,
        None => std::env::current_dir().context("the working directory cannot be found")?,
    };
    let place = std::fs::canonicalize(&place).with_context(|| place.display().to_string())?;
    let located = locate(&place)?;
    // Nobody else uses this name, so that all below it may go at the end.
    let mark = uuid::Uuid::new_v4().simple().to_string();
    let namespace = format!("demo-{}", &mark[..12]);
    let state = tempfile::Builder::new()
        .prefix("worktreed-demo-")
        .tempdir()?;
    step("A server of its own, on a Unix socket in a temporary directory");
    let shutdown = CancellationToken::new();
    let (ready, started) = oneshot::channel();
    let config = config(state.path(), &located.path, &located.common_dir, &namespace)?;
    let server = tokio::spawn(Box::pin(serve::serve(config, shutdown.clone(), ready)));
    let outcome = match started.await {
        Ok(_) => story(state.path(), &located.path).await,
        // The server ended before it was ready: its own error says why.
        Err(_) => Ok(()),
    };
    shutdown.cancel();
    let served = server.await.context("the server ended")?;
    step("Cleaning up: branches, private refs and the temporary directory");
    let root = state.path().join("worktrees");
    let common_dir = located.common_dir.clone();
    let cleaned =
        tokio::task::spawn_blocking(move || clean_up(&root, &common_dir, &namespace)).await?;
    served?;
    outcome?;
    cleaned?;
    println!("\nDone. {} is as it was.", located.path.display());
    Ok(())
}

fn config(state: &Path, repo: &Path, common_dir: &Path, namespace: &str) -> Result<Config> {
    let text = |path: &Path| {
        path.to_str()
            .map(ToOwned::to_owned)
            .context("the demo needs a path that is UTF-8")
    };
    let mut flags = vec![
        ("state_dir".to_owned(), text(state)?),
        ("allow_root".to_owned(), text(repo)?),
        ("namespace".to_owned(), namespace.to_owned()),
        ("gc_interval".to_owned(), "0".to_owned()),
    ];
    if !common_dir.starts_with(repo) {
        flags.push(("allow_root".to_owned(), text(common_dir)?));
    }
    Ok(Config::load(&flags, &|_| None, None)?)
}

fn step(title: &str) {
    println!("\n== {title}");
}

fn said(line: impl std::fmt::Display) {
    println!("   {line}");
}

/// A task's life with two runtimes.
async fn story(state: &Path, repo: &Path) -> Result<()> {
    let client = Client::new(&Endpoint::Unix(state.join("worktreed.sock")));
    let watch = client.watch(v1::WatchEventsRequest {
        start: Some(v1::watch_events_request::Start::FromBeginning(
            v1::FromBeginning {},
        )),
        ..Default::default()
    });
    let events = tokio::spawn(print_events(watch));
    let key = v1::WorktreeKey {
        repo: repo.to_string_lossy().into_owned(),
        task_id: "demo".into(),
    };
    let told = acts(&client, &key).await;
    if told.is_err() {
        // What was made is taken away all the same; the first error is the one to tell.
        drop(client.remove_worktree(removal(&key)).await);
    }
    events.abort();
    told
}

async fn acts(client: &Client, key: &v1::WorktreeKey) -> Result<()> {
    let path = first_runtime(client, key).await?;
    second_runtime(client, key, &path).await?;
    step("A reviewer looks at the work in a read-only checkout");
    let review = client
        .create_review(v1::CreateReviewRequest {
            key: Some(key.clone()),
            reviewer: "reviewer".into(),
            ..Default::default()
        })
        .await?
        .review
        .context("no review")?;
    said(format!("{} at {}", review.path, review.sha));
    let removed = client
        .remove_review(v1::RemoveReviewRequest { id: review.id })
        .await?;
    said(format!(
        "the reviewer changed nothing: {}",
        removed.tree_unchanged
    ));
    step("Complete: there are changes, so the branch is kept for review");
    let completed = client
        .complete_worktree(v1::CompleteWorktreeRequest {
            key: Some(key.clone()),
            ..Default::default()
        })
        .await?;
    let stat = completed.diff_stat.unwrap_or_default();
    said(format!(
        "cleaned: {}; {} file(s), +{} -{}",
        completed.cleaned, stat.files_changed, stat.insertions, stat.deletions
    ));
    step("Remove: what was in it is pinned first");
    let removed = client.remove_worktree(removal(key)).await?;
    said(format!("recovery point {}", removed.recovery_point));
    Ok(())
}

fn removal(key: &v1::WorktreeKey) -> v1::RemoveWorktreeRequest {
    v1::RemoveWorktreeRequest {
        key: Some(key.clone()),
        discard_changes: true,
        complete_task: true,
        ..Default::default()
    }
}

/// Runtime A provisions, works, clocks out and pauses.
async fn first_runtime(client: &Client, key: &v1::WorktreeKey) -> Result<PathBuf> {
    step("Provision a worktree for the task");
    let provisioned = client
        .provision_worktree(v1::ProvisionWorktreeRequest {
            key: Some(key.clone()),
            scaffold: Some(v1::Scaffold {
                title: "Write a greeting".into(),
                acceptance_criteria: vec!["GREETING.md greets in two languages".into()],
                commands: Some(v1::ScaffoldCommands {
                    verify: "test -s GREETING.md".into(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        })
        .await?;
    let worktree = provisioned.worktree.context("no worktree")?;
    said(format!("{} on {}", worktree.path, worktree.branch));
    let path = PathBuf::from(&worktree.path);
    step("Runtime A clocks in, works half way, and clocks out with a handoff");
    let turn = client.clock_in(clock_in(key, "runtime-a")).await?;
    std::fs::write(path.join("GREETING.md"), "Hello\n")?;
    let written = client
        .write_handoff(v1::WriteHandoffRequest {
            key: Some(key.clone()),
            lease_epoch: turn.guard.epoch(),
            handoff: Some(v1::Handoff {
                handoff_from: "A".into(),
                runtime: "runtime-a".into(),
                completed_subtasks: vec!["the English greeting".into()],
                broken_or_unverified: vec!["the second language is missing".into()],
                next_best_step: "Add a French greeting to GREETING.md".into(),
                ..Default::default()
            }),
            ..Default::default()
        })
        .await?;
    turn.guard.stop();
    said(format!("handoff number {}:", written.number));
    for line in std::fs::read_to_string(path.join("AGENT_HANDOFF.json"))?.lines() {
        said(line);
    }
    step("Pause: the work is committed, the directory is gone, the branch stays");
    let paused = client
        .pause_worktree(v1::PauseWorktreeRequest {
            key: Some(key.clone()),
            ..Default::default()
        })
        .await?;
    said(format!(
        "saved as {}; directory there: {}",
        paused.head,
        path.exists()
    ));
    Ok(path)
}

/// Runtime B knows nothing but what the ResumeState says.
async fn second_runtime(client: &Client, key: &v1::WorktreeKey, path: &Path) -> Result<()> {
    step("Runtime B clocks in cold: the directory is rebuilt");
    let turn = client.clock_in(clock_in(key, "runtime-b")).await?;
    let resume = &turn.resume_state;
    said(format!("done so far: {}", resume.done.join("; ")));
    said(format!("broken: {}", resume.broken.join("; ")));
    let Some(next) = &resume.next else {
        bail!("the ResumeState says nothing of what comes next");
    };
    said(format!("next: {next}"));
    let file = path.join("GREETING.md");
    let so_far = std::fs::read_to_string(&file)?;
    std::fs::write(&file, format!("{so_far}Bonjour\n"))?;
    let saved = client
        .checkpoint_worktree(v1::CheckpointWorktreeRequest {
            key: Some(key.clone()),
            lease_epoch: turn.guard.epoch(),
            ..Default::default()
        })
        .await?;
    said(format!("checkpoint {}", saved.head));
    turn.guard.release().await?;
    Ok(())
}

fn clock_in(key: &v1::WorktreeKey, name: &str) -> v1::AcquireLeaseRequest {
    v1::AcquireLeaseRequest {
        key: Some(key.clone()),
        holder: name.into(),
        runtime: name.into(),
        ..Default::default()
    }
}

async fn print_events(mut watch: Watch) {
    while let Ok(item) = watch.next().await {
        if let WatchItem::Event(event) = item {
            let name = event.kind().as_str_name();
            let name = name.strip_prefix("EVENT_KIND_").unwrap_or(name);
            println!("   · event {} {name}", event.sequence);
        }
    }
}

/// Takes away every ref below the demo's own namespace, each only while it has the value that was read.
fn clean_up(root: &Path, common_dir: &Path, namespace: &str) -> Result<()> {
    let namespace: Namespace = namespace.parse()?;
    let engine = Arc::new(Engine::new(EngineConfig {
        namespace: namespace.clone(),
        ..EngineConfig::new(root, "demo")
    })?);
    let git_dir = GitDir::bare(common_dir);
    let command = GitCommand::new(Some(&git_dir)).args([
        "for-each-ref",
        "--format=%(refname) %(objectname)",
        &format!("refs/{namespace}/"),
        &format!("refs/heads/{namespace}/"),
    ]);
    let listing = engine.git().run(command)?;
    let listing = String::from_utf8(listing.stdout)?;
    let mut edits = Vec::new();
    for line in listing.lines() {
        let (name, value) = line.split_once(' ').context("a ref without a value")?;
        edits.push(RefEdit::delete(name, &value.parse()?));
    }
    engine.update_refs(common_dir, &edits)?;
    Ok(())
}
