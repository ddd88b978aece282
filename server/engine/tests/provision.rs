//! Provisioning against real git.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Scene, git, git_command, git_succeeds, request, status};
use worktree_engine::model::{DropPlan, Observer, Recovered, Saved, Step, Unobserved};
use worktree_engine::provision::Base;
use worktree_engine::registration::NewHead;
use worktree_engine::{Engine, EngineConfig, Error};

fn drop_plan(scene: &Scene, made: &worktree_engine::materialise::Provisioned) -> DropPlan {
    DropPlan {
        checkout: made.checkout.clone(),
        trash: scene.engine.new_trash_path(),
        deletes_refs: Vec::new(),
        saved: Saved {
            head: made.head.clone(),
            committed: false,
            recovery_point: None,
            not_saved: Vec::new(),
            warnings: Vec::new(),
        },
    }
}

#[test]
fn a_provisioned_checkout_is_whole_and_git_knows_it() {
    let scene = Scene::new();
    let before = scene.bystanders();
    let made = scene.provision("t1");
    assert_eq!(status(&made.checkout), "");
    assert_eq!(
        git(&made.checkout.path, &["symbolic-ref", "HEAD"]),
        "refs/heads/clawboo/task-t1"
    );
    assert_eq!(
        git(&made.checkout.path, &["rev-parse", "HEAD"]),
        made.checkout.base_commit.as_str()
    );
    assert_eq!(
        git(&made.checkout.path, &["rev-parse", "HEAD~1"]),
        scene.git(&["rev-parse", "main"])
    );
    assert!(
        scene
            .git(&["worktree", "list"])
            .contains(made.checkout.path.to_str().unwrap())
    );
    assert!(git_succeeds(&scene.repo, &["fsck", "--strict"]));
    assert!(
        !git_succeeds(&scene.repo, &["branch", "-D", "clawboo/task-t1"]),
        "git guards a branch that is checked out"
    );
    for name in ["TASK.md", "init.sh", "src/lib.rs"] {
        assert!(made.checkout.path.join(name).exists(), "{name}");
    }
    assert_eq!(scene.bystanders(), before);
}

#[test]
fn a_cold_provision_starts_at_most_four_git_processes() {
    let scene = Scene::new();
    let before = scene.engine.git_processes();
    let made = scene.provision("t1");
    assert!(
        scene.engine.git_processes() - before <= 4,
        "{}",
        scene.engine.git_processes() - before
    );
    let before = scene.engine.git_processes();
    assert!(scene.engine.probe(&made.checkout).unwrap().is_sound());
    assert_eq!(scene.engine.git_processes(), before);
}

#[test]
fn e4_a_repository_without_commits_is_told_from_a_head_whose_branch_is_gone() {
    let scene = Scene::new();
    scene.git(&["symbolic-ref", "HEAD", "refs/heads/gone"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::BaseNotFound { .. })
    ));
    scene.git(&["update-ref", "-d", "refs/heads/main"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::RepositoryHasNoCommits { .. })
    ));
}

#[test]
fn e1_the_base_is_what_was_asked_for() {
    let scene = Scene::new();
    let first = scene.git(&["rev-parse", "HEAD"]);
    scene.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let of = |task: &str, base: Base| {
        scene
            .try_provision(task, |request| request.base = base)
            .unwrap()
            .checkout
            .base_sha
            .to_string()
    };
    assert_eq!(of("a", Base::Head), scene.git(&["rev-parse", "HEAD"]));
    assert_eq!(of("b", Base::Ref("main~1".to_owned())), first);
    assert_eq!(of("c", Base::Sha(first.parse().unwrap())), first);
    for bad in ["--all", "", "no-such", "main\nmain", "HEAD:a.txt"] {
        let result = scene.try_provision("d", |request| request.base = Base::Ref(bad.to_owned()));
        assert!(
            matches!(
                result,
                Err(Error::BaseNotFound { .. }
                    | Error::Invalid {
                        field: "base_ref",
                        ..
                    })
            ),
            "{bad:?}"
        );
    }
}

#[test]
fn a_branch_that_holds_something_else_is_never_reset() {
    let scene = Scene::new();
    scene.git(&["branch", "clawboo/task-t1"]);
    scene.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let tip = scene.git(&["rev-parse", "clawboo/task-t1"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::BranchExists { .. })
    ));
    assert_eq!(scene.git(&["rev-parse", "clawboo/task-t1"]), tip);
    scene.git(&["checkout", "-q", "clawboo/task-t1"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::BranchCheckedOut { .. })
    ));
}

