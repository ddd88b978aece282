//! Handoffs, and what a cold runtime goes on from.

use std::fmt::Write as _;

use worktreed_client::proto::{Handoff, HandoffEntry, ResumeState};

use super::{diff_stat, or_nothing};
use crate::{
    table::{Table, details},
    text::{plain_lines, short_id, time},
};

pub(crate) fn handoff(handoff: &Handoff) -> String {
    let commands = handoff.commands.clone().unwrap_or_default();
    let evidence = handoff.evidence.clone().unwrap_or_default();
    let mut text = details(&[
        (
            "from",
            format!("{} ({})", handoff.handoff_from, handoff.runtime),
        ),
        ("at", handoff.timestamp.clone()),
        ("next", handoff.next_best_step.clone()),
        ("blocked", handoff.why_blocked.clone().unwrap_or_default()),
        ("init", commands.init),
        ("verify", commands.verify),
        ("start", commands.start),
        ("tests", evidence.test_results.unwrap_or_default()),
        ("linters", evidence.lint_results.unwrap_or_default()),
    ]);
    text += &bullets("done", &handoff.completed_subtasks);
    text += &bullets("broken or unverified", &handoff.broken_or_unverified);
    text += &bullets("beware", &handoff.warnings);
    if let Some(observed) = &handoff.observed {
        let stat = observed
            .diff_stat
            .as_ref()
            .map_or_else(String::new, diff_stat);
        let _ = write!(
            text,
            "\nseen by the service\n  - head {}, {} commits since the baseline\n  - {} paths not committed\n",
            short_id(&observed.head),
            observed.commits_since_base,
            observed.dirty_path_count
        );
        if !stat.is_empty() {
            let _ = write!(text, "  - {stat}");
        }
    }
    text
}

pub(crate) fn handoffs(entries: &[HandoffEntry]) -> String {
    let mut table = Table::new(&["NUMBER", "RECORDED", "FROM", "RUNTIME", "HEAD", "NEXT"]);
    for entry in entries {
        let handoff = entry.handoff.clone().unwrap_or_default();
        table.row([
            entry.number.to_string(),
            time(entry.recorded_time.as_ref()),
            handoff.handoff_from,
            handoff.runtime,
            short_id(&entry.head).to_owned(),
            handoff.next_best_step,
        ]);
    }
    or_nothing(&table, "no handoffs\n")
}

pub(crate) fn resume_state(state: &ResumeState) -> String {
    let commands = state.commands.clone().unwrap_or_default();
    let source = if state.has_handoff {
        "the handoff"
    } else {
        "task-progress.md; there is no handoff"
    };
    let mut text = details(&[
        ("from", source.to_owned()),
        (
            "last runtime",
            state.last_runtime.clone().unwrap_or_default(),
        ),
        (
            "handed off by",
            state.handoff_from.clone().unwrap_or_default(),
        ),
        ("at", state.handoff_time.clone().unwrap_or_default()),
        (
            "session",
            state.native_session_id.clone().unwrap_or_default(),
        ),
        ("next", state.next.clone().unwrap_or_default()),
        ("blocked", state.why_blocked.clone().unwrap_or_default()),
        ("init", commands.init),
        ("verify", commands.verify),
        ("start", commands.start),
    ]);
    text += &bullets("done", &state.done);
    text += &bullets("broken or unverified", &state.broken);
    text += &bullets("beware", &state.warnings);
    text
}

fn bullets(title: &str, entries: &[String]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let entries: String = entries
        .iter()
        .map(|entry| format!("  - {}\n", plain_lines(entry).replace('\n', "\n    ")))
        .collect();
    format!("\n{title}\n{entries}")
}
