//! The README is true: what it tells to type is run as it stands, and its tables are those of the code.
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    env,
    ffi::OsStr,
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;
use worktree_proto::{policy, v1::ErrorReason};
use worktreed::config::settings::SETTINGS;

/// Longer than anything takes on a loaded machine; what is waited for ends the wait.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_two_commands_are_named() {
    let readme = readme();
    for command in [
        "cargo run --release -p worktreed -- demo",
        "cargo test --workspace",
    ] {
        assert!(
            readme.lines().any(|line| line.trim() == command),
            "{command}"
        );
    }
}

#[test]
fn every_file_that_is_linked_is_there() {
    for target in readme().split("](").skip(1) {
        let target = target.split(')').next().unwrap();
        if !target.contains("://") {
            assert!(root().join(target).exists(), "{target}");
        }
    }
}

#[test]
fn what_is_deployed_is_built_as_the_readme_says() {
    let build = "cargo build --release --locked -p worktreed -p worktreectl";
    for file in ["README.md", "deploy/Dockerfile", "deploy/worktreed.service"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(text.contains(build), "{file}");
    }
}

#[test]
fn the_table_of_errors_is_that_of_the_contract() {
    let told: BTreeSet<(String, String)> = rows("## Errors")
        .into_iter()
        .map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone()))
        .collect();
    let reasons = policy::descriptor_pool()
        .get_enum_by_name("worktree.v1.ErrorReason")
        .unwrap();
    let known: BTreeSet<(String, String)> = reasons
        .values()
        .filter_map(|value| ErrorReason::try_from(value.number()).ok())
        .filter_map(|reason| {
            let code = code_name(policy::canonical_code(reason)?);
            Some((policy::wire_reason(reason).to_owned(), code.to_owned()))
        })
        .collect();
    assert_eq!(told, known);
}

#[test]
fn every_error_says_what_to_do() {
    for row in rows("## Errors") {
        assert!(row.len() == 3 && row[2].ends_with('.'), "{row:?}");
    }
}

#[test]
fn the_table_of_configuration_is_that_of_the_server() {
    let quoted = |text: &str| match text {
        "" => String::new(),
        text => format!("`{text}`"),
    };
    let known: Vec<Vec<String>> = SETTINGS
        .iter()
        .map(|one| vec![quoted(one.name), quoted(one.default), one.help.to_owned()])
        .collect();
    assert_eq!(rows("## Configuration"), known);
}

#[test]
fn the_configuration_file_shown_is_understood() {
    let home = Home::new();
    let file = home.path().join("config.toml");
    fs::write(&file, block("## Configuration", "toml")).unwrap();
    let said = run(home
        .command(env!("CARGO_BIN_EXE_worktreed"))
        .args(["config", "--config"])
        .arg(&file));
    for expected in [
        &["allow_root", "/src"],
        &["gc_interval", "0"],
        &["repository", "main=/srv/main.git"],
    ] {
        let line = said
            .lines()
            .find(|line| line.starts_with(expected[0]))
            .unwrap();
        assert!(
            line.contains(expected[1]) && line.contains("file "),
            "{line}"
        );
    }
}

#[test]
fn the_python_snippet_runs_as_written() {
    let name = "the_python_snippet_runs_as_written";
    let Some(python) = env::var_os("WORKTREED_TEST_PYTHON") else {
        return skip(
            name,
            "WORKTREED_TEST_PYTHON names no Python with grpcio-tools",
        );
    };
    let home = Home::new();
    let repo = home.repository("project");
    let _server = home.serve();
    // What is told to be done once, but for the installation.
    let once = block("In Python, once:", "sh");
    let (_, once) = once
        .split_once("pip install grpcio grpcio-tools\n")
        .unwrap();
    let path = format!(
        "{}:{}",
        Path::new(&python).parent().unwrap().display(),
        env::var("PATH").unwrap()
    );
    run(home
        .command("bash")
        .args(["-euo", "pipefail", "-c", once])
        .env("PATH", path)
        .current_dir(root()));

    let snippet = block("", "python");
    let lines = snippet.lines().filter(|line| !line.is_empty()).count();
    assert!(lines <= 16, "{lines} lines");
    fs::write(home.path().join("snippet.py"), snippet).unwrap();
    let said = run(home
        .command(&python)
        .arg(home.path().join("snippet.py"))
        .env("PYTHONPATH", home.path().join("worktreed-stubs"))
        .current_dir(&repo));

    assert!(said.starts_with("saved "), "{said}");
    let notes = run(home
        .command("git")
        .args(["cat-file", "-p", "clawboo/task-from-python:NOTES.md"])
        .current_dir(&repo));
    assert_eq!(notes, "Tried from Python.\n");
}

