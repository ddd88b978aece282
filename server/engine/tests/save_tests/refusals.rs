//! What stops a save or a drop is named, and nothing is touched.

use std::fs;

use worktree_engine::error::Error;
use worktree_engine::model::{SaveMode, Unobserved};

use crate::support::{Lab, assert_same, git, git_command, git_ok, tree, write};

#[test]
fn a12_rebase_in_progress_is_refused_by_name() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "x\n");
    lab.git(&["commit", "-qam", "x"]);
    let rebase = git_command(&lab.checkout.path, &["rebase", "-q", "-i", "HEAD~"])
        .env("GIT_SEQUENCE_EDITOR", "sed -i 1ibreak")
        .output()
        .unwrap();
    assert!(rebase.status.success(), "{rebase:?}");
    for result in [
        lab.pause(SaveMode::Commit).map(drop),
        lab.checkpoint(SaveMode::Commit).map(drop),
        lab.engine
            .remove(&lab.checkout, true, false, &mut Unobserved)
            .map(drop),
    ] {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, Error::OperationInProgress { operation, .. } if operation == "rebase"),
            "{error}"
        );
    }
    assert!(lab.path("a.txt").exists());
}

#[test]
fn a12_held_head_lock_stops_a_drop() {
    let lab = Lab::new();
    write(lab.checkout.admin_dir().join("HEAD.lock"), "");
    assert!(matches!(
        lab.pause(SaveMode::Commit),
        Err(Error::Busy { .. })
    ));
    assert!(lab.path("a.txt").exists());
    assert!(lab.checkout.admin_dir().join("HEAD.lock").exists());
}

#[test]
fn merge_conflict_is_refused_by_name() {
    let lab = Lab::new();
    lab.git(&["switch", "-qc", "side"]);
    write(lab.path("a.txt"), "side\n");
    lab.git(&["commit", "-qam", "side"]);
    lab.git(&["switch", "-q", lab.checkout.branch.as_str()]);
    write(lab.path("a.txt"), "task\n");
    lab.git(&["commit", "-qam", "task"]);
    assert!(!git_ok(&lab.checkout.path, &["merge", "-q", "side"]));
    let before = tree(&lab.checkout.path);
    let error = lab.pause(SaveMode::Commit).unwrap_err();
    assert!(error.to_string().contains("merge"), "{error}");
    assert_same(&before, &tree(&lab.checkout.path));
}

#[test]
fn unsettled_index_without_a_merge_is_saved_as_a_snapshot() {
    let mut lab = Lab::new();
    write(lab.path("a.txt"), "stashed\n");
    lab.git(&["stash", "-q"]);
    write(lab.path("a.txt"), "other\n");
    lab.git(&["commit", "-qam", "other"]);
    assert!(!git_ok(&lab.checkout.path, &["stash", "pop"]));
    let before = lab.status();
    let saved = lab.round_trip(SaveMode::Commit);
    assert!(!saved.committed);
    assert_eq!(before, lab.status());
}

#[test]
fn nested_repository_is_refused_by_name_even_where_ignored() {
    for place in ["inner", "node_modules/dep"] {
        let lab = Lab::new();
        fs::create_dir_all(lab.path(place)).unwrap();
        git(&lab.path(place), &["init", "-q"]);
        let error = lab.pause(SaveMode::Snapshot).unwrap_err();
        assert!(
            matches!(&error, Error::NestedRepository { nested, .. } if nested == place),
            "{error}"
        );
        assert!(lab.path(place).join(".git").exists());
    }
}

#[test]
fn submodule_with_a_repository_is_refused_by_name() {
    let lab = Lab::new();
    let other = lab.dir.path().join("other");
    fs::create_dir(&other).unwrap();
    git(&other, &["init", "-q", "-b", "main"]);
    write(other.join("f"), "f");
    git(&other, &["add", "f"]);
    git(&other, &["commit", "-qm", "f"]);
    lab.git(&["submodule", "add", "-q", other.to_str().unwrap(), "sm"]);
    let error = lab.pause(SaveMode::Commit).unwrap_err();
    assert!(
        matches!(&error, Error::SubmoduleRepository { .. }),
        "{error}"
    );
    assert!(lab.path("sm/f").exists());
}

#[test]
fn name_that_git_refuses_is_refused_by_name() {
    for name in ["git~1", "sub/.GIT", ".git::x"] {
        let lab = Lab::new();
        write(lab.path(name), "x");
        let error = lab.pause(SaveMode::Commit).unwrap_err();
        assert!(
            matches!(&error, Error::UnrepresentableName { name: found, .. } if found == name),
            "{error}"
        );
        assert!(lab.path(name).exists());
    }
}

#[test]
fn retargeted_git_file_stops_everything() {
    let lab = Lab::new();
    write(
        lab.path(".git"),
        format!("gitdir: {}\n", lab.repo.join(".git").display()),
    );
    let error = lab.pause(SaveMode::Commit).unwrap_err();
    assert!(matches!(error, Error::CheckoutRetargeted { .. }), "{error}");
    assert!(lab.path("a.txt").exists());
}

#[test]
fn filter_made_after_provision_never_runs() {
    let mut lab = Lab::new();
    let trace = lab.dir.path().join("ran");
    let command = format!("touch {}; cat", trace.display());
    git(&lab.repo, &["config", "filter.x.clean", &command]);
    git(&lab.repo, &["config", "filter.x.smudge", &command]);
    write(lab.path(".gitattributes"), "*.txt filter=x\n");
    write(lab.path("a.txt"), "dirty\n");
    lab.engine.diff_stat(&lab.checkout, false).unwrap();
    let saved = lab.round_trip(SaveMode::Commit);
    assert!(
        saved
            .warnings
            .iter()
            .any(|warning| warning.code == "FILTER_CHANGED")
    );
    assert!(!trace.exists());
}
