//! The handoff file: what is written, what is read, and what happens to it when things go wrong.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use worktree_engine::error::Error;
use worktree_engine::ids::SorDir;
use worktree_engine::sor::{
    Evidence, HANDOFF_FILE, Handoff, HandoffObserved, HandoffOrigin, MAX_FILE_BYTES, RoomCursor,
    parse_handoff, read_handoff, render_handoff, resume_state, write_handoff,
};

fn sor_dir(path: &str) -> SorDir {
    path.parse().unwrap()
}

fn handoff(from: &str) -> Handoff {
    Handoff {
        handoff_from: from.to_owned(),
        runtime: "codex".to_owned(),
        ..Handoff::default()
    }
}

#[test]
fn writes_two_space_json_with_defaults() {
    let checkout = tempfile::tempdir().unwrap();
    let mut given = handoff("runner-a");
    given.room_cursor = Some(RoomCursor {
        room_id: "r".to_owned(),
        last_seen_seq: 42,
        ..RoomCursor::default()
    });
    given.timestamp = "2026-01-02T03:04:05.000Z".to_owned();
    let written = write_handoff(checkout.path(), &sor_dir(""), &given).unwrap();
    let text = std::fs::read_to_string(checkout.path().join(HANDOFF_FILE)).unwrap();
    let expected = r#"{
  "handoffFrom": "runner-a",
  "runtime": "codex",
  "timestamp": "2026-01-02T03:04:05.000Z",
  "completedSubtasks": [],
  "brokenOrUnverified": [],
  "nextBestStep": "",
  "commands": {
    "init": "./init.sh",
    "verify": "",
    "start": ""
  },
  "evidence": {},
  "warnings": [],
  "roomCursor": {
    "roomId": "r",
    "lastSeenSeq": 42
  },
  "schemaVersion": 1
}
"#;
    assert_eq!(text, expected);
    let read = read_handoff(checkout.path(), &sor_dir(""));
    assert_eq!(read.handoff, Some(written.handoff));
    assert_eq!(read.digest, Some(written.digest));
    assert!(written.warnings.is_empty() && read.warnings.is_empty());
}

#[test]
fn fills_the_time_and_the_path_of_init() {
    let checkout = tempfile::tempdir().unwrap();
    let written = write_handoff(checkout.path(), &sor_dir(".task"), &handoff("a")).unwrap();
    assert_eq!(written.handoff.commands.init, "./.task/init.sh");
    let time = &written.handoff.timestamp;
    assert!(
        time.ends_with('Z') && time.parse::<jiff::Timestamp>().is_ok(),
        "{time}"
    );
    assert!(checkout.path().join(".task").join(HANDOFF_FILE).is_file());
}

#[test]
fn an_odd_timestamp_is_kept_with_a_warning() {
    let checkout = tempfile::tempdir().unwrap();
    let mut given = handoff("a");
    given.timestamp = "yesterday".to_owned();
    let written = write_handoff(checkout.path(), &sor_dir(""), &given).unwrap();
    assert_eq!(written.warnings[0].code, "TIMESTAMP_ODD");
    let state = resume_state(checkout.path(), &sor_dir(""), None);
    assert_eq!(state.handoff_time.as_deref(), Some("yesterday"));
}

