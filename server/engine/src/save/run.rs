//! One save from beginning to end: decide how, read, commit, pin, and prove that nothing moved meanwhile.

use super::admin::AdminFile;
use super::commit::{Known, commit};
use super::manifest::Purpose;
use super::raw::RawFiles;
use super::subject::{Head, Subject, read_head};
use super::walk::Walk;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::model::{Checkout, Observer, SaveMode, Saved, Warning};
use crate::objects::ObjectWriter;
use crate::recovery::Contents;

/// How often a checkout that changes under a save is read again.
const ATTEMPTS: usize = 3;

/// What a save is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'a> {
    /// How.
    pub(crate) mode: SaveMode,
    /// The commit message.
    pub(crate) message: &'a str,
    /// Whether the directory is dropped afterwards.
    pub(crate) dropping: bool,
    /// Whether a recovery point is pinned even where the commit holds everything.
    pub(crate) always_pin: bool,
    /// Whether what cannot be saved may be lost with the directory.
    pub(crate) force: bool,
}

/// What a save did, and what it saw: a drop compares once more before it deletes.
pub(crate) struct Done<'a> {
    /// The checkout.
    pub(crate) subject: Subject<'a>,
    /// What it held.
    pub(crate) walk: Walk,
    /// What its admin directory held afterwards: HEAD, its log, the index.
    admin_files: Vec<AdminFile>,
    /// For the caller.
    pub(crate) saved: Saved,
}

/// Saves; reads again while the checkout changes, a few times, then gives up as busy.
pub(crate) fn save<'a>(
    engine: &'a Engine,
    checkout: &'a Checkout,
    request: Request<'_>,
    observer: &mut dyn Observer,
) -> Result<Done<'a>> {
    let mut committed = false;
    let mut attempt = 1;
    loop {
        match save_once(engine, checkout, request, &mut committed, observer) {
            Err(Error::Busy { .. }) if attempt < ATTEMPTS => attempt += 1,
            other => return other,
        }
    }
}

/// Looks at a checkout as a save does, and saves nothing.
pub(crate) fn look<'a>(engine: &'a Engine, checkout: &'a Checkout) -> Result<Done<'a>> {
    let subject = Subject::open(engine, checkout)?;
    subject.refuse_unsavable()?;
    super::admin::refuse_held_lock(&subject.admin)?;
    let walk = subject.walk(&subject.root)?;
    walk.refuse_strange(&subject.root)?;
    let head = subject.head.commit.clone();
    let head = head.unwrap_or_else(|| checkout.base_commit.clone());
    let admin_files = admin_unchanged(&subject, subject.index.bytes.as_ref())?;
    Ok(Done {
        subject,
        walk,
        admin_files,
        saved: crate::operations::untouched(head),
    })
}

fn save_once<'a>(
    engine: &'a Engine,
    checkout: &'a Checkout,
    request: Request<'_>,
    committed: &mut bool,
    observer: &mut dyn Observer,
) -> Result<Done<'a>> {
    let subject = Subject::open(engine, checkout)?;
    subject.refuse_unsavable()?;
    if request.dropping {
        engine.refuse_foreign_lock(checkout)?;
        super::admin::refuse_held_lock(&subject.admin)?;
    }
    let mut walk = subject.walk(&subject.root)?;
    walk.refuse_strange(&subject.root)?;
    let conversions = subject.conversions(&walk)?;
    let mut objects = ObjectWriter::new(subject.repository.odb()?);
    let raw = RawFiles::read(&subject, &mut walk, &conversions, &mut objects, observer)?;
    if request.dropping && !request.force {
        refuse_unsaved(&subject, &walk)?;
    }
    let mut warnings = Vec::new();
    let mode = effective_mode(&subject, request.mode, &mut warnings);
    let made = match mode {
        SaveMode::Commit => {
            let known = Known {
                raw: &raw,
                conversions: &conversions,
            };
            pin_staged(&subject, &walk, &raw, request, &mut objects)?;
            commit(&subject, &walk, known, &mut objects, request.message)?
        }
        SaveMode::Snapshot => None,
    };
    let head = Head {
        commit: made
            .as_ref()
            .map(|made| made.commit.clone())
            .or_else(|| subject.head.commit.clone()),
        symbolic: subject.head.symbolic.clone(),
    };
    *committed |= made.is_some();
    let index = made.map(|made| made.index);
    let index = index.as_ref().or(subject.index.bytes.as_ref());
    let admin_files = admin_unchanged(&subject, index)?;
    let forced = request.dropping && stops(&walk).next().is_some();
    let contents = Contents::gather(&subject, &walk, &raw, head.commit.clone())?;
    let beyond = mode == SaveMode::Commit && contents.exceeds_commit(request.dropping)?;
    if beyond {
        warnings.push(Warning::new(
            "RAW_BYTES_PINNED",
            "the commit alone would not bring everything back as it is (bytes, modes, empty directories, staged or \
             left-out content); the recovery point holds it",
        ));
    }
    let recovery_point = match mode {
        SaveMode::Snapshot => {
            Some(contents.pin(&mut objects, Purpose::Snapshot, request.message)?)
        }
        SaveMode::Commit if beyond || forced || request.always_pin => {
            Some(contents.pin(&mut objects, Purpose::BesideCommit, request.message)?)
        }
        SaveMode::Commit => None,
    };
    verify(&subject, &walk)?;
    if read_head(engine, checkout)? != head {
        return Err(super::raw::changed(&subject, b"HEAD"));
    }
    let head = head.commit.unwrap_or_else(|| checkout.base_commit.clone());
    let saved = Saved {
        head,
        committed: *committed,
        recovery_point,
        not_saved: walk.not_saved.clone(),
        warnings,
    };
    Ok(Done {
        subject,
        walk,
        admin_files,
        saved,
    })
}

