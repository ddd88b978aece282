//! Ending a task: complete, remove, and the end of a review.

use std::fs;

use worktree_engine::error::Error;
use worktree_engine::ids::WorktreeId;
use worktree_engine::model::{SaveMode, Unobserved};
use worktree_engine::rebuild::ReviewRequest;

use crate::support::{Lab, git, write};

#[test]
fn complete_without_work_cleans_everything_and_keeps_the_sor() {
    let lab = Lab::new();
    write(lab.path("task-progress.md"), "what I found\n");
    let completed = lab
        .engine
        .complete(&lab.checkout, false, &mut Unobserved)
        .unwrap();
    assert!(completed.cleaned);
    assert!(!lab.checkout.path.exists() && !lab.checkout.admin_dir().exists());
    assert!(!lab.refs().contains("refs/heads/clawboo"));
    assert!(!lab.refs().contains("refs/clawboo/base"));
    let point = completed.saved.recovery_point.unwrap();
    git(&lab.repo, &["gc", "-q", "--prune=now"]);
    let kept = git(
        &lab.repo,
        &[
            "show",
            &format!("{}:files/task-progress.md", point.ref_name),
        ],
    );
    assert_eq!(kept, "what I found\n");
}

#[test]
fn complete_with_work_touches_nothing() {
    let lab = Lab::new();
    write(lab.path("untracked"), "x\n");
    let (refs, status) = (lab.refs(), lab.status());
    let completed = lab
        .engine
        .complete(&lab.checkout, false, &mut Unobserved)
        .unwrap();
    assert!(!completed.cleaned);
    assert_eq!(completed.stat.files_changed, 1);
    assert_eq!((refs, status), (lab.refs(), lab.status()));
}

#[test]
fn a5_complete_never_judges_by_another_branch_alone() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "work\n");
    lab.git(&["commit", "-qam", "work"]);
    lab.git(&["switch", "-qc", "other", lab.checkout.base_commit.as_str()]);
    let completed = lab
        .engine
        .complete(&lab.checkout, false, &mut Unobserved)
        .unwrap();
    assert!(!completed.cleaned);
    assert!(lab.checkout.path.exists());
}

#[test]
fn remove_refuses_work_unless_discarded_and_pins_it_first() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "dirty\n");
    let remove = |discard, keep| {
        lab.engine
            .remove(&lab.checkout, discard, keep, &mut Unobserved)
    };
    assert!(matches!(
        remove(false, true),
        Err(Error::UnsavedWork { .. })
    ));
    lab.git(&["commit", "-qam", "work"]);
    let work = lab.git(&["rev-parse", "HEAD"]);
    assert!(matches!(
        remove(false, false),
        Err(Error::UnsavedWork { .. })
    ));
    write(lab.path("b.txt"), "uncommitted\n");
    let saved = remove(true, false).unwrap();
    assert!(!lab.checkout.path.exists());
    assert!(!lab.refs().contains("refs/heads/clawboo"));
    let point = saved.recovery_point.unwrap();
    git(&lab.repo, &["gc", "-q", "--prune=now"]);
    assert!(lab.is_reachable(work.trim()));
    let kept = git(
        &lab.repo,
        &["show", &format!("{}:files/b.txt", point.ref_name)],
    );
    assert_eq!(kept, "uncommitted\n");
}

#[test]
fn remove_can_keep_the_branch() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "work\n");
    lab.git(&["commit", "-qam", "work"]);
    lab.engine
        .remove(&lab.checkout, false, true, &mut Unobserved)
        .unwrap();
    assert!(!lab.checkout.path.exists());
    assert!(lab.refs().contains("refs/heads/clawboo/task-t1"));
}

#[test]
fn remove_of_a_paused_task_takes_the_refs_and_pins_the_tip() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "work\n");
    let paused = lab.pause(SaveMode::Commit).unwrap();
    let removed = lab
        .engine
        .remove(&lab.checkout, true, false, &mut Unobserved)
        .unwrap();
    assert!(removed.recovery_point.is_some());
    assert!(!lab.refs().contains("refs/heads/clawboo"));
    assert!(lab.is_reachable(paused.head.as_str()));
}

#[test]
fn directory_deleted_by_hand_loses_no_commit_on_resume() {
    let mut lab = Lab::new();
    lab.git(&["checkout", "-q", "--detach"]);
    write(lab.path("a.txt"), "detached\n");
    lab.git(&["commit", "-qam", "detached"]);
    let lost = lab.git(&["rev-parse", "HEAD"]);
    fs::remove_dir_all(&lab.checkout.path).unwrap();
    lab.resume(None);
    assert!(lab.is_reachable(lost.trim()));
    assert!(lab.path("a.txt").exists());
}

fn review(lab: &Lab) -> worktree_engine::model::Checkout {
    let repository = lab.engine.open_repository(&lab.repo).unwrap();
    let request = ReviewRequest {
        filter_fingerprint: String::new(),
        id: WorktreeId::new(),
        repo_id: repository.repo_id(),
        task_id: lab.checkout.task_id.clone(),
        sha: lab.checkout.base_commit.clone(),
    };
    lab.engine
        .create_review(&repository, &request, &mut Unobserved)
        .unwrap()
        .checkout
}

#[test]
fn review_says_whether_anything_changed_and_keeps_what_did() {
    let lab = Lab::new();
    let untouched = review(&lab);
    let removed = lab
        .engine
        .remove_review(&untouched, &mut Unobserved)
        .unwrap();
    assert!(removed.tree_unchanged && removed.recovery_point.is_none());
    assert!(!untouched.path.exists() && !untouched.admin_dir().exists());
    let changed = review(&lab);
    write(changed.path.join("notes"), "a finding\n");
    let removed = lab.engine.remove_review(&changed, &mut Unobserved).unwrap();
    assert!(!removed.tree_unchanged);
    let point = removed.recovery_point.unwrap();
    git(&lab.repo, &["gc", "-q", "--prune=now"]);
    let kept = git(
        &lab.repo,
        &["show", &format!("{}:files/notes", point.ref_name)],
    );
    assert_eq!(kept, "a finding\n");
}

#[test]
fn review_whose_directory_is_gone_can_be_removed() {
    let lab = Lab::new();
    let review = review(&lab);
    fs::remove_dir_all(&review.path).unwrap();
    assert!(
        !lab.engine
            .remove_review(&review, &mut Unobserved)
            .unwrap()
            .tree_unchanged
    );
    assert!(!review.admin_dir().exists());
    lab.engine.remove_review(&review, &mut Unobserved).unwrap();
}

#[test]
fn commits_that_only_the_branchs_log_names_survive_its_removal() {
    let lab = Lab::new();
    write(lab.path("a.txt"), "amended away\n");
    lab.git(&["commit", "-qam", "first try"]);
    let lost = lab.git(&["rev-parse", "HEAD"]);
    // The checkout's own log is not the only one that must be read.
    fs::remove_file(lab.checkout.admin_dir().join("logs/HEAD")).unwrap();
    lab.git(&["reset", "-q", "--hard", "HEAD~1"]);
    fs::remove_file(lab.checkout.admin_dir().join("logs/HEAD")).unwrap();
    fs::remove_file(lab.checkout.admin_dir().join("ORIG_HEAD")).unwrap();
    lab.engine
        .remove(&lab.checkout, true, false, &mut Unobserved)
        .unwrap();
    assert!(lab.is_reachable(lost.trim()));
}
