//! The process is killed at every step of making and of dropping; what its journal says is enough to finish or forget it.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scene, engine, git, git_succeeds, request, status};
use worktree_engine::materialise::Provisioned;
use worktree_engine::model::{DropPlan, Observer, Recovered, Saved, Step};

/// A journal in a file: what was durable when the process died.
struct Journal<'a>(&'a Path);

impl Observer for Journal<'_> {
    fn step(&mut self, step: &Step) -> worktree_engine::Result<()> {
        std::fs::write(self.0, serde_json::to_vec(step).unwrap()).unwrap();
        Ok(())
    }

    fn progress(&mut self, _: &'static str, _: u64, _: u64) {}
}

/// Runs the test `child` of this binary in a process of its own that dies at `point`.
fn die_at(point: &str, scene: &Scene, child: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env("FAILPOINTS", format!("{point}=return"))
        .env("CRASH_SCENE", scene.directory.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), None, "{point} was not reached");
}

fn journal(scene: &Path) -> std::path::PathBuf {
    scene.join("journal.json")
}

fn recorded(scene: &Scene) -> Option<Step> {
    let content = std::fs::read(journal(scene.directory.path())).ok()?;
    Some(serde_json::from_slice(&content).unwrap())
}

fn drop_plan(engine: &worktree_engine::Engine, made: Provisioned) -> DropPlan {
    DropPlan {
        deletes_refs: vec![
            (made.checkout.branch.full_ref(), made.head.clone()),
            (made.checkout.base_ref(), made.checkout.base_commit.clone()),
        ],
        trash: engine.new_trash_path(),
        saved: Saved {
            head: made.head,
            committed: false,
            recovery_point: None,
            not_saved: Vec::new(),
            warnings: Vec::new(),
        },
        checkout: made.checkout,
    }
}

/// Not a test of its own: what the dying process does.
#[test]
fn provisioning_child() {
    let Some(scene) = std::env::var_os("CRASH_SCENE") else {
        return;
    };
    let scene = Path::new(&scene);
    let _points = fail::FailScenario::setup();
    let engine = engine(&scene.join("root"));
    let repository = engine.open_repository(&scene.join("repo")).unwrap();
    let plan = engine
        .plan_provision(&repository, &request(&repository, "t1"))
        .unwrap();
    engine
        .provision(&repository, &plan, &mut Journal(&journal(scene)))
        .unwrap();
}

/// Not a test of its own: what the dying process does.
#[test]
fn dropping_child() {
    let Some(scene) = std::env::var_os("CRASH_SCENE") else {
        return;
    };
    let scene = Path::new(&scene);
    let _points = fail::FailScenario::setup();
    let engine = engine(&scene.join("root"));
    let plan: DropPlan =
        serde_json::from_slice(&std::fs::read(scene.join("plan.json")).unwrap()).unwrap();
    engine
        .drop_checkout(&plan, &mut |_| Ok(()), &mut Journal(&journal(scene)))
        .unwrap();
}

#[test]
fn i5_a_provision_cut_short_anywhere_leaves_nothing_behind() {
    let points = [
        "provision.objects_written",
        "materialise.refs_made",
        "materialise.directory_made",
        "register.built",
        "register.git_file_written",
        "register.moved_in",
        "materialise.registered",
        "materialise.checked_out",
    ];
    for point in points {
        let scene = Scene::new();
        let before = scene.bystanders();
        die_at(point, &scene, "provisioning_child");
        if let Some(step) = recorded(&scene) {
            for _ in 0..2 {
                assert_eq!(
                    scene.engine.recover(&step).unwrap(),
                    Recovered::RolledBack,
                    "{point}"
                );
            }
        }
        assert_eq!(
            scene.git(&["for-each-ref", "refs/heads/clawboo", "refs/clawboo"]),
            "",
            "{point}"
        );
        assert_eq!(
            scene.git(&["worktree", "list"]).lines().count(),
            1,
            "{point}"
        );
        let ours: Vec<_> = std::fs::read_dir(scene.repo.join(".git"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with("clawboo-tmp-"))
            .collect();
        assert!(ours.is_empty(), "{point}: {ours:?}");
        assert!(git_succeeds(&scene.repo, &["fsck"]), "{point}");
        assert_eq!(scene.bystanders(), before, "{point}");
        assert_eq!(status(&scene.provision("t1").checkout), "", "{point}");
    }
}

#[test]
fn j9_a_drop_cut_short_anywhere_ends_whole_or_undone() {
    for point in [
        "drop.journalled",
        "drop.renamed",
        "unregister.moved_out",
        "drop.unregistered",
        "drop.refs_deleted",
    ] {
        let scene = Scene::new();
        let made = scene.provision("t1");
        let before = scene.bystanders();
        std::fs::write(
            made.checkout.path.join("late.txt"),
            "written after the save",
        )
        .unwrap();
        let plan = drop_plan(&scene.engine, made.clone());
        std::fs::write(
            scene.directory.path().join("plan.json"),
            serde_json::to_vec(&plan).unwrap(),
        )
        .unwrap();
        die_at(point, &scene, "dropping_child");
        let step = recorded(&scene).unwrap();
        match scene.engine.recover(&step).unwrap() {
            Recovered::RolledBack => {
                assert!(
                    scene.engine.probe(&made.checkout).unwrap().is_sound(),
                    "{point}"
                );
                assert_eq!(status(&made.checkout), "? late.txt", "{point}");
                assert_eq!(
                    git(&made.checkout.path, &["rev-parse", "HEAD"]),
                    made.head.as_str(),
                    "{point}"
                );
            }
            Recovered::Finished => {
                assert!(
                    !made.checkout.path.exists() && !made.checkout.admin_dir().exists(),
                    "{point}"
                );
                assert_eq!(
                    scene.git(&["for-each-ref", "refs/heads/clawboo", "refs/clawboo"]),
                    "",
                    "{point}"
                );
                assert_eq!(
                    scene.engine.recover(&step).unwrap(),
                    Recovered::Finished,
                    "{point}"
                );
            }
        }
        assert_eq!(scene.bystanders(), before, "{point}");
    }
}