/// Pins what only the index has, before a commit replaces the index: a crash between the two would lose it.
fn pin_staged(
    subject: &Subject<'_>,
    walk: &Walk,
    raw: &RawFiles,
    request: Request<'_>,
    objects: &mut ObjectWriter,
) -> Result<()> {
    let contents = Contents::gather(subject, walk, raw, subject.head.commit.clone())?;
    if contents.has_staged_only() {
        contents.pin(objects, Purpose::BesideCommit, request.message)?;
    }
    Ok(())
}

/// A commit only where the task's branch is checked out, settled, and its filters are the ones seen at provision.
fn effective_mode(subject: &Subject<'_>, mode: SaveMode, warnings: &mut Vec<Warning>) -> SaveMode {
    if mode == SaveMode::Snapshot {
        return mode;
    }
    if !subject.filters_are_known() {
        warnings.push(Warning::new(
            "FILTER_CHANGED",
            "a content filter is not the one seen at provision and was not run; saved as a snapshot",
        ));
        return SaveMode::Snapshot;
    }
    let why = match &subject.head {
        head if head.symbolic.is_none() => "HEAD is detached",
        _ if !subject.is_on_branch() => "another branch is checked out",
        head if head.commit.is_none() => "the branch has no commit",
        // Its holder will write an index that knows nothing of a commit made meanwhile, and would undo it.
        _ if subject.admin.join("index.lock").exists() => "the index is locked by somebody else",
        _ if subject.index.is_unmerged() => "the index has unsettled conflicts",
        _ => return mode,
    };
    let text = format!("{why}; saved as a snapshot");
    warnings.push(Warning::new("SAVED_AS_SNAPSHOT", text));
    SaveMode::Snapshot
}

fn stops(walk: &Walk) -> impl Iterator<Item = &crate::model::NotSaved> {
    walk.not_saved
        .iter()
        .filter(|left| left.reason.stops_a_drop())
}

/// Refuses to go on to a drop while something would be lost.
fn refuse_unsaved(subject: &Subject<'_>, walk: &Walk) -> Result<()> {
    let Some(first) = stops(walk).next() else {
        return Ok(());
    };
    Err(Error::UnsavedWork {
        path: subject.checkout.path.clone(),
        first: super::subject::lossy(&first.path),
        total: stops(walk).count(),
        not_saved: walk.not_saved.clone(),
    })
}

/// The admin files by now; whoever staged something since the index was read makes the save start over.
fn admin_unchanged(subject: &Subject<'_>, index: Option<&Vec<u8>>) -> Result<Vec<AdminFile>> {
    let files = super::admin::files(&subject.admin)?;
    let found = files.iter().find(|(path, _)| path == b"index");
    if found.map(|(_, content)| content) == index {
        Ok(files)
    } else {
        Err(super::raw::changed(subject, b"index"))
    }
}

/// Whether everything still is as it was read.
fn verify(subject: &Subject<'_>, walk: &Walk) -> Result<()> {
    for (path, stamp) in &walk.files {
        if subject.root.stamp(path) != Ok(*stamp) {
            return Err(super::raw::changed(subject, path));
        }
    }
    Ok(())
}

impl Done<'_> {
    /// Whether the checkout is as it was made: HEAD, index and files, ignored build products aside.
    pub(crate) fn is_unchanged(&self) -> Result<bool> {
        let subject = &self.subject;
        let at_base = subject.head.commit.as_ref() == Some(&subject.checkout.base_commit);
        let beyond_git =
            stops(&self.walk).next().is_some() || !self.walk.empty_directories.is_empty();
        if !at_base || beyond_git || crate::diff::staged_differs(subject, subject.checkout) {
            return Ok(false);
        }
        let index = super::commit::private_index(subject, &self.walk, &[])?;
        let tree = super::commit::write_tree(subject, &index, &[])?;
        let objects = ObjectWriter::new(subject.repository.odb()?);
        Ok(objects.commit_tree(super::tree::object_id(&subject.checkout.base_commit)?)? == tree)
    }

    /// Compares the directory, by now at `path`, with what was saved: the last look before it goes.
    pub(crate) fn verify_at(&self, path: &std::path::Path) -> Result<()> {
        let root = super::dir::Root::open(path)?;
        let now = self.subject.walk(&root)?;
        let files = |walk: &Walk| -> Vec<(Vec<u8>, super::dir::Stamp)> {
            walk.files
                .iter()
                .filter(|(path, _)| !self.walk.unknown.contains(*path))
                .map(|(path, stamp)| (path.clone(), *stamp))
                .collect()
        };
        let kept = |walk: &Walk| -> Vec<crate::model::NotSaved> {
            stops(walk)
                .filter(|left| left.reason == crate::model::NotSavedReason::IgnoredKept)
                .cloned()
                .collect()
        };
        let same = files(&now) == files(&self.walk)
            && now.empty_directories == self.walk.empty_directories
            && now.directory_modes == self.walk.directory_modes
            && kept(&now) == kept(&self.walk)
            && super::admin::files(&self.subject.admin)? == self.admin_files;
        now.refuse_strange(&root)?;
        if same {
            Ok(())
        } else {
            Err(Error::Busy {
                path: self.subject.checkout.path.clone(),
                problem: "it changed after it was saved".to_owned(),
            })
        }
    }
}
