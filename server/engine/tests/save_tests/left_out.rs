//! What a save leaves out is named, and stops a drop where it could not be made again.

use std::fs;

use worktree_engine::model::{NotSavedReason, SaveMode};

use crate::support::{BOTH, Lab, chmod, git, write};

#[test]
fn c20_global_excludes_line_endings_and_pipes() {
    for mode in BOTH {
        let mut lab = Lab::new();
        let excludes = lab.dir.path().join("excludes");
        write(&excludes, "*.tmp\n");
        git(
            &lab.repo,
            &["config", "core.excludesFile", excludes.to_str().unwrap()],
        );
        git(&lab.repo, &["config", "core.autocrlf", "true"]);
        write(lab.repo.join(".git/info/exclude"), "*.bak\n");
        write(lab.path("a.tmp"), "hidden\n");
        write(lab.path("a.bak"), "hidden\n");
        write(lab.path("crlf"), "x\r\n");
        write(lab.path("lf"), "x\n");
        lab.round_trip(mode);
        rustix::fs::mkfifoat(rustix::fs::CWD, lab.path("pipe"), 0o600.into()).unwrap();
        let error = lab.pause(mode).unwrap_err();
        assert!(error.to_string().contains("pipe"), "{error}");
        let saved = lab.checkpoint(mode).unwrap();
        let reasons: Vec<_> = saved.not_saved.iter().map(|left| left.reason).collect();
        assert_eq!(reasons, [NotSavedReason::SpecialFile]);
    }
}

#[test]
fn b4_kept_ignored_files_stop_a_drop_and_the_rest_is_listed() {
    let mut lab = Lab::new();
    write(lab.path(".env"), "SECRET=1\n");
    write(lab.path("data.db"), "rows");
    write(lab.path("node_modules/x/index.js"), "x");
    write(lab.path("node_modules/x/key.pem"), "k");
    write(lab.path("a.txt"), "work\n");
    let error = lab.pause(SaveMode::Commit).unwrap_err();
    let worktree_engine::error::Error::UnsavedWork {
        not_saved, total, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(total, 3);
    let listed: Vec<_> = not_saved
        .iter()
        .map(|left| {
            (
                String::from_utf8_lossy(&left.path).into_owned(),
                left.reason,
                left.file_count,
            )
        })
        .collect();
    let kept = NotSavedReason::IgnoredKept;
    assert_eq!(
        listed,
        [
            (".env".to_owned(), kept, 1),
            ("data.db".to_owned(), kept, 1),
            ("node_modules/".to_owned(), NotSavedReason::Ignored, 1),
            ("node_modules/x/key.pem".to_owned(), kept, 1),
        ]
    );
    assert!(lab.path(".env").exists());
    let saved = lab.pause_forced(SaveMode::Commit).unwrap();
    assert!(saved.recovery_point.is_some());
    lab.resume(saved.recovery_point.as_ref());
    assert_eq!(fs::read(lab.path("a.txt")).unwrap(), b"work\n");
}

#[test]
fn b4_keep_list_can_be_replaced() {
    let lab = Lab::with(&[], |repo| write(repo.join(".worktreekeep"), "*.log\n"));
    write(lab.path(".env"), "SECRET=1\n");
    lab.pause(SaveMode::Commit).unwrap();
}

#[test]
fn files_ignored_only_by_the_agents_rules_are_saved() {
    for mode in BOTH {
        let mut lab = Lab::new();
        write(
            lab.path(".gitignore"),
            "/target/\nnode_modules/\n.env\ndata.db\n*.log\nscratch/\n",
        );
        write(lab.path("scratch/notes"), "do not lose\n");
        let saved = lab.round_trip(mode);
        assert!(saved.recovery_point.is_some());
        if mode == SaveMode::Commit {
            assert!(!lab.git(&["ls-files"]).contains("scratch"));
        }
    }
}

#[test]
fn c5_unreadable_file_is_named_and_the_rest_is_saved() {
    // Root reads everything: this needs a user who is somebody else.
    if rustix::process::geteuid().is_root() {
        return;
    }
    let lab = Lab::new();
    write(lab.path("a.txt"), "dirty\n");
    write(lab.path("secret"), "s");
    write(lab.path("closed/inside"), "s");
    chmod(lab.path("secret"), 0);
    chmod(lab.path("closed"), 0);
    let saved = lab.checkpoint(SaveMode::Commit).unwrap();
    assert!(saved.committed);
    let paths: Vec<_> = saved
        .not_saved
        .iter()
        .map(|left| left.path.clone())
        .collect();
    assert_eq!(paths, [b"closed/".to_vec(), b"secret".to_vec()]);
    assert!(lab.pause(SaveMode::Commit).is_err());
    chmod(lab.path("closed"), 0o755);
}

#[test]
fn file_over_the_cap_is_named_and_stops_a_drop() {
    let lab = Lab::new();
    let big = fs::File::create(lab.path("big")).unwrap();
    big.set_len((64 << 20) + 1).unwrap();
    write(lab.path("a.txt"), "dirty\n");
    let error = lab.pause(SaveMode::Snapshot).unwrap_err();
    assert!(error.to_string().contains("big"), "{error}");
    let saved = lab.checkpoint(SaveMode::Commit).unwrap();
    assert_eq!(saved.not_saved[0].reason, NotSavedReason::TooLarge);
}
