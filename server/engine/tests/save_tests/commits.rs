//! Every commit stays reachable, and the branch gets what `git add` would have taken.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use worktree_engine::model::{SaveMode, Unobserved};

use crate::support::{BOTH, Lab, assert_same, chmod, git, tree, write};

#[test]
fn staged_only_content_survives_a_commit() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "staged\n");
    lab.git(&["add", "a.txt"]);
    let blob = lab.git(&["rev-parse", ":a.txt"]);
    write(lab.path("a.txt"), "disk\n");
    let saved = lab.pause(SaveMode::Commit).unwrap();
    assert!(saved.recovery_point.is_some());
    git(&lab.repo, &["gc", "-q", "--prune=now"]);
    assert_eq!(
        git(&lab.repo, &["cat-file", "blob", blob.trim()]),
        "staged\n"
    );
}

#[test]
fn checkpoint_commits_and_leaves_the_status_clean() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "changed\n");
    write(lab.path("new"), "new\n");
    fs::remove_file(lab.path("b.txt")).unwrap();
    lab.git(&["add", "a.txt"]);
    let saved = lab.checkpoint(SaveMode::Commit).unwrap();
    assert!(saved.committed);
    assert_eq!(saved.recovery_point, None);
    assert_eq!(lab.git(&["rev-parse", "HEAD"]).trim(), saved.head.as_str());
    assert_eq!(lab.status(), "");
    assert_eq!(
        lab.git(&["log", "-1", "--format=%s"]).trim(),
        "clawboo: checkpoint"
    );
    assert!(!lab.checkpoint(SaveMode::Commit).unwrap().committed);
    assert!(git(&lab.repo, &["fsck", "--strict", "--no-dangling"]).is_empty());
}

#[test]
fn c3_c18_identity_and_signing_are_the_services_own() {
    let lab = Lab::new();
    git(&lab.repo, &["config", "commit.gpgsign", "true"]);
    git(&lab.repo, &["config", "gpg.program", "/bin/false"]);
    git(&lab.repo, &["config", "user.useConfigOnly", "true"]);
    write(lab.path("a.txt"), "x\n");
    let saved = lab.pause(SaveMode::Commit).unwrap();
    assert!(saved.committed);
    let author = git(
        &lab.repo,
        &["log", "-1", "--format=%an <%ae>", saved.head.as_str()],
    );
    assert_eq!(author.trim(), "worktreed <worktreed@localhost>");
}

#[test]
fn c10_foreign_index_lock_stays_and_the_save_works() {
    let lab = Lab::new();
    let lock = lab.checkout.admin_dir().join("index.lock");
    write(&lock, "");
    write(lab.path("a.txt"), "x\n");
    let saved = lab.checkpoint(SaveMode::Commit).unwrap();
    // Whoever holds the lock will write an index that knows nothing of a commit made meanwhile.
    assert!(!saved.committed);
    assert!(
        saved
            .warnings
            .iter()
            .any(|warning| warning.code == "SAVED_AS_SNAPSHOT")
    );
    let point = saved.recovery_point.unwrap().ref_name;
    assert_eq!(
        git(&lab.repo, &["show", &format!("{point}:files/a.txt")]),
        "x\n"
    );
    assert!(lock.exists());
    assert!(matches!(
        lab.pause(SaveMode::Commit),
        Err(worktree_engine::error::Error::Busy { .. })
    ));
    assert!(lock.exists() && lab.path("a.txt").exists());
}

#[test]
fn a3_base_is_never_computed_again() {
    let mut lab = Lab::new();
    write(lab.path("a.txt"), "x\n");
    let saved = lab.pause(SaveMode::Commit).unwrap();
    let base = lab.checkout.base_commit.clone();
    lab.resume(saved.recovery_point.as_ref());
    assert_eq!(lab.checkout.base_commit, base);
    let stat = lab.engine.diff_stat(&lab.checkout, false).unwrap();
    assert_eq!((stat.files_changed, stat.dirty), (1, false));
    assert!(
        !lab.engine
            .complete(&lab.checkout, false, &mut Unobserved)
            .unwrap()
            .cleaned
    );
}

#[test]
fn a5_switched_branch_is_saved_as_it_is() {
    let mut lab = Lab::new();
    write(lab.path("a.txt"), "on the task's branch\n");
    lab.git(&["commit", "-qam", "work"]);
    let work = lab.git(&["rev-parse", "HEAD"]);
    lab.git(&["switch", "-qc", "other", "main"]);
    write(lab.path("b.txt"), "dirty\n");
    let before = tree(&lab.checkout.path);
    let saved = lab.pause(SaveMode::Commit).unwrap();
    assert!(!saved.committed);
    assert!(
        saved
            .warnings
            .iter()
            .any(|warning| warning.code == "SAVED_AS_SNAPSHOT")
    );
    assert!(lab.is_reachable(work.trim()));
    assert!(lab.refs().contains("refs/heads/other"));
    lab.resume(saved.recovery_point.as_ref());
    assert_same(&before, &tree(&lab.checkout.path));
}

