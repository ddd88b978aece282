//! What a drop, its recovery and the emptying of the trash must never take along.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Scene, git, status};
use worktree_engine::Error;
use worktree_engine::materialise::Provisioned;
use worktree_engine::model::{DropPlan, Observer, Recovered, Saved, Step, Unobserved};
use worktree_engine::registration::NewHead;

fn plan(scene: &Scene, made: &Provisioned) -> DropPlan {
    DropPlan {
        checkout: made.checkout.clone(),
        trash: scene.engine.new_trash_path(),
        deletes_refs: vec![
            (made.checkout.branch.full_ref(), made.head.clone()),
            (made.checkout.base_ref(), made.checkout.base_commit.clone()),
        ],
        saved: Saved {
            head: made.head.clone(),
            committed: false,
            recovery_point: None,
            not_saved: Vec::new(),
            warnings: Vec::new(),
        },
    }
}

fn drop_it(scene: &Scene, plan: &DropPlan) -> worktree_engine::Result<()> {
    scene
        .engine
        .drop_checkout(plan, &mut |_| Ok(()), &mut Unobserved)
}

fn branch(made: &Provisioned) -> String {
    made.checkout.branch.to_string()
}

/// Every file below the custody directory, by its last name.
fn in_custody(scene: &Scene, name: &str) -> bool {
    std::fs::read_dir(scene.engine.config().root.join(".custody"))
        .unwrap()
        .any(|entry| entry.unwrap().path().join(name).exists())
}

#[test]
fn a_branch_that_the_user_has_checked_out_is_not_deleted_under_it() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    git(&made.checkout.path, &["checkout", "-q", "--detach"]);
    scene.git(&["checkout", "-q", &branch(&made)]);
    let before = scene.bystanders();
    let result = drop_it(&scene, &plan(&scene, &made));
    assert!(
        matches!(&result, Err(Error::BranchCheckedOut { path, .. }) if *path == scene.repo),
        "{result:?}"
    );
    assert!(scene.engine.probe(&made.checkout).unwrap().is_sound());
    assert_eq!(scene.bystanders(), before);
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), made.head.as_str());
}

#[test]
fn a_branch_taken_while_the_drop_runs_stays() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    git(&made.checkout.path, &["checkout", "-q", "--detach"]);
    let mut take = |_: &Path| {
        scene.git(&["checkout", "-q", &branch(&made)]);
        Ok(())
    };
    scene
        .engine
        .drop_checkout(&plan(&scene, &made), &mut take, &mut Unobserved)
        .unwrap();
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), made.head.as_str());
    assert_eq!(scene.git(&["status", "--porcelain"]), "");
}

#[derive(Default)]
struct Recording(Vec<Step>);

impl Observer for Recording {
    fn step(&mut self, step: &Step) -> worktree_engine::Result<()> {
        self.0.push(step.clone());
        Ok(())
    }
    fn progress(&mut self, _: &'static str, _: u64, _: u64) {}
}

#[test]
fn undoing_a_provision_leaves_a_branch_that_the_user_has_taken_meanwhile() {
    let scene = Scene::new();
    let repository = scene.repository();
    let request = common::request(&repository, "t1");
    let plan = scene.engine.plan_provision(&repository, &request).unwrap();
    let mut steps = Recording::default();
    let made = scene
        .engine
        .provision(&repository, &plan, &mut steps)
        .unwrap();
    git(&made.checkout.path, &["checkout", "-q", "--detach"]);
    scene.git(&["checkout", "-q", &branch(&made)]);
    assert_eq!(
        scene.engine.recover(&steps.0[0]).unwrap(),
        Recovered::RolledBack
    );
    assert_eq!(scene.git(&["rev-parse", "HEAD"]), made.head.as_str());
}

#[test]
fn recovery_gives_back_what_was_not_verified_even_if_its_place_was_taken() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let plan = plan(&scene, &made);
    std::fs::write(made.checkout.path.join("late.txt"), "after the save").unwrap();
    std::fs::rename(&made.checkout.path, &plan.trash).unwrap();
    std::fs::create_dir(&made.checkout.path).unwrap();
    std::fs::write(made.checkout.path.join("later.txt"), "by path").unwrap();
    assert_eq!(
        scene.engine.recover(&Step::Drop(plan)).unwrap(),
        Recovered::RolledBack
    );
    assert!(scene.engine.probe(&made.checkout).unwrap().is_sound());
    assert_eq!(status(&made.checkout), "? late.txt");
    assert!(in_custody(&scene, "later.txt"));
}

#[test]
fn recovery_of_a_finished_drop_is_not_misled_by_a_new_directory_of_that_name() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let plan = plan(&scene, &made);
    drop_it(&scene, &plan).unwrap();
    std::fs::create_dir(&made.checkout.path).unwrap();
    std::fs::write(made.checkout.path.join("new.txt"), "somebody's").unwrap();
    assert_eq!(
        scene.engine.recover(&Step::Drop(plan)).unwrap(),
        Recovered::Finished
    );
    assert!(made.checkout.path.join("new.txt").exists());
}

#[test]
fn commits_that_only_a_lost_checkout_knew_survive_its_rebuild() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let at = &made.checkout.path;
    git(at, &["commit", "-q", "--allow-empty", "-m", "thrown away"]);
    let thrown = git(at, &["rev-parse", "HEAD"]);
    git(at, &["reset", "-q", "--hard", "HEAD~1"]);
    std::fs::write(at.join("staged.txt"), "only staged").unwrap();
    git(at, &["add", "staged.txt"]);
    let staged = git(at, &["rev-parse", ":staged.txt"]);
    std::fs::remove_dir_all(at).unwrap();
    let again = scene
        .engine
        .rebuild(
            &made.checkout,
            &NewHead::Branch(made.checkout.branch.clone()),
            &mut Unobserved,
        )
        .unwrap();
    assert_eq!(status(&again.checkout), "");
    scene.git(&["reflog", "expire", "--expire=now", "--all"]);
    scene.git(&["gc", "-q", "--prune=now"]);
    scene.git(&["cat-file", "-e", &thrown]);
    assert_eq!(scene.git(&["cat-file", "blob", &staged]), "only staged");
}

#[test]
fn a_rebuild_of_a_lost_checkout_without_anything_of_its_own_pins_nothing() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let at = &made.checkout.path;
    git(
        at,
        &["commit", "-q", "--allow-empty", "-m", "on the branch"],
    );
    std::fs::remove_dir_all(at).unwrap();
    scene
        .engine
        .rebuild(
            &made.checkout,
            &NewHead::Branch(made.checkout.branch.clone()),
            &mut Unobserved,
        )
        .unwrap();
    assert_eq!(scene.git(&["for-each-ref", "refs/clawboo/recovery"]), "");
}

#[test]
fn links_and_closed_directories_in_the_trash_are_only_themselves() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let outside = scene.directory.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("keep.txt"), "kept").unwrap();
    std::os::unix::fs::symlink(&outside, made.checkout.path.join("link")).unwrap();
    let wide = made.checkout.path.join("wide");
    for number in 0..500 {
        std::fs::create_dir_all(wide.join(number.to_string()).join("below")).unwrap();
    }
    drop_it(&scene, &plan(&scene, &made)).unwrap();
    let report = scene.engine.empty_trash(10).unwrap();
    assert_eq!((report.deleted, report.waiting), (1, 0));
    assert!(outside.join("keep.txt").exists());
}
