//! Prints how many git processes each operation starts and how long it takes, beside git's own command for the same,
//! alternating in one run: `cargo run --release -p worktree-engine --example measure [ROUNDS]`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use worktree_engine::ids::WorktreeId;
use worktree_engine::model::{SaveMode, Unobserved};
use worktree_engine::provision::{Base, ProvisionRequest};
use worktree_engine::sor::ScaffoldRequest;
use worktree_engine::{Engine, EngineConfig};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// How many files an agent changes before a checkpoint and before a pause.
const CHANGED: usize = 20;

fn main() -> Outcome<()> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(9), |text| text.parse())?;
    for files in [100, 5_000] {
        let scratch = tempfile::tempdir()?;
        let repo = repository(scratch.path(), files)?;
        let mut table = Table::default();
        for round in 0..rounds {
            measure(scratch.path(), &repo, round, &mut table)?;
        }
        println!("\n{files} files, {rounds} rounds, medians\n");
        table.print();
    }
    Ok(())
}

fn measure(scratch: &Path, repo: &Path, round: usize, table: &mut Table) -> Outcome<()> {
    let engine = Engine::new(EngineConfig::new(scratch.join("worktrees"), "measure"))?;
    let theirs = scratch.join("theirs");
    let branch = format!("theirs-{round}");
    let git_add = || {
        git(
            repo,
            &[
                "worktree",
                "add",
                "-q",
                "-b",
                &branch,
                &theirs.to_string_lossy(),
            ],
        )
    };
    // Who goes first changes every round: the second finds warmer caches.
    if round.is_multiple_of(2) {
        table.time("git worktree add", &engine, git_add)?;
    }
    let mut made = None;
    table.time("provision", &engine, || {
        let repository = engine.open_repository(repo)?;
        let plan = engine.plan_provision(&repository, &request(&repository.repo_id(), round)?)?;
        made = Some(engine.provision(&repository, &plan, &mut Unobserved)?);
        Ok(())
    })?;
    if !round.is_multiple_of(2) {
        table.time("git worktree add", &engine, git_add)?;
    }
    let made = made.ok_or("not provisioned")?.checkout;
    table.time("probe", &engine, || {
        engine.probe(&made)?;
        Ok(())
    })?;
    change(&made.path, "first")?;
    change(&theirs, "first")?;
    table.time("diff stat", &engine, || {
        engine.diff_stat(&made, false)?;
        Ok(())
    })?;
    table.time("checkpoint", &engine, || {
        engine.checkpoint(&made, SaveMode::Commit, "checkpoint", &mut Unobserved)?;
        Ok(())
    })?;
    change(&made.path, "second")?;
    let mut saved = None;
    table.time("pause", &engine, || {
        saved = Some(engine.pause(&made, SaveMode::Commit, false, "pause", &mut Unobserved)?);
        Ok(())
    })?;
    let theirs_text = theirs.to_string_lossy().into_owned();
    table.time("git add, commit, worktree remove", &engine, || {
        git(&theirs, &["add", "-A"])?;
        git(
            &theirs,
            &[
                "-c",
                "user.name=A",
                "-c",
                "user.email=a@example.org",
                "commit",
                "-q",
                "-m",
                "pause",
            ],
        )?;
        git(repo, &["worktree", "remove", "--force", &theirs_text])
    })?;
    let point = saved.and_then(|saved| saved.recovery_point);
    let mut resumed = None;
    table.time("resume", &engine, || {
        resumed = Some(engine.resume(&made, point.as_ref(), &mut Unobserved)?);
        Ok(())
    })?;
    let resumed = resumed.ok_or("not resumed")?.checkout;
    table.time("complete (changed)", &engine, || {
        engine.complete(&resumed, false, &mut Unobserved)?;
        Ok(())
    })?;
    table.time("remove", &engine, || {
        engine.remove(&resumed, true, false, &mut Unobserved)?;
        Ok(())
    })?;
    git(repo, &["branch", "-q", "-D", &branch])?;
    engine.empty_trash(usize::MAX)?;
    Ok(())
}