#[test]
fn a_branch_named_like_the_namespace_is_named_as_the_obstacle() {
    let scene = Scene::new();
    scene.git(&["branch", "clawboo"]);
    let result = scene.try_provision("t1", |_| {});
    assert!(
        matches!(&result, Err(Error::BranchNamespaceBlocked { branch }) if branch == "clawboo"),
        "{result:?}"
    );
}

#[test]
fn d4_a_leftover_directory_goes_to_custody_untouched() {
    let scene = Scene::new();
    let place = scene
        .engine
        .config()
        .root
        .join(scene.repository().repo_id())
        .join("t1");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("k"), "mine").unwrap();
    let made = scene.provision("t1");
    assert_eq!(made.warnings[0].code, "LEFTOVER_MOVED");
    let custody = std::fs::read_dir(scene.engine.config().root.join(".custody"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(std::fs::read(custody.path().join("k")).unwrap(), b"mine");
}

#[test]
fn a_mirror_whose_fetch_would_delete_our_refs_is_refused() {
    let scene = Scene::new();
    scene.git(&["config", "remote.origin.fetch", "+refs/*:refs/*"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::RepositoryIsMirror { .. })
    ));
}

#[test]
fn a_base_that_owns_a_file_of_the_system_of_record_is_refused_unless_it_lives_elsewhere() {
    let scene = Scene::new();
    std::fs::write(scene.repo.join("task.MD"), "theirs").unwrap();
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-q", "-m", "own"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::SorFileConflict { .. })
    ));
    let made = scene
        .try_provision("t1", |request| request.sor_dir = ".task".parse().unwrap())
        .unwrap();
    assert!(made.checkout.path.join(".task/TASK.md").exists());
    assert_eq!(
        std::fs::read(made.checkout.path.join("task.MD")).unwrap(),
        b"theirs"
    );
    assert!(matches!(
        scene.try_provision("t2", |request| request.sor_dir = "a.txt".parse().unwrap()),
        Err(Error::SorFileConflict { .. })
    ));
}

#[test]
fn e11_odd_names_of_repositories_are_only_bytes() {
    let scene = Scene::named("a b'\"$x\n-r", &["init", "-q", "-b", "main"]);
    assert_eq!(status(&scene.provision("t1").checkout), "");
}

#[test]
fn j7_repositories_of_sha256_objects_work() {
    let scene = Scene::with(&["init", "-q", "-b", "main", "--object-format=sha256"]);
    let made = scene.provision("t1");
    assert_eq!(made.head.as_str().len(), 64);
    assert_eq!(status(&made.checkout), "");
}

#[test]
fn n7_bare_repositories_with_worktree_configuration_work() {
    let mut scene = Scene::new();
    let bare = scene.directory.path().join("bare.git");
    git(
        scene.directory.path(),
        &["clone", "-q", "--bare", "repo", "bare.git"],
    );
    git(&bare, &["config", "core.repositoryFormatVersion", "1"]);
    git(&bare, &["config", "extensions.worktreeConfig", "true"]);
    scene.repo = bare.canonicalize().unwrap();
    let made = scene.provision("t1");
    assert_eq!(status(&made.checkout), "");
    assert_eq!(scene.git(&["config", "core.bare"]), "true");
}

#[test]
fn e13_a_detached_source_gives_a_task_branch_at_its_commit() {
    let scene = Scene::new();
    scene.git(&["checkout", "-q", "--detach"]);
    let made = scene.provision("t1");
    assert_eq!(
        made.checkout.base_sha.as_str(),
        scene.git(&["rev-parse", "HEAD"])
    );
    assert_eq!(
        git(&made.checkout.path, &["symbolic-ref", "--short", "HEAD"]),
        "clawboo/task-t1"
    );
}

