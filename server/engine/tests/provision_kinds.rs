//! Repositories and machines of every kind, against real git.
#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Scene, engine, git, git_succeeds, request, status};
use worktree_engine::Error;
use worktree_engine::lock::{LockReason, LockState};
use worktree_engine::model::Unobserved;
use worktree_engine::probe::{DirectoryState, RegistrationState};

/// Not a test of its own: what runs in a process whose environment points elsewhere.
#[test]
fn provisioning_child() {
    let Some(scene) = std::env::var_os("KINDS_SCENE") else {
        return;
    };
    let scene = Path::new(&scene);
    let engine = engine(&scene.join("root"));
    let repository = engine.open_repository(&scene.join("repo")).unwrap();
    let plan = engine
        .plan_provision(&repository, &request(&repository, "t1"))
        .unwrap();
    let made = engine
        .provision(&repository, &plan, &mut Unobserved)
        .unwrap();
    assert!(made.checkout.path.join("a.txt").exists());
}

#[test]
fn g6_variables_of_git_in_the_environment_lead_nowhere() {
    let (scene, other) = (Scene::new(), Scene::new());
    let before = other.bystanders();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "provisioning_child"])
        .env("KINDS_SCENE", scene.directory.path())
        .env("GIT_DIR", other.repo.join(".git"))
        .env("GIT_WORK_TREE", &other.repo)
        .env("GIT_INDEX_FILE", other.repo.join(".git/index"))
        .env("GIT_OBJECT_DIRECTORY", other.repo.join(".git/objects"))
        .env("GIT_CONFIG_PARAMETERS", "'core.bare'='true'")
        .status()
        .unwrap();
    assert!(status.success());
    assert!(git_succeeds(
        &scene.repo,
        &["rev-parse", "--verify", "clawboo/task-t1"]
    ));
    assert_eq!(other.bystanders(), before);
}

#[test]
fn c3_c18_neither_an_identity_nor_a_signing_key_is_asked_for() {
    let scene = Scene::new();
    scene.git(&["config", "user.useConfigOnly", "true"]);
    scene.git(&["config", "commit.gpgSign", "true"]);
    scene.git(&["config", "gpg.program", "/bin/false"]);
    let made = scene.provision("t1");
    let author = git(&made.checkout.path, &["log", "-1", "--format=%an <%ae>"]);
    assert_eq!(author, "worktreed <worktreed@localhost>");
}

#[test]
fn g4_g7_f10_nothing_of_the_source_changes() {
    let scene = Scene::new();
    std::fs::write(scene.repo.join("a.txt"), "edited by the user\n").unwrap();
    scene.git(&["add", "a.txt"]);
    std::fs::write(scene.repo.join("src/lib.rs"), "edited again\n").unwrap();
    let before = scene.bystanders();
    let made = scene.provision("t1");
    assert_eq!(scene.bystanders(), before);
    assert_eq!(
        std::fs::read_to_string(made.checkout.path.join("a.txt")).unwrap(),
        "one\ntwo\n"
    );
}

#[test]
fn shallow_clones_and_linked_worktrees_are_repositories_too() {
    let scene = Scene::new();
    scene.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let url = format!("file://{}", scene.repo.display());
    let shallow = scene.directory.path().join("shallow");
    let target = shallow.to_str().unwrap();
    scene.git(&["clone", "-q", "--depth=1", &url, target]);
    let linked = scene.directory.path().join("linked");
    scene.git(&["worktree", "add", "-q", linked.to_str().unwrap(), "HEAD~1"]);
    let first = git(&linked, &["rev-parse", "HEAD"]);
    for (task, at) in [("shallow", &shallow), ("linked", &linked)] {
        let repository = scene.engine.open_repository(at).unwrap();
        let plan = scene
            .engine
            .plan_provision(&repository, &request(&repository, task))
            .unwrap();
        let made = scene
            .engine
            .provision(&repository, &plan, &mut Unobserved)
            .unwrap();
        assert_eq!(status(&made.checkout), "", "{task}");
        if task == "linked" {
            assert_eq!(made.checkout.base_sha.as_str(), first);
        }
    }
}

