//! The one place that starts git: no shell, no option injection, nothing inherited, everything bounded.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// The oldest git that has what the engine asks of it.
pub const MINIMUM_VERSION: &str = "2.38";

/// The most that is kept of a command's standard output unless it is streamed.
const MAX_OUTPUT: usize = 256 << 20;
/// How much of standard error ends up in an error.
const STDERR_TAIL: usize = 4096;
/// How long a command that was asked to end may clean up before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Settings that no configuration of the user's may change: each of them could run code, hide an edit, or write where we must not.
const PINNED: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.trustctime=true",
    "core.checkStat=default",
    "core.untrackedCache=false",
    "core.splitIndex=false",
    "core.filesRefLockTimeout=3000",
    "core.packedRefsTimeout=5000",
    "commit.gpgsign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "branch.autoSetupMerge=false",
    "branch.autoSetupRebase=never",
    "worktree.useRelativePaths=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "protocol.allow=never",
];

/// The repository that a command works on. Always from our record: the `.git` file of a checkout belongs to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDir {
    /// `GIT_DIR`: an admin directory or a common directory.
    pub git_dir: PathBuf,
    /// `GIT_WORK_TREE`; none for commands that touch no files.
    pub work_tree: Option<PathBuf>,
}

impl GitDir {
    /// A repository without a work tree.
    pub fn bare(git_dir: &Path) -> Self {
        Self {
            git_dir: git_dir.to_owned(),
            work_tree: None,
        }
    }
}

/// Which of the configured deadlines a command gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// A question.
    Probe,
    /// An ordinary command.
    Ordinary,
    /// One that writes a whole checkout.
    Checkout,
}

/// One command, to be given to [`Git::run`].
#[derive(Debug)]
pub struct GitCommand {
    repository: Option<GitDir>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    configuration: Vec<(String, String)>,
    input: Vec<u8>,
    accepted: Vec<i32>,
    deadline: Deadline,
}

impl GitCommand {
    /// A command on `repository`, or on none.
    pub fn new(repository: Option<&GitDir>) -> Self {
        Self {
            repository: repository.cloned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            configuration: Vec::new(),
            input: Vec::new(),
            accepted: vec![0],
            deadline: Deadline::Ordinary,
        }
    }

    /// Adds arguments. What comes from outside goes behind `--end-of-options` or `--`.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        self
    }

    /// Sets a variable beside the pinned ones.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets a configuration value whose key may hold anything, such as a filter's name from the repository.
    #[must_use]
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.configuration.push((key.to_owned(), value.to_owned()));
        self
    }

    /// What the command reads on standard input; otherwise it is closed.
    #[must_use]
    pub fn stdin(mut self, input: Vec<u8>) -> Self {
        self.input = input;
        self
    }

    /// Exit codes that are answers and no failures, beside 0.
    #[must_use]
    pub fn accept(mut self, codes: &[i32]) -> Self {
        self.accepted.extend_from_slice(codes);
        self
    }

    /// The deadline; [`Deadline::Ordinary`] unless said.
    #[must_use]
    pub fn deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = deadline;
        self
    }

    fn spelled(&self) -> String {
        let words: Vec<_> = self
            .arguments
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ").chars().take(512).collect()
    }
}

/// What a command answered.
#[derive(Debug)]
pub struct GitOutput {
    /// Standard output, as bytes.
    pub stdout: Vec<u8>,
    /// The exit code, one of the accepted ones.
    pub exit_code: i32,
}

/// git itself: found once, its version known.
#[derive(Debug)]
pub struct Git {
    binary: PathBuf,
    version: String,
    deadlines: [Duration; 3],
    processes: AtomicU64,
}

impl Git {
    /// Finds git (`binary`, else on `PATH`) and refuses one that is missing or older than [`MINIMUM_VERSION`].
    pub fn find(binary: Option<&Path>, deadlines: [Duration; 3]) -> Result<Self> {
        let too_old = |found: String| Error::GitTooOld {
            found,
            minimum: MINIMUM_VERSION,
        };
        let binary = match binary {
            Some(binary) => binary.to_owned(),
            None => find_on_path("git").ok_or_else(|| too_old("(not found on PATH)".to_owned()))?,
        };
        let mut git = Self {
            binary,
            version: String::new(),
            deadlines,
            processes: AtomicU64::new(0),
        };
        let command = GitCommand::new(None)
            .args(["--version"])
            .deadline(Deadline::Probe);
        let output = git
            .run(command)
            .map_err(|error| too_old(format!("(cannot be run: {error})")))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.trim().trim_start_matches("git version ").to_owned();
        if parse_version(&version) < parse_version(MINIMUM_VERSION) {
            return Err(too_old(version));
        }
        git.version = version;
        Ok(git)
    }