#[test]
fn refuses_what_could_not_be_read_back() {
    let checkout = tempfile::tempdir().unwrap();
    let mut refused = vec![
        handoff(""),
        handoff(" "),
        handoff("a"),
        handoff("a"),
        handoff("a"),
        handoff("a"),
    ];
    refused[2].runtime.clear();
    refused[3].next_best_step = "x".repeat(MAX_FILE_BYTES as usize);
    refused[4]
        .extra
        .insert("runtime".to_owned(), Value::from("forged"));
    refused[5].room_cursor = Some(RoomCursor {
        last_seen_seq: -1,
        ..RoomCursor::default()
    });
    for given in refused {
        let error = write_handoff(checkout.path(), &sor_dir(""), &given).unwrap_err();
        assert!(matches!(error, Error::HandoffInvalid { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(checkout.path()).unwrap().count(), 0);
    let absent =
        write_handoff(&checkout.path().join("gone"), &sor_dir(""), &handoff("a")).unwrap_err();
    assert!(matches!(absent, Error::CheckoutAbsent { .. }), "{absent}");
}

#[test]
fn a_newer_schema_is_read_as_far_as_it_is_known() {
    let text = r#"{"schemaVersion": 7, "handoffFrom": "a", "runtime": "r", "timestamp": "2026-01-02T03:04:05Z", "mood": "good"}"#;
    let (handoff, warnings) = parse_handoff(text.as_bytes()).unwrap();
    assert_eq!(warnings[0].code, "HANDOFF_NEWER_SCHEMA");
    assert_eq!(handoff.extra_json(), r#"{"mood":"good"}"#);
    let checkout = tempfile::tempdir().unwrap();
    std::fs::write(checkout.path().join(HANDOFF_FILE), text).unwrap();
    assert!(
        resume_state(checkout.path(), &sor_dir(""), None).warnings[0].contains("schema version 7")
    );
}

#[test]
fn the_session_is_for_the_same_runtime_and_for_an_onlooker() {
    let checkout = tempfile::tempdir().unwrap();
    let mut given = handoff("a");
    given.native_session_id = Some("s".to_owned());
    write_handoff(checkout.path(), &sor_dir(""), &given).unwrap();
    let session = |runtime| resume_state(checkout.path(), &sor_dir(""), runtime).native_session_id;
    assert_eq!(session(Some("codex")).as_deref(), Some("s"));
    assert_eq!(session(None).as_deref(), Some("s"));
    assert_eq!(session(Some("")).as_deref(), Some("s"));
    assert_eq!(session(Some("claude-code")), None);
}

#[test]
fn l4_claims_stay_apart_from_what_was_observed() {
    let mut given = handoff("a");
    given.evidence = Evidence {
        test_results: Some("all passed".to_owned()),
        ..Evidence::default()
    };
    given.origin = Some(HandoffOrigin::Agent);
    given.observed = Some(HandoffObserved {
        head: "0".repeat(40),
        dirty: true,
        dirty_path_count: 2,
        dirty_paths: vec![b"a".to_vec().into(), b"\xff".to_vec().into()],
        ..HandoffObserved::default()
    });
    let bytes = render_handoff(&given);
    let json: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        json["evidence"],
        serde_json::json!({"testResults": "all passed"})
    );
    assert!(!json["observed"].to_string().contains("passed"));
    assert_eq!(parse_handoff(&bytes).unwrap().0, given);
}

#[test]
fn keys_of_ours_that_mean_something_else_are_unknown_keys() {
    let text =
        r#"{"handoffFrom":"a","runtime":"r","timestamp":"t","observed":"a bird","origin":{"x":1}}"#;
    let (handoff, _) = parse_handoff(text.as_bytes()).unwrap();
    assert_eq!((handoff.observed.clone(), handoff.origin), (None, None));
    let again: Value = serde_json::from_slice(&render_handoff(&handoff)).unwrap();
    assert_eq!(again["observed"], "a bird");
}

#[test]
fn l5_readers_never_see_half_a_file() {
    let checkout = tempfile::tempdir().unwrap();
    let root = sor_dir("");
    write_handoff(checkout.path(), &root, &handoff("w")).unwrap();
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0;
                    while !finished.load(Ordering::Relaxed) || reads == 0 {
                        let read = read_handoff(checkout.path(), &root);
                        assert_eq!(read.problem, None);
                        let seen = read.handoff.unwrap();
                        let marks: BTreeSet<&String> = seen.completed_subtasks.iter().collect();
                        assert!(marks.len() <= 1, "two writes in one file");
                        reads += 1;
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                scope.spawn({
                    let (checkout, root) = (checkout.path(), &root);
                    move || {
                        for round in 0..40 {
                            let mut given = handoff("w");
                            given.completed_subtasks =
                                vec![format!("{writer}-{round}"); 1 + round * 100];
                            write_handoff(checkout, root, &given).unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        finished.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.join().unwrap();
        }
    });
    assert_eq!(
        std::fs::read_dir(checkout.path()).unwrap().count(),
        1,
        "only the handoff is left"
    );
}

const CHECKOUT_OF_CHILD: &str = "SOR_HANDOFF_TEST_CHECKOUT";

/// Not a test of its own: the process that `l5_a_killed_writer_leaves_a_whole_file` kills.
#[test]
#[ignore = "runs only as a child of l5_a_killed_writer_leaves_a_whole_file"]
fn l5_child_that_writes_until_it_is_killed() {
    let Some(checkout) = std::env::var_os(CHECKOUT_OF_CHILD).map(PathBuf::from) else {
        return;
    };
    for round in 0_u64.. {
        let mut given = handoff("child");
        given.completed_subtasks = vec![format!("{}-{round}", std::process::id()); 2000];
        write_handoff(&checkout, &sor_dir(""), &given).unwrap();
    }
}

fn whole_digest(checkout: &Path) -> Option<String> {
    let read = read_handoff(checkout, &sor_dir(""));
    assert_eq!(read.problem, None);
    read.handoff.and(read.digest)
}

#[test]
fn l5_a_killed_writer_leaves_a_whole_file() {
    let checkout = tempfile::tempdir().unwrap();
    for kills in 0..25 {
        let before = whole_digest(checkout.path());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "l5_child_that_writes_until_it_is_killed",
                "--ignored",
            ])
            .env(CHECKOUT_OF_CHILD, checkout.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed at another point of its writing each time: after some of its writes were seen.
        let mut seen = BTreeSet::from([before]);
        while seen.len() < 2 + kills % 3 {
            seen.insert(whole_digest(checkout.path()));
            assert_eq!(
                child.try_wait().unwrap(),
                None,
                "the writer ended by itself"
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(whole_digest(checkout.path()).is_some());
    }
    write_handoff(checkout.path(), &sor_dir(""), &handoff("after")).unwrap();
    assert_eq!(
        std::fs::read_dir(checkout.path()).unwrap().count(),
        1,
        "what the killed ones left is gone"
    );
}

#[test]
fn l5_a_cut_file_is_a_problem_and_is_kept() {
    let checkout = tempfile::tempdir().unwrap();
    let path = checkout.path().join(HANDOFF_FILE);
    let whole = render_handoff(&handoff("a"));
    for length in 0..whole.len() - 2 {
        std::fs::write(&path, &whole[..length]).unwrap();
        let read = read_handoff(checkout.path(), &sor_dir(""));
        assert!(
            read.handoff.is_none() && read.problem.is_some(),
            "cut at {length}"
        );
        let state = resume_state(checkout.path(), &sor_dir(""), None);
        assert!(!state.has_handoff && state.warnings.len() == 1);
        assert_eq!(std::fs::read(&path).unwrap(), &whole[..length]);
    }
}

/// What the problem says of it, and how it is made.
type Obstacle<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn l10_what_is_no_handoff_file_is_a_problem_and_stays() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target.json");
    std::fs::write(&target, render_handoff(&handoff("outside"))).unwrap();
    let make: [Obstacle<'_>; 6] = [
        ("symbolic link", &|path| symlink(&target, path).unwrap()),
        ("symbolic link", &|path| symlink("nowhere", path).unwrap()),
        ("is a directory", &|path| std::fs::create_dir(path).unwrap()),
        ("not a regular file", &|path| {
            assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
        }),
        ("more than", &|path| {
            std::fs::File::create(path)
                .unwrap()
                .set_len(100 << 20)
                .unwrap();
        }),
        ("UTF-8", &|path| {
            std::fs::write(path, b"{\"handoffFrom\":\"\xff\"}").unwrap()
        }),
    ];
    for (expected, make) in make {
        let checkout = tempfile::tempdir().unwrap();
        make(&checkout.path().join(HANDOFF_FILE));
        let read = read_handoff(checkout.path(), &sor_dir(""));
        let problem = read.problem.unwrap();
        assert!(problem.contains(expected), "{problem}");
        assert_eq!(read.handoff, None);
        let state = resume_state(checkout.path(), &sor_dir(""), None);
        assert_eq!(state.warnings, [problem]);
        assert!(
            checkout
                .path()
                .join(HANDOFF_FILE)
                .symlink_metadata()
                .is_ok()
        );
    }
}

#[test]
fn l10_a_write_follows_no_link() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("target");
    std::fs::write(&target, "theirs").unwrap();
    let checkout = tempfile::tempdir().unwrap();
    symlink(&target, checkout.path().join(HANDOFF_FILE)).unwrap();
    write_handoff(checkout.path(), &sor_dir(""), &handoff("a")).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"theirs");
    assert!(
        read_handoff(checkout.path(), &sor_dir(""))
            .handoff
            .is_some()
    );

    symlink(outside.path(), checkout.path().join(".task")).unwrap();
    let error = write_handoff(checkout.path(), &sor_dir(".task"), &handoff("a")).unwrap_err();
    assert!(matches!(error, Error::HandoffInvalid { .. }), "{error}");
    std::fs::create_dir_all(checkout.path().join("dir").join(HANDOFF_FILE)).unwrap();
    let error = write_handoff(checkout.path(), &sor_dir("dir"), &handoff("a")).unwrap_err();
    assert!(matches!(error, Error::HandoffInvalid { .. }), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
