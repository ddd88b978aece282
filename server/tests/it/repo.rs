//! Repositories to work on, made by the real git without anything of the machine's own configuration.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    io::Write,
    os::unix::{ffi::OsStringExt, fs::MetadataExt},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A `git` that knows nothing of this machine: no configuration, no identity but a fixed one, no prompts.
pub(crate) fn git_command(directory: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(directory);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("GIT_") {
            command.env_remove(name);
        }
    }
    command
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        // A repository may belong to the unprivileged user that a server runs as.
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        // A look must not rewrite the index that is compared afterwards.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_AUTHOR_NAME", "Tess Tester")
        .env("GIT_AUTHOR_EMAIL", "tess@example.org")
        .env("GIT_COMMITTER_NAME", "Tess Tester")
        .env("GIT_COMMITTER_EMAIL", "tess@example.org")
        .stdin(Stdio::null());
    command
}

pub(crate) fn try_git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> Output {
    git_command(directory).args(arguments).output().unwrap()
}

/// Runs git and returns what it printed, without the line break at its end.
pub(crate) fn git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> String {
    let output = try_git(directory, arguments);
    let shown: Vec<_> = arguments
        .iter()
        .map(|one| one.as_ref().to_string_lossy())
        .collect();
    assert!(
        output.status.success(),
        "git {shown:?} in {}: {}",
        directory.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

pub(crate) fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A user's repository.
#[derive(Debug, Clone)]
pub(crate) struct Repo {
    pub(crate) path: PathBuf,
}

impl Repo {
    /// A repository without a commit.
    pub(crate) fn init(path: &Path, options: &[&str]) -> Self {
        fs::create_dir_all(path).unwrap();
        git(path, &[&["init", "-q", "-b", "main"], options].concat());
        Self {
            path: path.to_owned(),
        }
    }

    /// A repository with one commit of so many small files.
    pub(crate) fn with_files(path: &Path, count: usize) -> Self {
        Self::with_files_and(path, count, &[])
    }

    pub(crate) fn with_files_and(path: &Path, count: usize, options: &[&str]) -> Self {
        let repo = Self::init(path, options);
        for number in 0..count {
            let name = format!("src/part{}/file{number}.txt", number / 10);
            repo.write(
                &name,
                format!("line one of {number}\nline two\nline three\n"),
            );
        }
        repo.write("README.md", "# Project\n");
        repo.commit_all("begin");
        repo
    }

    pub(crate) fn git<A: AsRef<OsStr>>(&self, arguments: &[A]) -> String {
        git(&self.path, arguments)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        write(self.path.join(name), bytes);
    }

    /// Commits all there is and returns the commit.
    pub(crate) fn commit_all(&self, message: &str) -> String {
        commit_all(&self.path, message)
    }

    pub(crate) fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    pub(crate) fn tip(&self, reference: &str) -> Option<String> {
        let output = try_git(&self.path, &["rev-parse", "--verify", "-q", reference]);
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Every ref with what it points to.
    pub(crate) fn refs(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    /// The branches that the service made.
    pub(crate) fn task_branches(&self) -> String {
        self.git(&[
            "for-each-ref",
            "--format=%(refname:short)",
            "refs/heads/clawboo/",
        ])
    }

    /// The lines of `git worktree list --porcelain` that name a checkout.
    pub(crate) fn registered(&self) -> Vec<String> {
        let listing = self.git(&["worktree", "list", "--porcelain"]);
        listing
            .lines()
            .filter_map(|line| line.strip_prefix("worktree "))
            .map(str::to_owned)
            .collect()
    }

    /// All that law 2 forbids the service to touch: the files of the checkout, and in the git directory everything but
    /// objects and what belongs to the service.
    pub(crate) fn bystanders(&self) -> Bystanders {
        let mut git_dir = try_git(&self.path, &["rev-parse", "--absolute-git-dir"]).stdout;
        git_dir.pop();
        let git_dir = PathBuf::from(OsString::from_vec(git_dir));
        let mut files = BTreeMap::new();
        // A bare repository has no checkout.
        if git_dir != self.path {
            let mut left_out = |relative: &str| relative == ".git";
            collect(&self.path, &self.path, &mut left_out, &mut files);
        }
        collect(&git_dir, &git_dir, &mut is_ours_or_objects, &mut files);
        let refs = self.refs();
        let foreign = refs.lines().filter(|line| {
            !line.contains("refs/heads/clawboo/") && !line.starts_with("refs/clawboo/")
        });
        Bystanders {
            files,
            refs: foreign.map(str::to_owned).collect(),
        }
    }
}

fn is_ours_or_objects(relative: &str) -> bool {
    let service = |prefix: &str| {
        relative == format!("{prefix}refs/clawboo")
            || relative == format!("{prefix}refs/heads/clawboo")
    };
    let registration = relative
        .strip_prefix("worktrees/")
        .is_some_and(|name| name.len() == 36 && uuid::Uuid::parse_str(name).is_ok());
    matches!(relative, "objects" | "packed-refs" | "reftable")
        || service("")
        || service("logs/")
        || registration
        || relative.starts_with("clawboo-tmp-")
}

fn collect(
    base: &Path,
    directory: &Path,
    left_out: &mut dyn FnMut(&str) -> bool,
    files: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>,
) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(base).unwrap();
        if left_out(&relative.to_string_lossy()) {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            collect(base, &path, left_out, files);
            continue;
        }
        let content = if metadata.is_symlink() {
            fs::read_link(&path)
                .unwrap()
                .into_os_string()
                .into_encoded_bytes()
        } else if metadata.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        files.insert(path, (metadata.mode(), content));
    }
}

/// What must be the same before and after.
#[derive(PartialEq, Eq)]
pub(crate) struct Bystanders {
    files: BTreeMap<PathBuf, (u32, Vec<u8>)>,
    refs: Vec<String>,
}

impl Bystanders {
    /// Fails with the names of what differs, and not with their bytes.
    #[track_caller]
    pub(crate) fn assert_same(&self, after: &Self) {
        assert_eq!(self.refs, after.refs, "a ref that is not ours changed");
        let names: std::collections::BTreeSet<_> =
            self.files.keys().chain(after.files.keys()).collect();
        let changed: Vec<_> = names
            .into_iter()
            .filter(|name| self.files.get(*name) != after.files.get(*name))
            .collect();
        assert!(
            changed.is_empty(),
            "changed, and not the task's: {changed:?}"
        );
    }
}

pub(crate) fn commit_all(directory: &Path, message: &str) -> String {
    git(directory, &["add", "-A"]);
    git(directory, &["commit", "-q", "--allow-empty", "-m", message]);
    git(directory, &["rev-parse", "HEAD"])
}

/// Writes an executable script.
pub(crate) fn script(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt;
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o755)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Every entry below a directory with kind, mode and content, sorted: two trees are the same if these are.
pub(crate) fn tree(directory: &Path) -> Vec<String> {
    let mut entries = Vec::new();
    list(directory, directory, &mut entries);
    entries.sort();
    entries
}

fn list(base: &Path, directory: &Path, entries: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(base).unwrap();
        if relative == Path::new(".git") {
            continue;
        }
        let metadata = fs::symlink_metadata(&path).unwrap();
        let executable = metadata.mode() & 0o111 != 0;
        if metadata.is_dir() {
            entries.push(format!("{relative:?} directory"));
            list(base, &path, entries);
        } else if metadata.is_symlink() {
            entries.push(format!(
                "{relative:?} -> {:?}",
                fs::read_link(&path).unwrap()
            ));
        } else if !metadata.is_file() {
            entries.push(format!("{relative:?} special"));
        } else {
            entries.push(format!(
                "{relative:?} {executable} {:?}",
                String::from_utf8_lossy(&fs::read(&path).unwrap())
            ));
        }
    }
}
