//! The one measure of work: the baseline against the files on disk, whatever is committed, staged or neither.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::git::{GitCommand, GitDir};
use crate::ids::CommitId;
use crate::model::{Checkout, DiffStat, Saved};
use crate::save::commit::{PrivateIndex, private_index};
use crate::save::subject::Subject;
use crate::save::tree::object_id;
use crate::sor::SOR_FILES;

/// Arguments that hold a diff to the measure, whatever the user's configuration says.
const PINNED: [&str; 8] = [
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=none",
    "--diff-algorithm=myers",
    "--inter-hunk-context=0",
];

/// How a completion ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// The work, measured.
    pub stat: DiffStat,
    /// Whether directory, registration and branch are all gone; otherwise nothing was touched.
    pub cleaned: bool,
    /// The save before the clean-up; where nothing was cleaned only its `head` means something.
    pub saved: Saved,
}

impl Engine {
    /// Measures the work; without a directory, the branch's tip. Leaves nothing in the repository.
    pub fn diff_stat(&self, checkout: &Checkout, include_sor: bool) -> Result<DiffStat> {
        let measured = Measured::open(self, checkout)?;
        let output = measured.run(&["--numstat", "-z"], include_sor)?;
        let mut stat = parse_numstat(&output)?;
        stat.dirty = measured.is_dirty(&stat)?;
        Ok(stat)
    }

    /// The paths that are not committed, the service's own files left out; none where the directory is away.
    pub fn dirty_paths(&self, checkout: &Checkout) -> Result<Vec<Vec<u8>>> {
        let measured = Measured::open(self, checkout)?;
        let Against::Files(files) = &measured.against else {
            return Ok(Vec::new());
        };
        let listing = match &files.subject.head.commit {
            Some(head) => files.uncommitted(head, checkout)?,
            None => {
                return Ok(files
                    .subject
                    .index
                    .entries()
                    .map(|(path, _)| path.to_vec())
                    .collect());
            }
        };
        let paths = listing.split(|&byte| byte == 0);
        Ok(paths
            .filter(|path| !path.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// The work as a patch in git's format, binary files included, handed to `sink` piece by piece.
    pub fn diff_patch(
        &self,
        checkout: &Checkout,
        include_sor: bool,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let measured = Measured::open(self, checkout)?;
        let arguments = [
            "-p",
            "--full-index",
            "--binary",
            "-U3",
            "--src-prefix=a/",
            "--dst-prefix=b/",
        ];
        let command = measured.command(&arguments, include_sor);
        self.git().run_streaming(command, sink).map(drop)
    }

    /// Whether the branch's tip has nothing but service-made paths beyond the baseline.
    pub(crate) fn tree_is_at_baseline(&self, checkout: &Checkout, tip: &CommitId) -> Result<bool> {
        let measured = Measured {
            engine: self,
            checkout,
            against: Against::Commit(tip.clone()),
        };
        let output = measured.run(&["--numstat", "-z"], false)?;
        Ok(output.is_empty())
    }
}

/// What the baseline is compared with.
enum Against<'a> {
    /// The files on disk, in a private index with objects of its own.
    Files(Box<FilesOnDisk<'a>>),
    /// A commit: there is no directory.
    Commit(CommitId),
}

struct FilesOnDisk<'a> {
    subject: Subject<'a>,
    index: PrivateIndex,
    objects: PrivateObjects,
}

struct Measured<'a> {
    engine: &'a Engine,
    checkout: &'a Checkout,
    against: Against<'a>,
}

impl<'a> Measured<'a> {
    fn open(engine: &'a Engine, checkout: &'a Checkout) -> Result<Self> {
        let against = match Subject::open(engine, checkout) {
            Ok(subject) => {
                let walk = subject.walk(&subject.root)?;
                walk.refuse_strange(&subject.root)?;
                let objects = PrivateObjects::new(engine, checkout)?;
                let index = private_index(&subject, &walk, &objects.environment())?;
                Against::Files(Box::new(FilesOnDisk {
                    subject,
                    index,
                    objects,
                }))
            }
            Err(Error::CheckoutAbsent { .. }) => Against::Commit(
                engine
                    .branch_tip(checkout)?
                    .ok_or_else(|| Error::BranchGone {
                        branch: checkout.branch.clone(),
                    })?,
            ),
            Err(error) => return Err(error),
        };
        Ok(Self {
            engine,
            checkout,
            against,
        })
    }

    /// The diff command from the baseline, with these output arguments.
    fn command(&self, output: &[&str], include_sor: bool) -> GitCommand {
        let baseline = self.checkout.base_commit.as_str();
        let command = match &self.against {
            Against::Files(files) => files
                .git()
                .args(["diff-index", "--cached"])
                .args(output)
                .args(PINNED)
                .args([baseline]),
            Against::Commit(tip) => {
                let directory = GitDir {
                    git_dir: self.checkout.common_dir.clone(),
                    work_tree: None,
                };
                GitCommand::new(Some(&directory))
                    .args(["diff-tree", "-r"])
                    .args(output)
                    .args(PINNED)
                    .args([baseline, tip.as_str()])
            }
        };
        let command = command.args(["--"]);
        if include_sor {
            return command;
        }
        command.args(exclusions(self.checkout))
    }

