//! The measure of work, and that measuring leaves nothing behind.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use worktree_engine::model::{DiffStat, SaveMode};

use crate::support::{Lab, git, git_ok, write};

fn stat(lab: &Lab) -> DiffStat {
    lab.engine.diff_stat(&lab.checkout, false).unwrap()
}

fn patch(lab: &Lab) -> Vec<u8> {
    let mut patch = Vec::new();
    let mut sink = |chunk: &[u8]| {
        patch.extend_from_slice(chunk);
        Ok(())
    };
    lab.engine
        .diff_patch(&lab.checkout, false, &mut sink)
        .unwrap();
    patch
}

#[test]
fn a9_diff_has_committed_staged_unstaged_and_untracked() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "one\ntwo\nthree\nfour\n");
    lab.git(&["commit", "-qam", "x"]);
    write(lab.path("b.txt"), "changed\n");
    write(lab.path("staged"), "s\n");
    lab.git(&["add", "staged"]);
    write(lab.path("z"), "1\n2\n");
    write(lab.path("image"), b"\0\x01\x02");
    fs::remove_file(lab.path("sub/c.txt")).unwrap();
    write(lab.path("task-progress.md"), "the service's own\n");
    let expected = DiffStat {
        files_changed: 6,
        insertions: 5,
        deletions: 2,
        dirty: true,
    };
    assert_eq!(stat(&lab), expected);
    let text = String::from_utf8_lossy(&patch(&lab)).into_owned();
    for name in ["a.txt", "b.txt", "staged", "z", "image", "sub/c.txt"] {
        assert!(
            text.contains(&format!("diff --git a/{name} b/{name}")),
            "{name}"
        );
    }
    assert!(!text.contains("task-progress.md"));
    let with_sor = lab.engine.diff_stat(&lab.checkout, true).unwrap();
    assert_eq!(with_sor.files_changed, 7);
}

#[test]
fn clean_checkout_measures_nothing_and_sor_edits_are_not_work() {
    let lab = Lab::new();
    assert_eq!(stat(&lab), DiffStat::default());
    write(lab.path("TASK.md"), "edited\n");
    lab.git(&["add", "TASK.md"]);
    assert_eq!(stat(&lab), DiffStat::default());
}

#[test]
fn staged_change_undone_on_disk_is_dirty() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "staged\n");
    lab.git(&["add", "a.txt"]);
    write(lab.path("a.txt"), "one\ntwo\nthree\n");
    let stat = stat(&lab);
    assert!(stat.dirty && stat.is_empty());
}

#[test]
fn j1_configuration_cannot_change_the_diff() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "one\n2\nthree\n");
    fs::rename(lab.path("b.txt"), lab.path("renamed")).unwrap();
    let before = (stat(&lab), patch(&lab));
    for (key, value) in [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.external", "/bin/false"),
        ("color.ui", "always"),
        ("diff.renames", "copies"),
        ("diff.algorithm", "patience"),
        ("diff.context", "0"),
        ("diff.interHunkContext", "9"),
        ("diff.orderFile", "/nonexistent"),
        ("diff.txt.textconv", "/bin/false"),
        ("diff.ignoreSubmodules", "all"),
        ("diff.wordRegex", "."),
        ("core.quotePath", "false"),
    ] {
        git(&lab.repo, &["config", key, value]);
    }
    write(lab.repo.join(".git/info/attributes"), "*.txt diff=txt\n");
    assert_eq!(before, (stat(&lab), patch(&lab)));
}

#[test]
fn j3_base_that_moved_on_is_not_shown() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "task\n");
    for n in 0..3 {
        write(lab.repo.join("main.txt"), format!("{n}\n"));
        git(&lab.repo, &["add", "-A"]);
        git(&lab.repo, &["commit", "-qm", "main moves"]);
    }
    assert_eq!(stat(&lab).files_changed, 1);
}

#[test]
fn j6_odd_names_are_counted() {
    let lab = Lab::new();
    for name in [&b"\xff"[..], b"tab\t", b"new\nline", b"quote\""] {
        write(lab.path(std::ffi::OsStr::from_bytes(name)), "x\n");
    }
    assert_eq!((stat(&lab).files_changed, stat(&lab).insertions), (4, 4));
}

#[test]
fn measuring_leaves_nothing_in_the_repository() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "a change that no object holds\n");
    let index = fs::read(lab.checkout.admin_dir().join("index")).unwrap();
    let objects = git(&lab.repo, &["count-objects", "-v"]);
    assert_eq!(stat(&lab).files_changed, 1);
    assert!(!patch(&lab).is_empty());
    assert_eq!(objects, git(&lab.repo, &["count-objects", "-v"]));
    assert_eq!(
        index,
        fs::read(lab.checkout.admin_dir().join("index")).unwrap()
    );
}

#[test]
fn paused_task_is_measured_at_its_tip() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "one\ntwo\n");
    write(lab.path("task-progress.md"), "x\n");
    let with_files = patch(&lab);
    lab.pause(SaveMode::Commit).unwrap();
    let expected = DiffStat {
        files_changed: 1,
        insertions: 0,
        deletions: 1,
        dirty: false,
    };
    assert_eq!(stat(&lab), expected);
    assert_eq!(with_files, patch(&lab));
}

#[test]
fn patch_applies_to_the_baseline() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "one\nTWO\nthree\n");
    write(lab.path("bin"), b"\0\0\xff");
    let file = lab.dir.path().join("p");
    write(&file, patch(&lab));
    let fresh = lab.dir.path().join("fresh");
    let base = lab.checkout.base_commit.as_str();
    git(
        &lab.repo,
        &[
            "worktree",
            "add",
            "-q",
            "--detach",
            fresh.to_str().unwrap(),
            base,
        ],
    );
    assert!(git_ok(
        &fresh,
        &["apply", "--index", file.to_str().unwrap()]
    ));
    assert_eq!(fs::read(fresh.join("bin")).unwrap(), b"\0\0\xff");
}