#[test]
fn n13_hooks_and_monitors_of_the_repository_do_not_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let marker = scene.directory.path().join("ran");
    let script = format!("#!/bin/sh\ntouch '{}'\nexit 1\n", marker.display());
    let hooks = scene.directory.path().join("hooks");
    std::fs::create_dir(&hooks).unwrap();
    for name in [
        "post-checkout",
        "reference-transaction",
        "pre-commit",
        "monitor",
    ] {
        std::fs::write(hooks.join(name), &script).unwrap();
        std::fs::set_permissions(hooks.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    scene.git(&["config", "core.hooksPath", hooks.to_str().unwrap()]);
    scene.git(&[
        "config",
        "core.fsmonitor",
        hooks.join("monitor").to_str().unwrap(),
    ]);
    scene.git(&["config", "commit.gpgsign", "true"]);
    scene.provision("t1");
    assert!(!marker.exists());
}

#[test]
fn n16_a_torn_registration_of_somebody_else_is_in_nobodys_way() {
    let scene = Scene::new();
    for (name, file, content) in [
        ("ghost", "gitdir", "/nowhere/.git\n"),
        ("half", "commondir", ""),
    ] {
        let entry = scene.repo.join(".git/worktrees").join(name);
        std::fs::create_dir_all(&entry).unwrap();
        std::fs::write(entry.join(file), content).unwrap();
    }
    let made = scene.provision("t1");
    assert!(scene.engine.probe(&made.checkout).unwrap().is_sound());
    assert!(scene.repo.join(".git/worktrees/ghost").exists());
}

#[test]
fn e14_a_failure_leaves_no_branch_and_no_registration() {
    let scene = Scene::new();
    scene.git(&["config", "filter.broken.clean", "cat"]);
    scene.git(&["config", "filter.broken.smudge", "false"]);
    scene.git(&["config", "filter.broken.required", "true"]);
    std::fs::write(scene.repo.join(".gitattributes"), "b.bin filter=broken\n").unwrap();
    std::fs::write(scene.repo.join("b.bin"), "x").unwrap();
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-q", "-m", "filtered"]);
    assert!(matches!(
        scene.try_provision("t1", |_| {}),
        Err(Error::GitFailed { .. })
    ));
    assert_eq!(
        scene.git(&["for-each-ref", "refs/heads/clawboo", "refs/clawboo"]),
        ""
    );
    assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 1);
    assert!(
        !scene
            .engine
            .config()
            .root
            .join(scene.repository().repo_id())
            .join("t1")
            .exists()
    );
}

#[test]
fn i1_many_provisions_at_once_in_one_repository_all_succeed() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        for number in 0..32 {
            let scene = &scene;
            scope.spawn(move || {
                assert_eq!(status(&scene.provision(&format!("t{number}")).checkout), "")
            });
        }
    });
    assert_eq!(scene.git(&["worktree", "list"]).lines().count(), 33);
}

#[test]
fn i3_registrations_survive_the_users_own_prunes() {
    let scene = Scene::new();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let _ = git_command(&scene.repo)
                        .args(["worktree", "prune", "--expire", "now"])
                        .output();
                }
            });
        }
        let made: Vec<_> = (0..40)
            .map(|number| scene.provision(&format!("t{number}")))
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for one in made {
            assert!(scene.engine.probe(&one.checkout).unwrap().is_sound());
            assert_eq!(status(&one.checkout), "");
        }
    });
}

#[test]
fn a_dropped_checkout_is_gone_and_can_be_rebuilt_at_its_tip() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    scene
        .engine
        .drop_checkout(&drop_plan(&scene, &made), &mut |_| Ok(()), &mut Unobserved)
        .unwrap();
    assert!(!made.checkout.path.exists() && !made.checkout.admin_dir().exists());
    assert_eq!(scene.engine.empty_trash(10).unwrap().waiting, 0);
    let again = scene
        .engine
        .rebuild(
            &made.checkout,
            &NewHead::Branch(made.checkout.branch.clone()),
            &mut Unobserved,
        )
        .unwrap();
    assert_eq!(again.head, made.head);
    assert_eq!(status(&again.checkout), "");
    assert_ne!(again.checkout.identity, made.checkout.identity);
}

#[test]
fn a_drop_that_is_refused_at_the_last_moment_gives_everything_back() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let refuse = || Error::Busy {
        path: made.checkout.path.clone(),
        problem: "changed".to_owned(),
    };
    let result = scene.engine.drop_checkout(
        &drop_plan(&scene, &made),
        &mut |_| Err(refuse()),
        &mut Unobserved,
    );
    assert!(matches!(result, Err(Error::Busy { .. })));
    assert!(scene.engine.probe(&made.checkout).unwrap().is_sound());
    assert_eq!(status(&made.checkout), "");
}

#[test]
fn h14_a_link_in_place_of_the_checkout_drops_nothing() {
    let scene = Scene::new();
    let (a, b) = (scene.provision("a"), scene.provision("b"));
    std::fs::rename(&a.checkout.path, scene.directory.path().join("away")).unwrap();
    std::os::unix::fs::symlink(&b.checkout.path, &a.checkout.path).unwrap();
    let result =
        scene
            .engine
            .drop_checkout(&drop_plan(&scene, &a), &mut |_| Ok(()), &mut Unobserved);
    assert!(matches!(result, Err(Error::IdentityMismatch { .. })));
    assert_eq!(status(&b.checkout), "");
}