#[test]
fn a8_detached_commits_survive_gc() {
    let mut lab = Lab::new();
    lab.git(&["checkout", "-q", "--detach"]);
    write(lab.path("a.txt"), "detached\n");
    lab.git(&["commit", "-qam", "nobody names this"]);
    let lost = lab.git(&["rev-parse", "HEAD"]);
    let saved = lab.round_trip(SaveMode::Commit);
    assert!(saved.recovery_point.is_some());
    assert!(lab.is_reachable(lost.trim()));
    assert_eq!(lab.git(&["rev-parse", "HEAD"]), lost);
}

#[test]
fn commits_that_only_the_log_or_own_refs_name_survive() {
    let mut lab = Lab::new();
    write(lab.path("a.txt"), "amended away\n");
    lab.git(&["commit", "-qam", "first"]);
    let first = lab.git(&["rev-parse", "HEAD"]);
    lab.git(&["reset", "-q", "--hard", "HEAD~"]);
    write(lab.path("a.txt"), "own ref\n");
    lab.git(&["commit", "-qam", "second"]);
    let second = lab.git(&["rev-parse", "HEAD"]);
    lab.git(&["update-ref", "refs/worktree/keep", "HEAD"]);
    lab.git(&["reset", "-q", "--hard", "HEAD~"]);
    let saved = lab.pause(SaveMode::Commit).unwrap();
    lab.resume(saved.recovery_point.as_ref());
    assert!(lab.is_reachable(first.trim()));
    assert!(lab.is_reachable(second.trim()));
}

#[test]
fn source_checkout_is_untouched() {
    let mut lab = Lab::new();
    write(lab.repo.join("a.txt"), "the user's own edit\n");
    git(&lab.repo, &["add", "b.txt"]);
    let look = |lab: &Lab| {
        let index = fs::read(lab.repo.join(".git/index")).unwrap();
        let config = fs::read(lab.repo.join(".git/config")).unwrap();
        let head = fs::read(lab.repo.join(".git/HEAD")).unwrap();
        (
            tree(&lab.repo)
                .into_iter()
                .filter(|(path, _)| !path.starts_with(b".git/"))
                .collect::<Vec<_>>(),
            index,
            config,
            head,
        )
    };
    let before = look(&lab);
    for mode in BOTH {
        write(lab.path("a.txt"), "work\n");
        write(lab.path("n"), format!("{mode:?}"));
        lab.round_trip(mode);
    }
    assert_eq!(before, look(&lab));
}

#[test]
fn branch_that_moved_on_keeps_its_commits_on_resume() {
    let mut lab = Lab::new();
    write(lab.path("key"), "k\n");
    chmod(lab.path("key"), 0o600);
    write(lab.path("a.txt"), "mine\n");
    let saved = lab.pause(SaveMode::Commit).unwrap();
    let helper = lab.dir.path().join("helper");
    git(
        &lab.repo,
        &[
            "worktree",
            "add",
            "-q",
            helper.to_str().unwrap(),
            lab.checkout.branch.as_str(),
        ],
    );
    write(helper.join("a.txt"), "theirs\n");
    git(&helper, &["commit", "-qam", "theirs"]);
    git(&lab.repo, &["worktree", "remove", helper.to_str().unwrap()]);
    lab.resume(saved.recovery_point.as_ref());
    assert_eq!(fs::read(lab.path("a.txt")).unwrap(), b"theirs\n");
    assert_eq!(
        fs::metadata(lab.path("key")).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn snapshot_does_not_undo_what_the_branch_got_meanwhile() {
    let mut lab = Lab::new();
    write(lab.path("sub/c.txt"), "mine, not committed\n");
    let saved = lab.pause(SaveMode::Snapshot).unwrap();
    let helper = lab.dir.path().join("helper");
    git(
        &lab.repo,
        &[
            "worktree",
            "add",
            "-q",
            helper.to_str().unwrap(),
            lab.checkout.branch.as_str(),
        ],
    );
    write(helper.join("a.txt"), "theirs\n");
    write(helper.join("theirs.txt"), "theirs\n");
    git(&helper, &["add", "-A"]);
    git(&helper, &["commit", "-qm", "theirs"]);
    git(&lab.repo, &["worktree", "remove", helper.to_str().unwrap()]);
    lab.resume(saved.recovery_point.as_ref());
    assert_eq!(lab.git(&["status", "--porcelain"]), " M sub/c.txt\n");
    assert_eq!(
        fs::read(lab.path("sub/c.txt")).unwrap(),
        b"mine, not committed\n"
    );
}

#[test]
fn checkpoint_without_changes_costs_no_git_but_a_look_at_the_configuration() {
    let lab = Lab::new();
    let before = lab.engine.git_processes();
    assert!(!lab.checkpoint(SaveMode::Commit).unwrap().committed);
    assert_eq!(lab.engine.git_processes() - before, 1);
}
