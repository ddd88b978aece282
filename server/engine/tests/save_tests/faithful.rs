//! What was in a checkout comes back as it was, in both modes, after garbage collection.

use std::fs::{self, File, FileTimes};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use worktree_engine::model::SaveMode;

use crate::support::{BOTH, Lab, chmod, git, write};

#[test]
fn b1_untracked_files_are_saved_whatever_status_is_configured_to_hide() {
    for mode in BOTH {
        let mut lab = Lab::new();
        git(&lab.repo, &["config", "status.showUntrackedFiles", "no"]);
        write(lab.path("new.txt"), "new\n");
        let saved = lab.round_trip(mode);
        assert_eq!(saved.committed, mode == SaveMode::Commit);
    }
}

#[test]
fn b2_untracked_directory_alone_is_restorable() {
    for mode in BOTH {
        let mut lab = Lab::new();
        write(lab.path("dir/deep/x"), "x");
        lab.round_trip(mode);
    }
}

#[test]
fn l7_dirty_tree_resumes_with_its_bytes() {
    for mode in BOTH {
        let mut lab = Lab::new();
        write(lab.path("a.txt"), "changed\n");
        fs::remove_file(lab.path("b.txt")).unwrap();
        lab.round_trip(mode);
    }
}

#[test]
fn c14_staged_unstaged_untracked_split_survives_a_snapshot() {
    let mut lab = Lab::new();
    write(lab.path("a.txt"), "one\nTWO\nthree\n");
    lab.git(&["add", "a.txt"]);
    write(lab.path("a.txt"), "one\nTWO\nTHREE\n");
    write(lab.path("u"), "untracked\n");
    write(lab.path("staged"), "only in the index\n");
    lab.git(&["add", "staged"]);
    fs::remove_file(lab.path("staged")).unwrap();
    lab.git(&["rm", "-q", "--cached", "b.txt"]);
    write(lab.path("later"), "x\n");
    lab.git(&["add", "-N", "later"]);
    let before = lab.status();
    lab.checkpoint(SaveMode::Snapshot).unwrap();
    assert_eq!(before, lab.status());
    lab.round_trip(SaveMode::Snapshot);
    assert_eq!(before, lab.status());
    assert_eq!(lab.git(&["show", ":staged"]), "only in the index\n");
}

#[test]
fn racy_edit_of_equal_size_and_time_is_saved() {
    for mode in BOTH {
        let mut lab = Lab::new();
        write(lab.path("f"), "aaaa\n");
        lab.git(&["add", "f"]);
        lab.git(&["commit", "-qm", "f"]);
        let mtime = fs::metadata(lab.path("f")).unwrap().modified().unwrap();
        let file = File::options().write(true).open(lab.path("f")).unwrap();
        std::io::Write::write_all(&mut &file, b"bbbb\n").unwrap();
        file.set_times(FileTimes::new().set_modified(mtime))
            .unwrap();
        drop(file);
        lab.round_trip(mode);
        assert_eq!(fs::read(lab.path("f")).unwrap(), b"bbbb\n");
        if mode == SaveMode::Commit {
            assert_eq!(lab.git(&["show", "HEAD:f"]), "bbbb\n");
        }
    }
}

#[test]
fn edits_behind_index_flags_are_saved() {
    for mode in BOTH {
        let mut lab = Lab::new();
        lab.git(&["update-index", "--assume-unchanged", "a.txt"]);
        lab.git(&["update-index", "--skip-worktree", "b.txt"]);
        write(lab.path("a.txt"), "edited\n");
        write(lab.path("b.txt"), "edited too\n");
        lab.round_trip(mode);
        if mode == SaveMode::Commit {
            assert_eq!(lab.git(&["show", "HEAD:a.txt"]), "edited\n");
            assert_eq!(lab.git(&["show", "HEAD:b.txt"]), "edited too\n");
        }
    }
}