#[test]
fn h8_a_foreign_lock_is_respected() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    std::fs::write(
        made.checkout.admin_dir().join("locked"),
        "in use on my other machine",
    )
    .unwrap();
    let result =
        scene
            .engine
            .drop_checkout(&drop_plan(&scene, &made), &mut |_| Ok(()), &mut Unobserved);
    assert!(matches!(result, Err(Error::ForeignLock { .. })));
    assert!(made.checkout.path.exists());
}

#[test]
fn a_retargeted_git_file_stops_a_drop() {
    let scene = Scene::new();
    let (a, b) = (scene.provision("a"), scene.provision("b"));
    std::fs::copy(b.checkout.path.join(".git"), a.checkout.path.join(".git")).unwrap();
    let result =
        scene
            .engine
            .drop_checkout(&drop_plan(&scene, &a), &mut |_| Ok(()), &mut Unobserved);
    assert!(matches!(result, Err(Error::CheckoutRetargeted { .. })));
}

#[test]
fn h3_a_drop_leaves_registrations_of_others_alone() {
    let scene = Scene::new();
    let bystander = scene.directory.path().join("bystander");
    scene.git(&["worktree", "add", "-q", bystander.to_str().unwrap()]);
    let away = scene.directory.path().join("away");
    std::fs::rename(&bystander, &away).unwrap();
    let made = scene.provision("t1");
    scene
        .engine
        .drop_checkout(&drop_plan(&scene, &made), &mut |_| Ok(()), &mut Unobserved)
        .unwrap();
    std::fs::rename(&away, &bystander).unwrap();
    assert!(git_succeeds(&bystander, &["status"]));
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
fn undoing_a_provision_from_any_point_leaves_nothing_and_can_be_repeated() {
    let scene = Scene::new();
    let repository = scene.repository();
    let plan = scene
        .engine
        .plan_provision(&repository, &request(&repository, "t1"))
        .unwrap();
    let mut steps = Recording::default();
    let made = scene
        .engine
        .provision(&repository, &plan, &mut steps)
        .unwrap();
    for _ in 0..2 {
        assert_eq!(
            scene.engine.recover(&steps.0[0]).unwrap(),
            Recovered::RolledBack
        );
    }
    assert!(!made.checkout.path.exists() && !made.checkout.admin_dir().exists());
    assert_eq!(
        scene.git(&["for-each-ref", "refs/heads/clawboo", "refs/clawboo"]),
        ""
    );
}

#[test]
fn a_review_is_detached_and_its_files_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new();
    let repository = scene.repository();
    let review = worktree_engine::rebuild::ReviewRequest {
        id: worktree_engine::ids::WorktreeId::new(),
        repo_id: repository.repo_id(),
        task_id: "t1".parse().unwrap(),
        sha: scene.git(&["rev-parse", "HEAD"]).parse().unwrap(),
        filter_fingerprint: repository.config.filter_fingerprint(),
    };
    let made = scene
        .engine
        .create_review(&repository, &review, &mut Unobserved)
        .unwrap();
    assert!(!git_succeeds(
        &made.checkout.path,
        &["symbolic-ref", "-q", "HEAD"]
    ));
    let mode = std::fs::metadata(made.checkout.path.join("a.txt"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o222, 0);
}

#[test]
fn n15_an_old_git_is_refused_by_version() {
    let directory = tempfile::tempdir().unwrap();
    let result = Engine::new(EngineConfig {
        git_binary: Some(script(directory.path(), "echo git version 2.25.1")),
        ..EngineConfig::new(directory.path().join("root"), "i")
    });
    assert!(matches!(result, Err(Error::GitTooOld { found, .. }) if found == "2.25.1"));
}

#[test]
fn a_hanging_git_is_stopped_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let pid = directory.path().join("pid");
    let body = format!(
        "[ \"$#\" -gt 40 ] || true; case \"$*\" in *--version) echo git version 2.47.0;; *) sleep 600 & echo $! > '{}'; wait;; esac",
        pid.display()
    );
    let engine = Engine::new(EngineConfig {
        git_binary: Some(script(directory.path(), &body)),
        probe_deadline: std::time::Duration::from_millis(700),
        ..EngineConfig::new(directory.path().join("root"), "i")
    })
    .unwrap();
    let scene = Scene::new();
    let result = engine.open_repository(&scene.repo);
    assert!(
        matches!(result, Err(Error::GitTimeout { .. })),
        "{result:?}"
    );
    let child = std::fs::read_to_string(pid).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let stat = format!("/proc/{}/stat", child.trim());
        let status = std::fs::read_to_string(stat).unwrap_or_default();
        if status.is_empty() || status.contains(") Z ") {
            return;
        }
        assert!(std::time::Instant::now() < until, "{status}");
        std::thread::yield_now();
    }
}

