//! Any sequence of edits survives pause, garbage collection and resume, in both modes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use worktree_engine::model::SaveMode;

use crate::support::{Lab, assert_same, chmod, git_ok, tree, write};

const PATHS: &[&str] = &[
    "a.txt",
    "b.txt",
    "sub",
    "sub/c.txt",
    "sub/d/e",
    "run.sh",
    "link",
    "new",
    "new/inner",
    "x\ty",
    ".gitignore",
    ".gitattributes",
    "TASK.md",
];

#[derive(Debug, Clone)]
enum Edit {
    Write(&'static str, Vec<u8>),
    Remove(&'static str),
    Chmod(&'static str, u32),
    Link(&'static str, &'static str),
    Directory(&'static str),
    Git(Vec<&'static str>),
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"one\ntwo\n".to_vec()),
        Just(b"one\r\ntwo\r\n".to_vec()),
        Just(b"*.txt text eol=crlf\n".to_vec()),
        Just(b"new\nsub/d\n".to_vec()),
        Just(Vec::new()),
        proptest::collection::vec(any::<u8>(), 0..40),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    let path = || proptest::sample::select(PATHS);
    prop_oneof![
        4 => (path(), content()).prop_map(|(path, content)| Edit::Write(path, content)),
        2 => path().prop_map(Edit::Remove),
        1 => (path(), proptest::sample::select(&[0o600, 0o644, 0o755, 0o444, 0o700][..]))
            .prop_map(|(path, mode)| Edit::Chmod(path, mode)),
        1 => (path(), path()).prop_map(|(path, target)| Edit::Link(path, target)),
        1 => path().prop_map(Edit::Directory),
        2 => path().prop_map(|path| Edit::Git(vec!["add", "-A", "-f", "--", path])),
        1 => path().prop_map(|path| Edit::Git(vec!["rm", "-rq", "--cached", "--", path])),
        1 => path().prop_map(|path| Edit::Git(vec!["update-index", "--assume-unchanged", path])),
        1 => path().prop_map(|path| Edit::Git(vec!["add", "-N", "--", path])),
        1 => Just(Edit::Git(vec!["commit", "-qm", "work"])),
        1 => Just(Edit::Git(vec!["checkout", "-q", "--detach"])),
    ]
}

/// Does an edit; one that is not possible where it comes is no edit.
fn apply(lab: &Lab, edit: &Edit) {
    let clear = |path: &Path| drop(fs::remove_dir_all(path).or_else(|_| fs::remove_file(path)));
    match edit {
        Edit::Write(path, content) => {
            let path = lab.path(path);
            if path.is_symlink() || path.is_dir() {
                clear(&path);
            }
            if path
                .parent()
                .is_some_and(|parent| fs::create_dir_all(parent).is_ok())
            {
                write(&path, content);
            }
        }
        Edit::Remove(path) => clear(&lab.path(path)),
        Edit::Chmod(path, mode) => {
            let path = lab.path(path);
            if path.exists() && !path.is_symlink() {
                // A directory that may not be entered would be unreadable, which is another test.
                chmod(&path, if path.is_dir() { mode | 0o700 } else { *mode });
            }
        }
        Edit::Link(path, target) => {
            clear(&lab.path(path));
            drop(symlink(target, lab.path(path)));
        }
        Edit::Directory(path) => drop(fs::create_dir_all(lab.path(path))),
        Edit::Git(arguments) => drop(git_ok(&lab.checkout.path, arguments)),
    }
}

#[test]
fn any_edits_come_back() {
    // Each case runs git dozens of times; `PROPTEST_CASES` asks for more.
    let asked = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let mut runner = TestRunner::new(Config {
        cases: asked.unwrap_or(12),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    });
    let strategy = (
        proptest::collection::vec(edit(), 1..14),
        any::<bool>(),
        proptest::collection::vec(edit(), 0..6),
    );
    runner
        .run(&strategy, |(first, snapshot, second)| {
            let mode = if snapshot {
                SaveMode::Snapshot
            } else {
                SaveMode::Commit
            };
            let mut lab = Lab::new();
            // Twice: what a resume leaves must be as good a start as what a provision leaves.
            for edits in [first, second] {
                for edit in &edits {
                    apply(&lab, edit);
                }
                let before = (tree(&lab.checkout.path), lab.status());
                let saved = lab.pause(mode).unwrap();
                lab.resume(saved.recovery_point.as_ref());
                assert_same(&before.0, &tree(&lab.checkout.path));
                if mode == SaveMode::Snapshot {
                    assert_eq!(before.1, lab.status());
                }
            }
            Ok(())
        })
        .unwrap();
}
