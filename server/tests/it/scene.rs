//! A server of its own for each test: the built binary, in a directory of its own, with an environment of its own.

use std::{
    fs,
    os::unix::process::{CommandExt, ExitStatusExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{self, Channel, Uri};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use worktreed_client::{Client, Endpoint};

use crate::{repo::Repo, task::Task};

/// Longer than anything takes on a loaded machine; what is waited for ends the wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a place for state, a home, and repositories, and a server on it.
#[derive(Debug)]
pub(crate) struct Scene {
    // Before the directory: the server must be gone when its directory goes.
    pub(crate) server: Server,
    pub(crate) repo: Repo,
    pub(crate) client: Client,
    pub(crate) directory: TempDir,
}

/// How a server is started.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    /// Put before `/usr/bin` in `PATH`.
    pub(crate) path: Option<PathBuf>,
    /// Do not allow the directory of the repositories.
    pub(crate) no_root: bool,
    /// Run as this user, who must own the directory.
    pub(crate) user: Option<u32>,
}

impl Start {
    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }
}

impl Scene {
    /// With a repository of 20 files.
    pub(crate) async fn new() -> Self {
        Self::with(20, Start::default()).await
    }

    pub(crate) async fn with(files: usize, start: Start) -> Self {
        let directory = directory();
        let repo = Repo::with_files(&directory.path().join("repos/project"), files);
        Self::on(directory, repo, start).await
    }

    /// With a repository that was made in `repos` of the directory.
    pub(crate) async fn on(directory: TempDir, repo: Repo, start: Start) -> Self {
        let server = Server::start(directory.path(), start).await;
        let client = server.client();
        Self {
            server,
            repo,
            client,
            directory,
        }
    }

    pub(crate) fn task(&self, task_id: &str) -> Task {
        Task::new(&self.client, &self.repo.path, task_id)
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Starts the server again, as it was started, or otherwise.
    pub(crate) async fn restart(&mut self, start: Start) {
        self.server.kill9();
        self.server = Server::start(self.directory.path(), start).await;
        self.client = self.server.client();
    }
}

/// A temporary directory whose name is canonical, so that paths in answers can be compared.
pub(crate) fn directory() -> TempDir {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let parent = fs::canonicalize(std::env::temp_dir()).unwrap();
    let prefix = format!("wt{}-", COUNT.fetch_add(1, Ordering::Relaxed));
    let directory = tempfile::Builder::new()
        .prefix(&prefix)
        .tempdir_in(parent)
        .unwrap();
    fs::create_dir(directory.path().join("repos")).unwrap();
    fs::create_dir(directory.path().join("home")).unwrap();
    directory
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
}

/// The command that starts a server on a directory of [`directory`].
pub(crate) fn command(directory: &Path, start: &Start) -> Command {
    let mut command = bare_command(directory, start.path.as_deref());
    command
        .arg("serve")
        .arg("--state-dir")
        .arg(directory.join("state"));
    if !start.no_root {
        command.arg("--allow-root").arg(directory.join("repos"));
    }
    command
        .args(&start.arguments)
        .envs(start.environment.iter().map(|(name, value)| (name, value)));
    if let Some(user) = start.user {
        command.uid(user).gid(user);
    }
    command
}

/// The binary with nothing but a home and a path.
pub(crate) fn bare_command(directory: &Path, path: Option<&Path>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_worktreed"));
    let system = std::env::var("PATH").unwrap_or_default();
    let search = match path {
        Some(first) => format!("{}:{system}", first.display()),
        None => system,
    };
    command
        .env_clear()
        .env("PATH", search)
        .env("HOME", directory.join("home"))
        .env("RUST_BACKTRACE", "1")
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

impl Server {
    /// Starts a server and waits until it answers.
    pub(crate) async fn start(directory: &Path, start: Start) -> Self {
        let mut server = Self::spawn(directory, &start);
        if let Err(status) = server.wait_until_ready().await {
            panic!(
                "the server ended with {status} before it was ready:\n{}",
                server.log()
            );
        }
        server
    }

    /// Starts a server and does not wait.
    pub(crate) fn spawn(directory: &Path, start: &Start) -> Self {
        let log = directory.join("server.log");
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = command(directory, start)
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Self {
            child,
            socket: directory.join("state/worktreed.sock"),
            log,
        }
    }

    /// Asks until the server is healthy; its exit is the error.
    pub(crate) async fn wait_until_ready(&mut self) -> Result<(), ExitStatus> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return Err(status);
            }
            let Err(problem) = self.check_health().await else {
                return Ok(());
            };
            assert!(
                begun.elapsed() < PATIENCE,
                "not ready: {problem}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn check_health(&self) -> Result<(), String> {
        let channel = self.channel(|endpoint| endpoint).await;
        let mut health = HealthClient::new(channel.map_err(|error| error.to_string())?);
        let answer = health.check(HealthCheckRequest::default()).await;
        match answer
            .map_err(|status| status.to_string())?
            .into_inner()
            .status()
        {
            ServingStatus::Serving => Ok(()),
            status => Err(format!("{status:?}")),
        }
    }

    /// A connection as a client without our crate makes it.
    pub(crate) async fn channel(
        &self,
        change: impl FnOnce(transport::Endpoint) -> transport::Endpoint,
    ) -> Result<Channel, transport::Error> {
        let socket = self.socket.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        change(transport::Endpoint::from_static("http://localhost"))
            .connect_with_connector(connector)
            .await
    }

    /// A client with a connection of its own.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.endpoint())
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint::Unix(self.socket.clone())
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Ends the server as a power failure does, as far as a process can see.
    pub(crate) fn kill9(&mut self) {
        // It may have ended by itself, which is no error here.
        drop(self.child.kill());
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Asks the server to end, and returns how it ended and how long it took.
    pub(crate) async fn sigterm(&mut self) -> (ExitStatus, Duration) {
        let begun = Instant::now();
        self.signal(Signal::TERM);
        (self.wait().await, begun.elapsed())
    }

    /// Waits for the server to end.
    pub(crate) async fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "the server does not end:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- log of the server ---\n{}", self.log());
        }
    }
}

/// Runs a server that is expected to refuse, and returns what it said.
pub(crate) fn refused_start(directory: &Path, start: &Start) -> Output {
    let output = finish(command(directory, start));
    assert!(
        !output.status.success() && output.status.signal().is_none(),
        "it ended with {}: {}",
        output.status,
        text(&output)
    );
    output
}

/// Runs a command to its end; one that serves instead of ending is killed and fails the test.
pub(crate) fn finish(mut command: Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            let output = child.wait_with_output().unwrap();
            panic!("it runs and was expected to end: {}", text(&output));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// All that a process printed.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Says by name why a test does not run here; where all have to run (`CI` is set) that is a failure.
pub(crate) fn skip(test: &str, why: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "{test} may not skip: {why}"
    );
    eprintln!("SKIPPED {test}: {why}");
}

/// A directory with a `git` that is this script; `$REAL` in it is the real one.
pub(crate) fn shim(directory: &Path, body: &str) -> PathBuf {
    let real = finish({
        let mut which = Command::new("sh");
        which.args(["-c", "command -v git"]);
        which
    });
    let bin = directory.join("bin");
    crate::repo::script(
        &bin.join("git"),
        &format!("#!/bin/bash\nREAL={}\n{body}\n", text(&real).trim()),
    );
    bin
}