fn script(at: &std::path::Path, body: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = at.join("git");
    std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_bind_mount_in_the_trash_keeps_what_is_mounted() {
    let scene = Scene::new();
    let precious = scene.directory.path().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("data"), "mine").unwrap();
    let dropped = scene.engine.config().root.join(".trash/dropped");
    let inside = dropped.join("target");
    std::fs::create_dir_all(&inside).unwrap();
    let mount = |arguments: &[&std::ffi::OsStr]| {
        std::process::Command::new("mount").args(arguments).status()
    };
    let mounted = mount(&["--bind".as_ref(), precious.as_os_str(), inside.as_os_str()]);
    if !mounted.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "in CI nothing may skip");
        eprintln!("skipped: this user cannot mount");
        return;
    }
    let report = scene.engine.empty_trash(10);
    let unmounted = std::process::Command::new("umount")
        .arg(&inside)
        .status()
        .unwrap();
    assert!(unmounted.success());
    assert_eq!(report.unwrap().waiting, 1);
    assert_eq!(std::fs::read(precious.join("data")).unwrap(), b"mine");
}

#[test]
fn what_stands_at_the_path_after_a_cut_short_drop_is_kept_beside_what_was_dropped() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let plan = drop_plan(&scene, &made);
    std::fs::write(made.checkout.path.join("late"), "x").unwrap();
    std::fs::rename(&made.checkout.path, &plan.trash).unwrap();
    std::fs::create_dir_all(made.checkout.path.join("target")).unwrap();
    assert_eq!(
        scene.engine.recover(&Step::Drop(plan)).unwrap(),
        Recovered::RolledBack
    );
    assert_eq!(
        std::fs::read(made.checkout.path.join("late")).unwrap(),
        b"x"
    );
    let custody = std::fs::read_dir(scene.engine.config().root.join(".custody")).unwrap();
    assert_eq!(custody.count(), 1);
}

#[test]
fn n13_a_filter_defined_after_provision_is_not_run_on_the_way_back() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    scene
        .engine
        .drop_checkout(&drop_plan(&scene, &made), &mut |_| Ok(()), &mut Unobserved)
        .unwrap();
    let marker = scene.directory.path().join("ran");
    scene.git(&[
        "config",
        "filter.evil.smudge",
        &format!("touch '{}'; cat", marker.display()),
    ]);
    std::fs::create_dir_all(scene.repo.join(".git/info")).unwrap();
    std::fs::write(scene.repo.join(".git/info/attributes"), "* filter=evil\n").unwrap();
    let head = NewHead::Branch(made.checkout.branch.clone());
    let again = scene
        .engine
        .rebuild(&made.checkout, &head, &mut Unobserved)
        .unwrap();
    assert!(!marker.exists());
    assert!(
        again
            .warnings
            .iter()
            .any(|warning| warning.code == "FILTER_CHANGED")
    );
}

#[test]
fn a_submodules_repository_is_never_deleted_with_the_registration() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let module = made.checkout.admin_dir().join("modules/sm");
    std::fs::create_dir_all(&module).unwrap();
    std::fs::write(module.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let result =
        scene
            .engine
            .drop_checkout(&drop_plan(&scene, &made), &mut |_| Ok(()), &mut Unobserved);
    assert!(matches!(result, Err(Error::SubmoduleRepository { .. })));
    assert!(module.join("HEAD").exists());
}

#[test]
fn a_fetch_pattern_that_reaches_our_refs_is_seen() {
    for refspec in [
        "+refs/heads/c*:refs/heads/c*",
        "+refs/heads/*:refs/heads/*",
        "+refs/c*:refs/c*",
    ] {
        let scene = Scene::new();
        scene.git(&["config", "remote.origin.fetch", refspec]);
        assert!(
            matches!(
                scene.try_provision("t1", |_| {}),
                Err(Error::RepositoryIsMirror { .. })
            ),
            "{refspec}"
        );
    }
    let scene = Scene::new();
    scene.git(&[
        "config",
        "remote.origin.fetch",
        "+refs/heads/*:refs/remotes/origin/*",
    ]);
    scene.provision("t1");
}