fn request(repo_id: &str, round: usize) -> Outcome<ProvisionRequest> {
    Ok(ProvisionRequest {
        id: WorktreeId::new(),
        task_id: format!("t{round}").parse()?,
        repo_id: repo_id.to_owned(),
        kind: "code".to_owned(),
        isolation: String::new(),
        base: Base::Head,
        scaffold: ScaffoldRequest {
            title: "Measured".to_owned(),
            ..ScaffoldRequest::default()
        },
        sor_dir: "".parse()?,
        known_branch: None,
    })
}

/// A repository of real source files, as many as asked for, taken from cargo's registry.
fn repository(scratch: &Path, wanted: usize) -> Outcome<PathBuf> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo = cargo.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = cargo.ok_or("no cargo home")?.join("registry/src");
    let repo = scratch.join("repo");
    std::fs::create_dir(&repo)?;
    let (mut waiting, mut copied) = (vec![sources.clone()], 0);
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(path);
            } else if kind.is_file()
                && copied < wanted
                && path.extension().is_some_and(|end| end == "rs")
            {
                let target = repo.join(path.strip_prefix(&sources)?);
                std::fs::create_dir_all(target.parent().ok_or("no parent")?)?;
                std::fs::copy(path, target)?;
                copied += 1;
            }
        }
    }
    git(&repo, &["init", "-q"])?;
    git(&repo, &["add", "-A"])?;
    git(
        &repo,
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.org",
            "commit",
            "-q",
            "-m",
            "sources",
        ],
    )?;
    Ok(repo)
}

/// Edits tracked files and adds as many new ones.
fn change(checkout: &Path, word: &str) -> Outcome<()> {
    let listing = Command::new("git")
        .current_dir(checkout)
        .args(["ls-files", "-z", "*.rs"])
        .output()?
        .stdout;
    let names = listing
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    for name in names.take(CHANGED / 2) {
        std::fs::write(
            checkout.join(std::str::from_utf8(name)?),
            format!("// {word}\n"),
        )?;
    }
    for number in 0..CHANGED / 2 {
        std::fs::write(
            checkout.join(format!("new-{number}.txt")),
            format!("{word} {number}\n"),
        )?;
    }
    Ok(())
}

fn git(at: &Path, arguments: &[&str]) -> Outcome<()> {
    let status = Command::new("git")
        .current_dir(at)
        .args(arguments)
        .stdout(Stdio::null())
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("git {arguments:?} failed").into())
    }
}

#[derive(Default)]
struct Table(Vec<(&'static str, Vec<Duration>, u64)>);

impl Table {
    fn time(
        &mut self,
        name: &'static str,
        engine: &Engine,
        work: impl FnOnce() -> Outcome<()>,
    ) -> Outcome<()> {
        let processes = engine.git_processes();
        let started = Instant::now();
        work()?;
        let elapsed = started.elapsed();
        let processes = engine.git_processes() - processes;
        match self.0.iter_mut().find(|row| row.0 == name) {
            Some(row) => {
                row.1.push(elapsed);
                row.2 = row.2.max(processes);
            }
            None => self.0.push((name, vec![elapsed], processes)),
        }
        Ok(())
    }

    fn print(&mut self) {
        println!(
            "{:<34} {:>13} {:>10} {:>18}",
            "operation", "git processes", "median", "fastest..slowest"
        );
        for (name, times, processes) in &mut self.0 {
            times.sort();
            let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
            let ours = if name.starts_with("git ") {
                "-".to_owned()
            } else {
                processes.to_string()
            };
            let (first, middle, last) = (times[0], times[times.len() / 2], times[times.len() - 1]);
            println!(
                "{name:<34} {ours:>13} {:>7.1} ms {:>8.1}..{:.1}",
                milliseconds(middle),
                milliseconds(first),
                milliseconds(last)
            );
        }
    }
}