    /// The version as git tells it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// How many processes were started so far.
    pub fn processes(&self) -> u64 {
        self.processes.load(Ordering::Relaxed)
    }

    /// Runs a command to its end.
    pub fn run(&self, command: GitCommand) -> Result<GitOutput> {
        let mut stdout = Vec::new();
        let exit_code = self.run_streaming(command, &mut |chunk| {
            if stdout.len() + chunk.len() > MAX_OUTPUT {
                return Err(Error::Internal("git answered more than is kept".to_owned()));
            }
            stdout.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(GitOutput { stdout, exit_code })
    }

    /// Runs a command and gives its standard output to `sink` as it comes; an error of the sink stops the command.
    pub fn run_streaming(
        &self,
        command: GitCommand,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<i32> {
        let spelled = command.spelled();
        let repository = command
            .repository
            .as_ref()
            .map(|found| found.git_dir.clone());
        let span = tracing::info_span!("git", arguments = %spelled, repository = ?repository, outcome = tracing::field::Empty);
        let _entered = span.enter();
        let started = Instant::now();
        let deadline = self.deadlines[command.deadline as usize];
        let result = self.spawn(command, deadline, &spelled, sink);
        let outcome = match &result {
            Ok(code) => format!("exit {code}"),
            Err(error) => error.to_string(),
        };
        span.record("outcome", outcome.as_str());
        tracing::debug!(
            duration_ms = started.elapsed().as_millis() as u64,
            "git ended"
        );
        result
    }

    fn spawn(
        &self,
        command: GitCommand,
        deadline: Duration,
        spelled: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<i32> {
        let mut child = self.child(&command)?;
        self.processes.fetch_add(1, Ordering::Relaxed);
        if let Some(mut stdin) = child.stdin.take() {
            let input = command.input;
            // A command that ends without reading all of it closes the pipe: that is its right, and its exit code tells.
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let outputs = read_outputs(&mut child);
        let mut stderr = Vec::new();
        let until = Instant::now() + deadline;
        let status = match drain(&outputs, until, sink, &mut stderr) {
            Ok(true) => wait_until(&mut child, until)?,
            Ok(false) => None,
            Err(error) => {
                stop(&mut child);
                return Err(error);
            }
        };
        let Some(status) = status else {
            stop(&mut child);
            return Err(Error::GitTimeout {
                arguments: spelled.to_owned(),
                seconds: deadline.as_secs(),
            });
        };
        let exit_code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        if command.accepted.contains(&exit_code) {
            return Ok(exit_code);
        }
        Err(failure(spelled, exit_code, &stderr))
    }

    fn child(&self, command: &GitCommand) -> Result<Child> {
        let mut process = Command::new(&self.binary);
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"GIT_") {
                process.env_remove(name);
            }
        }
        process
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "/bin/false")
            .env("SSH_ASKPASS", "/bin/false")
            .env("GIT_SSH_COMMAND", "/bin/false")
            .env("GIT_EDITOR", "/bin/false")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_AUTHOR_NAME", "worktreed")
            .env("GIT_AUTHOR_EMAIL", "worktreed@localhost")
            .env("GIT_COMMITTER_NAME", "worktreed")
            .env("GIT_COMMITTER_EMAIL", "worktreed@localhost");
        // Where nothing says otherwise git must not start looking for a repository in whatever directory we run in.
        process.current_dir("/");
        if let Some(repository) = &command.repository {
            process.env("GIT_DIR", &repository.git_dir);
            if let Some(work_tree) = &repository.work_tree {
                process
                    .env("GIT_WORK_TREE", work_tree)
                    .current_dir(work_tree);
            }
        }
        process.envs(
            command
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        );
        process.env("GIT_CONFIG_COUNT", command.configuration.len().to_string());
        for (number, (key, value)) in command.configuration.iter().enumerate() {
            process.env(format!("GIT_CONFIG_KEY_{number}"), key);
            process.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        for setting in PINNED {
            process.arg("-c").arg(setting);
        }
        process
            .args(&command.arguments)
            .stdin(if command.input.is_empty() {
                Stdio::null()
            } else {
                Stdio::piped()
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own, so that a deadline reaches filters and other children too.
            .process_group(0)
            .spawn()
            .map_err(|error| match (error.kind(), &command.repository) {
                // The work tree is the directory that git starts in.
                (
                    std::io::ErrorKind::NotFound,
                    Some(GitDir {
                        work_tree: Some(path),
                        ..
                    }),
                ) if !path.exists() => Error::CheckoutAbsent { path: path.clone() },
                _ => Error::io("run", &self.binary, error),
            })
    }
}

enum Chunk {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

fn read_outputs(child: &mut Child) -> mpsc::Receiver<Chunk> {
    // Bounded: a slow sink slows git instead of filling memory.
    let (sender, receiver) = mpsc::sync_channel(16);
    if let Some(stdout) = child.stdout.take() {
        let sender = sender.clone();
        std::thread::spawn(move || pump(stdout, &sender, Chunk::Stdout));
    }
    if let Some(stderr) = child.stderr.take() {
        std::thread::spawn(move || pump(stderr, &sender, Chunk::Stderr));
    }
    receiver
}

fn pump(mut from: impl Read, to: &mpsc::SyncSender<Chunk>, kind: fn(Vec<u8>) -> Chunk) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(read) = from.read(&mut buffer) {
        if read == 0 || to.send(kind(buffer[..read].to_vec())).is_err() {
            return;
        }
    }
}

/// Whether both outputs ended before the deadline.
fn drain(
    outputs: &mpsc::Receiver<Chunk>,
    until: Instant,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    stderr: &mut Vec<u8>,
) -> Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match outputs.recv_timeout(left) {
            Ok(Chunk::Stdout(chunk)) => sink(&chunk)?,
            Ok(Chunk::Stderr(chunk)) => {
                stderr.extend_from_slice(&chunk);
                let excess = stderr.len().saturating_sub(STDERR_TAIL);
                stderr.drain(..excess);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(true),
            Err(mpsc::RecvTimeoutError::Timeout) => return Ok(false),
        }
    }
}

fn wait_until(child: &mut Child, until: Instant) -> Result<Option<std::process::ExitStatus>> {
    let mut pause = Duration::from_micros(50);
    loop {
        let status = child
            .try_wait()
            .map_err(|error| Error::Internal(format!("git cannot be waited for: {error}")))?;
        if status.is_some() || Instant::now() >= until {
            return Ok(status);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Ends the whole group: first so that git removes its own lock files, then for good.
fn stop(child: &mut Child) {
    let group = rustix::process::Pid::from_child(child);
    let signal = |signal| {
        let _ = rustix::process::kill_process_group(group, signal);
    };
    signal(rustix::process::Signal::TERM);
    let ended = wait_until(child, Instant::now() + GRACE);
    // Children may outlive git itself; the group's id stays taken while one of them does.
    signal(rustix::process::Signal::KILL);
    if !matches!(ended, Ok(Some(_))) {
        drop(child.wait());
    }
}

fn failure(spelled: &str, exit_code: i32, stderr: &[u8]) -> Error {
    let stderr = String::from_utf8_lossy(stderr).trim().to_owned();
    if stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded") {
        return Error::DiskFull {
            path: PathBuf::from(format!("git {spelled}")),
        };
    }
    Error::GitFailed {
        arguments: spelled.to_owned(),
        exit_code,
        stderr,
    }
}

fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| candidate.is_file())
}

fn parse_version(text: &str) -> (u32, u32) {
    let mut parts = text
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_number() {
        assert!(parse_version("2.9.1") < parse_version("2.38"));
        assert!(parse_version("2.47.3") >= parse_version("2.38"));
        assert!(parse_version("3.0") >= parse_version("2.38"));
        assert!(parse_version("2.39.5 (Apple Git-154)") >= parse_version("2.38"));
    }
}
