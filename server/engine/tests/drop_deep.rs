//! Alone in its process, because it takes the process's file handles away.
#![allow(clippy::unwrap_used)]

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::{Resource, Rlimit};
use worktree_engine::{Engine, EngineConfig};

#[test]
fn a_tree_deeper_than_the_file_handles_last_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::new(EngineConfig::new(directory.path().join("root"), "i")).unwrap();
    let dropped = directory.path().join("root/.trash/0");
    std::fs::create_dir(&dropped).unwrap();
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut at: OwnedFd = rustix::fs::openat(CWD, &dropped, flags, Mode::empty()).unwrap();
    // Deeper, too, than any path can be spelled.
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
        rustix::fs::mkdirat(&at, "e", Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, "d", flags, Mode::empty()).unwrap();
    }
    drop(at);
    let limit = Rlimit {
        current: Some(128),
        maximum: rustix::process::getrlimit(Resource::Nofile).maximum,
    };
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    let report = engine.empty_trash(10).unwrap();
    assert_eq!((report.deleted, report.waiting), (1, 0));
    assert!(!dropped.exists());
}