#[test]
fn skip_worktree_file_that_is_absent_is_not_a_deletion() {
    let lab = Lab::new();
    lab.git(&["update-index", "--skip-worktree", "b.txt"]);
    fs::remove_file(lab.path("b.txt")).unwrap();
    let saved = lab.checkpoint(SaveMode::Commit).unwrap();
    assert!(!saved.committed);
    assert!(
        lab.engine
            .diff_stat(&lab.checkout, false)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn c17_modes_and_links_come_back_and_nothing_outside_changes() {
    for mode in BOTH {
        let mut lab = Lab::new();
        let outside = lab.dir.path().join("outside");
        write(&outside, "outside\n");
        write(lab.path("tool"), "#!/bin/sh\n");
        chmod(lab.path("tool"), 0o755);
        write(lab.path("key"), "secret\n");
        chmod(lab.path("key"), 0o600);
        chmod(lab.path("a.txt"), 0o640);
        chmod(lab.path("sub"), 0o700);
        symlink(&outside, lab.path("out")).unwrap();
        symlink("nowhere", lab.path("dangling")).unwrap();
        fs::remove_file(lab.path("b.txt")).unwrap();
        symlink("a.txt", lab.path("b.txt")).unwrap();
        fs::remove_file(lab.path("link")).unwrap();
        write(lab.path("link/now-a-directory"), "x");
        lab.round_trip(mode);
        assert_eq!(fs::read(&outside).unwrap(), b"outside\n");
        assert_eq!(
            fs::metadata(&outside).unwrap().permissions().mode() & 0o777,
            0o644
        );
    }
}

#[test]
fn empty_directories_come_back() {
    for mode in BOTH {
        let mut lab = Lab::new();
        fs::create_dir_all(lab.path("empty/inner")).unwrap();
        fs::create_dir(lab.path("private")).unwrap();
        chmod(lab.path("private"), 0o700);
        lab.round_trip(mode);
    }
}

#[test]
fn c16_line_endings_come_back_byte_for_byte() {
    for mode in BOTH {
        let mut lab = Lab::with(&[], |repo| write(repo.join("crlf.txt"), "x\r\ny\r\n"));
        write(lab.path(".gitattributes"), "*.txt text eol=crlf\n");
        write(lab.path("a.txt"), "lf\nonly\n");
        write(lab.path("mixed.txt"), "a\r\nb\n");
        lab.round_trip(mode);
    }
}

#[test]
fn c16_attributes_of_the_base_do_not_change_bytes() {
    for mode in BOTH {
        let mut lab = Lab::with(&[], |repo| {
            write(
                repo.join(".gitattributes"),
                "*.txt text eol=crlf\n*.id ident\n",
            );
            write(repo.join("x.id"), "$Id$\n");
        });
        write(lab.path("a.txt"), "lf\n");
        write(lab.path("n.id"), "$Id: own$\n");
        lab.round_trip(mode);
        fs::remove_file(lab.path(".gitattributes")).unwrap();
        write(lab.path("b.txt"), "b\nlf\n");
        lab.round_trip(mode);
    }
}

#[test]
fn j6_any_name_comes_back() {
    for mode in BOTH {
        let mut lab = Lab::new();
        for name in [
            &b"\xff\xfe"[..],
            b"tab\there",
            b"quote\"",
            b"new\nline",
            b"-rf",
            b":(top)x",
            b" s ",
            b"a\\b",
        ] {
            write(lab.path(std::ffi::OsStr::from_bytes(name)), b"\xe9 latin1");
        }
        lab.round_trip(mode);
    }
}

#[test]
fn j7_sha256_repository_works_throughout() {
    for mode in BOTH {
        let mut lab = Lab::with(&["--object-format=sha256"], |_| {});
        write(lab.path("a.txt"), "x\n");
        write(lab.path("new"), "n\n");
        let stat = lab.engine.diff_stat(&lab.checkout, false).unwrap();
        assert_eq!(stat.files_changed, 2);
        let saved = lab.round_trip(mode);
        assert_eq!(saved.head.as_str().len(), 64);
    }
}

#[test]
fn split_index_survives_a_snapshot() {
    let mut lab = Lab::new();
    lab.git(&["update-index", "--split-index"]);
    write(lab.path("a.txt"), "staged\n");
    lab.git(&["add", "a.txt"]);
    write(lab.path("a.txt"), "unstaged\n");
    let before = lab.status();
    lab.round_trip(SaveMode::Snapshot);
    assert_eq!(before, lab.status());
}

#[test]
fn large_files_are_streamed_there_and_back() {
    let mut lab = Lab::new();
    for (name, size) in [("five", 5 << 20), ("forty", 40 << 20)] {
        write(lab.path(name), name);
        let file = fs::File::options()
            .write(true)
            .open(lab.path(name))
            .unwrap();
        file.set_len(size).unwrap();
    }
    let saved = lab.round_trip(SaveMode::Snapshot);
    assert!(!saved.committed);
    lab.git(&["add", "five"]);
    lab.git(&["commit", "-qm", "five"]);
    // The same size, and it is in HEAD: hashed as a stream before anything is written.
    write(lab.path("a.txt"), "x");
    lab.round_trip(SaveMode::Commit);
}
