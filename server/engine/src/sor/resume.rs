//! What a cold runtime needs to go on, from the files of the checkout and nothing else (law 9).

use std::path::Path;

use super::handoff_json::{MISSING_TIMESTAMP, NEWER_SCHEMA};
use super::{
    Commands, Handoff, HandoffRead, INIT_FILE, InitSlots, MAX_FILE_BYTES, PROGRESS_FILE,
    default_init, parse_init, parse_progress, read_handoff,
};
use crate::guard;
use crate::ids::SorDir;

/// What a cold runtime needs to go on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResumeState {
    /// Whether it comes from a handoff; otherwise from `task-progress.md`.
    pub has_handoff: bool,
    /// What is done.
    pub done: Vec<String>,
    /// What is broken, or not verified.
    pub broken: Vec<String>,
    /// What to do next, if somebody said.
    pub next: Option<String>,
    /// Why the work could not go on.
    pub why_blocked: Option<String>,
    /// How the checkout is brought to life; an empty one is not configured.
    pub commands: Commands,
    /// What to beware of; also why a file could not be read.
    pub warnings: Vec<String>,
    /// The runtime that worked last.
    pub last_runtime: Option<String>,
    /// The last runtime's own session; withheld from another runtime.
    pub native_session_id: Option<String>,
    /// Who handed off.
    pub handoff_from: Option<String>,
    /// When, as the handoff says it.
    pub handoff_time: Option<String>,
}

/// Reads the state of a checkout for `runtime`; `None` or empty for an onlooker. Never fails: what cannot be read is a warning.
pub fn resume_state(checkout: &Path, sor_dir: &SorDir, runtime: Option<&str>) -> ResumeState {
    let mut notes = Vec::new();
    let script = text_of(checkout, &sor_dir.join(INIT_FILE), &mut notes);
    let slots = parse_init(&script);
    let read = read_handoff(checkout, sor_dir);
    match read.handoff.clone() {
        Some(handoff) => with_handoff(handoff, &read, slots, notes, sor_dir, runtime),
        None => without_handoff(checkout, read, slots, notes, sor_dir),
    }
}

fn with_handoff(
    handoff: Handoff,
    read: &HandoffRead,
    slots: InitSlots,
    notes: Vec<String>,
    sor_dir: &SorDir,
    runtime: Option<&str>,
) -> ResumeState {
    let mut commands = handoff.commands;
    for (command, slot) in [
        (&mut commands.init, default_init(sor_dir)),
        (&mut commands.verify, slots.verify),
        (&mut commands.start, slots.start),
    ] {
        if command.trim().is_empty() {
            *command = slot;
        }
    }
    let mut warnings = handoff.warnings;
    // An odd timestamp is visible as it is in `handoff_time`; these two are visible nowhere else.
    let hidden = |code: &str| [MISSING_TIMESTAMP, NEWER_SCHEMA].contains(&code);
    warnings.extend(
        read.warnings
            .iter()
            .filter(|warning| hidden(&warning.code))
            .map(|warning| warning.message.clone()),
    );
    warnings.extend(notes);
    let same_runtime =
        runtime.is_none_or(|runtime| runtime.is_empty() || runtime == handoff.runtime);
    ResumeState {
        has_handoff: true,
        done: handoff.completed_subtasks,
        broken: handoff.broken_or_unverified,
        next: Some(handoff.next_best_step).filter(|next| !next.is_empty()),
        why_blocked: handoff.why_blocked.filter(|why| !why.is_empty()),
        commands,
        warnings,
        native_session_id: handoff.native_session_id.filter(|_| same_runtime),
        last_runtime: Some(handoff.runtime),
        handoff_from: Some(handoff.handoff_from),
        handoff_time: Some(handoff.timestamp).filter(|time| !time.is_empty()),
    }
}

fn without_handoff(
    checkout: &Path,
    read: HandoffRead,
    slots: InitSlots,
    mut notes: Vec<String>,
    sor_dir: &SorDir,
) -> ResumeState {
    let progress = parse_progress(&text_of(checkout, &sor_dir.join(PROGRESS_FILE), &mut notes));
    let mut warnings: Vec<String> = read.problem.into_iter().collect();
    warnings.extend(notes);
    ResumeState {
        done: progress.done,
        broken: progress.blocked,
        commands: Commands {
            init: default_init(sor_dir),
            verify: slots.verify,
            start: slots.start,
            ..Commands::default()
        },
        warnings,
        ..ResumeState::default()
    }
}

/// The text of a file, empty if it is not there. What cannot be read is noted.
fn text_of(checkout: &Path, relative: &str, notes: &mut Vec<String>) -> String {
    match guard::read_file(checkout, relative, MAX_FILE_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned(),
        Err(refused) => {
            notes.push(format!("{refused}; it counts as absent"));
            String::new()
        }
    }
}
