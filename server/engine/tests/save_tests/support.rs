//! A repository and one task's checkout, made with real git in a directory of its own.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use worktree_engine::engine::Engine;
use worktree_engine::error::Result;
use worktree_engine::model::{Checkout, RecoveryPoint, SaveMode, Saved, Unobserved};

/// Both ways to save.
pub(crate) const BOTH: [SaveMode; 2] = [SaveMode::Commit, SaveMode::Snapshot];

/// One entry of a checkout: kind and permission bits, and its content or target.
pub(crate) type Entry = (u32, Vec<u8>);

pub(crate) struct Lab {
    pub(crate) engine: Engine,
    pub(crate) repo: PathBuf,
    pub(crate) checkout: Checkout,
    // Last, so that it is deleted last.
    pub(crate) dir: tempfile::TempDir,
}

/// git as a user would run it in `directory`, blind to this machine's configuration.
pub(crate) fn git_command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_")) {
        command.env_remove(name);
    }
    command
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", directory)
        .env("LC_ALL", "C")
        .args([
            "-c",
            "user.name=T",
            "-c",
            "user.email=t@example.org",
            "-c",
            "protocol.file.allow=always",
        ])
        .args(arguments);
    command
}

pub(crate) fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = git_command(directory, arguments).output().unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn git_ok(directory: &Path, arguments: &[&str]) -> bool {
    git_command(directory, arguments)
        .output()
        .unwrap()
        .status
        .success()
}

pub(crate) fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn chmod(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

impl Lab {
    pub(crate) fn new() -> Self {
        Self::with(&[], |_| {})
    }

    /// A lab whose repository is made with these arguments and prepared before its first commit.
    pub(crate) fn with(init: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let repo = base.join("repo");
        fs::create_dir(&repo).unwrap();
        git(&repo, &[&["init", "-q", "-b", "main"], init].concat());
        write(repo.join("a.txt"), "one\ntwo\nthree\n");
        write(repo.join("b.txt"), "b\n");
        write(repo.join("sub/c.txt"), "c\n");
        write(repo.join("run.sh"), "#!/bin/sh\n");
        chmod(repo.join("run.sh"), 0o755);
        write(
            repo.join(".gitignore"),
            "/target/\nnode_modules/\n.env\ndata.db\n*.log\n",
        );
        std::os::unix::fs::symlink("a.txt", repo.join("link")).unwrap();
        prepare(&repo);
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-qm", "base"]);
        let engine = super::made::engine(&base.join("root"));
        let checkout = super::made::provision(&engine, &repo, "t1");
        Self {
            engine,
            repo,
            checkout,
            dir,
        }
    }

    pub(crate) fn path(&self, relative: impl AsRef<OsStr>) -> PathBuf {
        self.checkout.path.join(Path::new(relative.as_ref()))
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.checkout.path, arguments)
    }

    pub(crate) fn checkpoint(&self, mode: SaveMode) -> Result<Saved> {
        self.engine
            .checkpoint(&self.checkout, mode, "clawboo: checkpoint", &mut Unobserved)
    }

    pub(crate) fn pause(&self, mode: SaveMode) -> Result<Saved> {
        self.engine.pause(
            &self.checkout,
            mode,
            false,
            "clawboo: pause",
            &mut Unobserved,
        )
    }

    pub(crate) fn pause_forced(&self, mode: SaveMode) -> Result<Saved> {
        self.engine.pause(
            &self.checkout,
            mode,
            true,
            "clawboo: pause",
            &mut Unobserved,
        )
    }

    /// Resumes, after a garbage collection that takes whatever nothing keeps.
    pub(crate) fn resume(&mut self, restore: Option<&RecoveryPoint>) {
        git(&self.repo, &["reflog", "expire", "--expire=now", "--all"]);
        git(&self.repo, &["gc", "-q", "--prune=now"]);
        let resumed = self
            .engine
            .resume(&self.checkout, restore, &mut Unobserved)
            .unwrap();
        self.checkout = resumed.checkout;
    }

    /// Pauses, collects garbage and resumes; what came back must be what went.
    pub(crate) fn round_trip(&mut self, mode: SaveMode) -> Saved {
        let before = tree(&self.checkout.path);
        let saved = self.pause(mode).unwrap();
        assert!(!self.checkout.path.exists());
        self.resume(saved.recovery_point.as_ref());
        assert_same(&before, &tree(&self.checkout.path));
        saved
    }

    pub(crate) fn status(&self) -> String {
        self.git(&["status", "--porcelain=v2", "--untracked-files=all"])
    }

    pub(crate) fn refs(&self) -> String {
        git(&self.repo, &["for-each-ref"])
    }

    pub(crate) fn is_reachable(&self, commit: &str) -> bool {
        !git(&self.repo, &["for-each-ref", "--contains", commit]).is_empty()
    }
}

/// Everything below `root` but its `.git` file.
pub(crate) fn tree(root: &Path) -> BTreeMap<Vec<u8>, Entry> {
    let mut found = BTreeMap::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        for entry in fs::read_dir(root.join(&relative)).unwrap() {
            let entry = entry.unwrap();
            let path = relative.join(entry.file_name());
            if path == Path::new(".git") {
                continue;
            }
            let metadata = entry.metadata().unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(entry.path())
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec()
            } else if metadata.is_dir() {
                pending.push(path.clone());
                Vec::new()
            } else if metadata.is_file() {
                fs::read(entry.path()).unwrap()
            } else {
                Vec::new()
            };
            let mode = if metadata.is_symlink() {
                0o120_000
            } else {
                metadata.permissions().mode()
            };
            found.insert(path.as_os_str().as_bytes().to_vec(), (mode, content));
        }
    }
    found
}

pub(crate) fn assert_same(before: &BTreeMap<Vec<u8>, Entry>, after: &BTreeMap<Vec<u8>, Entry>) {
    let name = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
    for (path, entry) in before {
        assert_eq!(after.get(path), Some(entry), "{:?}", name(path));
    }
    for path in after.keys() {
        assert!(before.contains_key(path), "{:?} was not there", name(path));
    }
}