#[test]
fn the_tour_runs_as_written() {
    let name = "the_tour_runs_as_written";
    let binaries = Path::new(env!("CARGO_BIN_EXE_worktreed")).parent().unwrap();
    if !binaries.join("worktreectl").exists() {
        return skip(name, "worktreectl is not built: test the whole workspace");
    }
    if Command::new("jq").arg("--version").output().is_err() {
        return skip(name, "there is no jq");
    }
    assert!(readme().contains("\nworktreed serve --allow-root ~/src\n"));
    let home = Home::new();
    let _server = home.serve();
    let path = format!("{}:{}", binaries.display(), env::var("PATH").unwrap());
    let said = run(home
        .command("bash")
        .args(["-euo", "pipefail", "-c"])
        .arg(block("<!-- The tour", "sh"))
        .env("PATH", path));

    for expected in [
        "# Task: Greet by name",
        "Add a test",
        "retained",
        "refs/clawboo/recovery/",
    ] {
        assert!(
            said.to_lowercase().contains(&expected.to_lowercase()),
            "{expected} is not in:\n{said}"
        );
    }
}

/// A home directory with nothing in it but `src`, and an environment that says nothing else.
struct Home {
    directory: TempDir,
}

impl Home {
    fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("readme-")
            .tempdir_in(fs::canonicalize(env::temp_dir()).unwrap())
            .unwrap();
        fs::create_dir(directory.path().join("src")).unwrap();
        Self { directory }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap())
            .env("HOME", self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "A Reader")
            .env("GIT_AUTHOR_EMAIL", "reader@localhost")
            .env("GIT_COMMITTER_NAME", "A Reader")
            .env("GIT_COMMITTER_EMAIL", "reader@localhost")
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    fn repository(&self, name: &str) -> PathBuf {
        let path = self.path().join("src").join(name);
        run(self.command("git").args(["init", "--quiet"]).arg(&path));
        run(self
            .command("git")
            .args(["commit", "--quiet", "--allow-empty", "--message=Begin"])
            .current_dir(&path));
        path
    }

    /// Starts the server as the README does, and waits until its socket takes a connection.
    fn serve(&self) -> Server {
        let log = self.path().join("server.log");
        let file = fs::File::create(&log).unwrap();
        let mut server = Server(
            self.command(env!("CARGO_BIN_EXE_worktreed"))
                .args(["serve", "--allow-root"])
                .arg(self.path().join("src"))
                .stdout(file.try_clone().unwrap())
                .stderr(file)
                .spawn()
                .unwrap(),
        );
        let socket = self.path().join(".local/state/worktreed/worktreed.sock");
        let begun = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            let ended = server.0.try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "no server ({ended:?}):\n{}",
                fs::read_to_string(&log).unwrap()
            );
            thread::sleep(Duration::from_millis(10));
        }
        server
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// The first fenced block in this language after a mark.
fn block(mark: &str, language: &str) -> String {
    let readme = readme();
    let (_, rest) = readme.split_once(mark).unwrap();
    let (_, rest) = rest.split_once(&format!("```{language}\n")).unwrap();
    rest.split("```").next().unwrap().to_owned()
}

/// The rows of the table in a section, without its head.
fn rows(section: &str) -> Vec<Vec<String>> {
    let readme = readme();
    let (_, rest) = readme.split_once(&format!("\n{section}\n")).unwrap();
    let rest = rest.split("\n## ").next().unwrap();
    rest.lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        })
        .collect()
}

/// The name of a canonical code, as gRPC spells it.
fn code_name(code: i32) -> &'static str {
    match code {
        3 => "INVALID_ARGUMENT",
        4 => "DEADLINE_EXCEEDED",
        5 => "NOT_FOUND",
        6 => "ALREADY_EXISTS",
        7 => "PERMISSION_DENIED",
        8 => "RESOURCE_EXHAUSTED",
        9 => "FAILED_PRECONDITION",
        10 => "ABORTED",
        11 => "OUT_OF_RANGE",
        12 => "UNIMPLEMENTED",
        13 => "INTERNAL",
        14 => "UNAVAILABLE",
        16 => "UNAUTHENTICATED",
        _ => "a code that no error is expected to have",
    }
}

/// Runs a command that must succeed, and returns what it printed.
fn run(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Says by name why a test does not run here; where all must run, that is a failure.
fn skip(test: &str, why: &str) {
    assert!(
        env::var_os("CI").is_none(),
        "{test} may not be skipped: {why}"
    );
    eprintln!("SKIPPED {test}: {why}");
}
