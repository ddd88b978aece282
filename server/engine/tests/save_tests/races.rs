//! An agent that goes on working while its checkout is saved or dropped loses nothing.

use std::fs;
use std::path::PathBuf;

use worktree_engine::error::{Error, Result};
use worktree_engine::model::{Observer, SaveMode, Step};

use crate::support::{BOTH, Lab, git, write};

/// Does something at the last moment: when everything is saved and the directory is about to go.
struct AtDrop<F: FnMut()>(F);

impl<F: FnMut()> Observer for AtDrop<F> {
    fn step(&mut self, step: &Step) -> Result<()> {
        if matches!(step, Step::Drop(_)) {
            (self.0)();
        }
        Ok(())
    }

    fn progress(&mut self, _stage: &'static str, _done: u64, _total: u64) {}
}

fn refused(lab: &Lab, mode: SaveMode, late: impl FnMut()) {
    let mut observer = AtDrop(late);
    let result = lab
        .engine
        .pause(&lab.checkout, mode, false, "clawboo: pause", &mut observer);
    assert!(matches!(result, Err(Error::Busy { .. })), "{result:?}");
    assert!(lab.path("a.txt").exists() && lab.checkout.admin_dir().exists());
}

#[test]
fn file_written_after_the_save_stops_the_drop() {
    for mode in BOTH {
        let lab = Lab::new();
        write(lab.path("a.txt"), "saved\n");
        let late: PathBuf = lab.path("late");
        refused(&lab, mode, || write(&late, "late\n"));
        assert_eq!(fs::read(&late).unwrap(), b"late\n");
        if mode == SaveMode::Commit {
            // The index went along with the branch: the agent's next commit would otherwise undo the save.
            assert_eq!(lab.status(), "? late\n");
        }
        lab.pause(mode).unwrap();
    }
}

#[test]
fn edit_that_hides_behind_its_old_time_stops_the_drop() {
    let lab = Lab::new();
    let file = lab.path("a.txt");
    let mtime = fs::metadata(&file).unwrap().modified().unwrap();
    refused(&lab, SaveMode::Snapshot, || {
        let open = fs::File::options().write(true).open(&file).unwrap();
        std::io::Write::write_all(&mut &open, b"ONE").unwrap();
        open.set_times(fs::FileTimes::new().set_modified(mtime))
            .unwrap();
    });
}

#[test]
fn commit_or_staging_after_the_save_stops_the_drop() {
    for mode in BOTH {
        let lab = Lab::new();
        write(lab.path("a.txt"), "saved\n");
        lab.git(&["add", "a.txt"]);
        let path = lab.checkout.path.clone();
        refused(&lab, mode, || {
            drop(git(&path, &["commit", "-qm", "late", "--allow-empty"]))
        });
        let blob = lab.dir.path().join("content");
        write(&blob, "staged late\n");
        refused(&lab, mode, || {
            let id = git(&path, &["hash-object", "-w", blob.to_str().unwrap()]);
            let entry = format!("100644,{},a.txt", id.trim());
            git(&path, &["update-index", "--cacheinfo", &entry]);
        });
    }
}

#[test]
fn secret_made_after_the_save_stops_the_drop() {
    let lab = Lab::new();
    let secret = lab.path(".env");
    refused(&lab, SaveMode::Commit, || write(&secret, "TOKEN=1\n"));
    assert!(secret.exists());
}

#[test]
fn nested_repository_made_after_the_save_stops_the_drop() {
    let lab = Lab::new();
    let nested = lab.path("target/nested");
    let mut observer = AtDrop(|| {
        fs::create_dir_all(&nested).unwrap();
        git(&nested, &["init", "-q"]);
    });
    let result = lab.engine.pause(
        &lab.checkout,
        SaveMode::Commit,
        false,
        "clawboo: pause",
        &mut observer,
    );
    assert!(
        matches!(result, Err(Error::NestedRepository { .. })),
        "{result:?}"
    );
    assert!(nested.exists());
}