#[test]
fn n7_a_checkout_of_a_bare_repository_can_be_the_source_of_the_next() {
    let scene = Scene::new();
    let bare = scene.directory.path().join("bare.git");
    scene.git(&["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    git(&bare, &["config", "core.repositoryFormatVersion", "1"]);
    git(&bare, &["config", "extensions.worktreeConfig", "true"]);
    let mut at = bare;
    for task in ["t1", "t2"] {
        let repository = scene.engine.open_repository(&at).unwrap();
        let plan = scene
            .engine
            .plan_provision(&repository, &request(&repository, task))
            .unwrap();
        let made = scene
            .engine
            .provision(&repository, &plan, &mut Unobserved)
            .unwrap();
        assert_eq!(status(&made.checkout), "", "{task}");
        at = made.checkout.path;
    }
}

#[test]
fn a_work_tree_setting_moved_out_of_the_shared_configuration_is_accepted() {
    let scene = Scene::new();
    scene.git(&["config", "core.repositoryFormatVersion", "1"]);
    scene.git(&["config", "extensions.worktreeConfig", "true"]);
    let top = scene.repo.to_str().unwrap();
    scene.git(&["config", "core.worktree", top]);
    let refused = scene.engine.open_repository(&scene.repo);
    assert!(matches!(refused, Err(Error::RepositoryUnsupported { .. })));
    scene.git(&["config", "--unset", "core.worktree"]);
    scene.git(&["config", "--worktree", "core.worktree", top]);
    assert_eq!(status(&scene.provision("t1").checkout), "");
}

#[test]
fn d1_a_task_branch_that_is_checked_out_elsewhere_is_named_with_its_place() {
    let scene = Scene::new();
    let elsewhere = scene.directory.path().join("elsewhere");
    let path = elsewhere.to_str().unwrap();
    scene.git(&["worktree", "add", "-q", "-b", "clawboo/task-t1", path]);
    let holder = elsewhere.canonicalize().unwrap();
    let at_base = scene.try_provision("t1", |_| {});
    assert!(
        matches!(&at_base, Err(Error::BranchCheckedOut { path, .. }) if *path == holder),
        "{at_base:?}"
    );
    git(&elsewhere, &["commit", "-q", "--allow-empty", "-m", "own"]);
    let with_work = scene.try_provision("t1", |_| {});
    assert!(
        matches!(&with_work, Err(Error::BranchCheckedOut { path, .. }) if *path == holder),
        "{with_work:?}"
    );
    assert_eq!(git(&elsewhere, &["status", "--porcelain"]), "");
}

#[test]
fn n16_an_entry_whose_files_are_directories_is_in_nobodys_way() {
    let scene = Scene::new();
    scene.git(&["branch", "clawboo/task-t1"]);
    let torn = scene.repo.join(".git/worktrees/torn");
    std::fs::create_dir_all(torn.join("HEAD")).unwrap();
    let made = scene.provision("t1");
    assert!(scene.engine.probe(&made.checkout).unwrap().is_sound());
}

#[test]
fn what_the_base_has_and_the_service_leaves_alone_is_said() {
    let scene = Scene::new();
    std::fs::write(scene.repo.join(".gitmodules"), "").unwrap();
    std::fs::create_dir(scene.repo.join(".devcontainer")).unwrap();
    std::fs::write(scene.repo.join(".devcontainer/devcontainer.json"), "{}").unwrap();
    scene.git(&["add", "-A"]);
    scene.git(&["commit", "-q", "-m", "more"]);
    let made = scene.provision("t1");
    let codes: Vec<&str> = made.warnings.iter().map(|one| &*one.code).collect();
    assert_eq!(
        codes,
        ["SUBMODULES_NOT_INITIALISED", "DEVCONTAINER_PRESENT"]
    );
}

#[test]
fn a_sparse_source_gives_a_full_checkout() {
    let scene = Scene::new();
    scene.git(&["config", "core.sparseCheckout", "true"]);
    std::fs::write(scene.repo.join(".git/info/sparse-checkout"), "/a.txt\n").unwrap();
    let made = scene.provision("t1");
    assert!(made.checkout.path.join("src/lib.rs").exists());
    assert_eq!(status(&made.checkout), "");
}

#[test]
fn e14_a_parent_that_cannot_be_made_leaves_nothing() {
    let scene = Scene::new();
    let repository = scene.repository();
    std::fs::write(
        scene.engine.config().root.join(repository.repo_id()),
        "a file where a directory belongs",
    )
    .unwrap();
    let before = scene.bystanders();
    assert!(scene.try_provision("t1", |_| {}).is_err());
    assert_eq!(
        scene.git(&["for-each-ref", "refs/heads/clawboo", "refs/clawboo"]),
        ""
    );
    assert_eq!(scene.bystanders(), before);
}

#[test]
fn a_leftover_is_reported_even_if_the_first_attempt_fails() {
    let scene = Scene::new();
    let repository = scene.repository();
    // Fails once: the file that it counts by is there the second time.
    let counter = scene.directory.path().join("counted");
    let smudge = format!(
        "if [ -e '{0}' ]; then cat; else : > '{0}'; exit 1; fi",
        counter.display()
    );
    std::fs::write(scene.repo.join(".gitattributes"), "a.txt filter=once\n").unwrap();
    scene.git(&["config", "filter.once.smudge", &smudge]);
    scene.git(&["config", "filter.once.required", "true"]);
    scene.git(&["config", "filter.once.clean", "cat"]);
    scene.git(&["add", ".gitattributes"]);
    scene.git(&["commit", "-q", "-m", "filtered"]);
    let path = scene
        .engine
        .config()
        .root
        .join(repository.repo_id())
        .join("t1");
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("old.txt"), "left").unwrap();
    let made = scene.provision("t1");
    assert!(counter.exists());
    assert_eq!(made.warnings[0].code, "LEFTOVER_MOVED");
}

#[test]
fn a_probe_tells_what_is_gone_and_starts_no_process() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let before = scene.engine.git_processes();
    let sound = scene.engine.probe(&made.checkout).unwrap();
    assert!(sound.is_sound() && sound.lock == LockState::Ours);
    std::fs::rename(made.checkout.admin_dir(), scene.directory.path().join("a")).unwrap();
    let probe = scene.engine.probe(&made.checkout).unwrap();
    assert_eq!(probe.registration, RegistrationState::Missing);
    std::fs::rename(&made.checkout.path, scene.directory.path().join("b")).unwrap();
    let probe = scene.engine.probe(&made.checkout).unwrap();
    assert_eq!(probe.directory, DirectoryState::Missing);
    std::fs::create_dir(&made.checkout.path).unwrap();
    let probe = scene.engine.probe(&made.checkout).unwrap();
    assert_eq!(probe.directory, DirectoryState::OtherIdentity);
    assert_eq!(scene.engine.git_processes(), before);
}

#[test]
fn a_lock_reason_is_one_line_whatever_the_holder_calls_itself() {
    let scene = Scene::new();
    let made = scene.provision("t1");
    let reason = LockReason {
        task: "t1".to_owned(),
        holder: format!("evil\n\u{1b}[31m{}", "é".repeat(500)),
        pid: 7,
        ..LockReason::default()
    };
    scene
        .engine
        .write_lock_reason(&made.checkout, &reason)
        .unwrap();
    let text = std::fs::read_to_string(made.checkout.admin_dir().join("locked")).unwrap();
    assert!(text.trim_end().len() <= 200, "{text:?}");
    assert!(!text.trim_end().contains(char::is_control), "{text:?}");
    assert_eq!(
        scene.engine.lock_state(&made.checkout).unwrap(),
        LockState::Ours
    );
}