    fn run(&self, output: &[&str], include_sor: bool) -> Result<Vec<u8>> {
        let command = self.command(output, include_sor);
        Ok(self.engine.git().run(command)?.stdout)
    }

    /// Whether something outside the service's own files is not committed.
    fn is_dirty(&self, stat: &DiffStat) -> Result<bool> {
        let Against::Files(files) = &self.against else {
            return Ok(false);
        };
        let subject = &files.subject;
        let Some(head) = &subject.head.commit else {
            return Ok(true);
        };
        if staged_differs(subject, self.checkout) {
            return Ok(true);
        }
        if *head == self.checkout.base_commit {
            return Ok(!stat.is_empty());
        }
        let tree =
            crate::save::commit::write_tree(subject, &files.index, &files.objects.environment())?;
        let head_tree = subject
            .odb
            .find_commit(object_id(head)?)
            .ok()
            .and_then(|commit| commit.tree_id().ok().map(|id| id.detach()));
        if head_tree == Some(tree) {
            return Ok(false);
        }
        Ok(!files.uncommitted(head, self.checkout)?.is_empty())
    }
}

impl FilesOnDisk<'_> {
    /// The paths that differ from `head`, NUL-terminated, the service's own files left out.
    fn uncommitted(&self, head: &CommitId, checkout: &Checkout) -> Result<Vec<u8>> {
        let command = self
            .git()
            .args(["diff-index", "--cached", "--name-only", "-z"])
            .args(PINNED)
            .args([head.as_str(), "--"])
            .args(exclusions(checkout));
        Ok(self.subject.engine.git().run(command)?.stdout)
    }

    fn git(&self) -> GitCommand {
        let mut command = self.subject.git(&self.index.path());
        for (name, value) in self.objects.environment() {
            command = command.env(name, value);
        }
        command
    }
}

/// Objects written for a measurement: beside the repository's, gone with the value.
struct PrivateObjects {
    directory: tempfile::TempDir,
    alternates: PathBuf,
}

impl PrivateObjects {
    fn new(engine: &Engine, checkout: &Checkout) -> Result<Self> {
        let directory = crate::save::index::scratch_directory(&engine.scratch())?;
        Ok(Self {
            directory,
            alternates: quoted(&checkout.common_dir.join("objects")),
        })
    }

    fn environment(&self) -> [(&str, &Path); 2] {
        [
            ("GIT_OBJECT_DIRECTORY", self.directory.path()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", &self.alternates),
        ]
    }
}

/// A path as git takes it in a list of directories: in quotes, so that a colon in it separates nothing.
fn quoted(path: &Path) -> PathBuf {
    let mut text = vec![b'"'];
    for &byte in path.as_os_str().as_bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    OsString::from_vec(text).into()
}

/// What the service itself makes in a checkout: never counted as work.
pub(crate) fn service_made(checkout: &Checkout) -> Vec<String> {
    SOR_FILES
        .iter()
        .map(|name| checkout.sor_dir.join(name))
        .collect()
}

/// Pathspecs that leave out what the service made.
fn exclusions(checkout: &Checkout) -> Vec<String> {
    service_made(checkout)
        .iter()
        .map(|path| format!(":(top,exclude,literal){path}"))
        .collect()
}

/// Whether the index has something that HEAD has not, outside the service's own files: staged, whatever is on disk.
pub(crate) fn staged_differs(subject: &Subject<'_>, checkout: &Checkout) -> bool {
    let own = service_made(checkout);
    let is_own = |path: &[u8]| own.iter().any(|own| own.as_bytes() == path);
    let mut known = 0;
    for (path, entry) in subject.index.entries() {
        let path: &[u8] = path;
        if is_own(path) {
            continue;
        }
        let mode = entry.mode.to_tree_entry_mode().map(|mode| mode.kind());
        match subject.head_tree.get(path) {
            Some((kind, id)) if *id == entry.id && Some(*kind) == mode => known += 1,
            _ => return true,
        }
    }
    let in_head = subject
        .head_tree
        .keys()
        .filter(|path| !is_own(path))
        .count();
    known != in_head
}

fn parse_numstat(output: &[u8]) -> Result<DiffStat> {
    let mut stat = DiffStat::default();
    for record in output
        .split(|&byte| byte == 0)
        .filter(|record| !record.is_empty())
    {
        let mut fields = record.splitn(3, |&byte| byte == b'\t');
        let (Some(added), Some(removed), Some(_)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(Error::Internal(
                "git's numstat is not understood".to_owned(),
            ));
        };
        // `-` stands for a binary file.
        let count = |field: &[u8]| {
            std::str::from_utf8(field)
                .ok()
                .and_then(|field| field.parse::<u64>().ok())
                .unwrap_or(0)
        };
        stat.files_changed += 1;
        stat.insertions += count(added);
        stat.deletions += count(removed);
    }
    Ok(stat)
}
