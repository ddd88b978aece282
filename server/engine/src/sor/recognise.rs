//! Telling our own scaffold, inherited from an earlier task that was merged, from a file that the repository's people wrote.

use super::handoff_json::parse_handoff;
use super::{DECISIONS_FILE, HANDOFF_FILE, INIT_FILE, PROGRESS_FILE, TASK_FILE, VERIFICATION_FILE};

/// Whether `content` is what this service (or the library it descends from) writes under `name`. Such a file is replaced at
/// provision; anything else is the repository's own, and the request is refused.
pub fn is_service_scaffold(name: &str, content: &[u8]) -> bool {
    if name == HANDOFF_FILE {
        return parse_handoff(content).is_ok();
    }
    let Ok(text) = std::str::from_utf8(content) else {
        return false;
    };
    // `lines` also takes CRLF, which the base's attributes may have put in.
    let first = text.lines().next().unwrap_or_default();
    let has = |wanted: &[&str]| {
        wanted
            .iter()
            .all(|line| text.lines().any(|found| found.trim_end() == *line))
    };
    let assigns = |slot: &str| text.lines().any(|line| line.starts_with(slot));
    match name {
        TASK_FILE => {
            first.starts_with("# Task: ")
                && has(&[
                    "## What & why",
                    "## Acceptance criteria",
                    "## How to work this task",
                ])
        }
        PROGRESS_FILE => {
            first.starts_with("# Progress — ")
                && has(&[
                    "## Current verified state",
                    "## Done",
                    "## Blocked",
                    "## Clock-in / clock-out",
                ])
        }
        DECISIONS_FILE => serde_json::from_str::<serde_json::Value>(text)
            .is_ok_and(|value| value["$schema"] == "clawboo/decisions@1"),
        INIT_FILE => {
            first == "#!/usr/bin/env bash"
                && has(&["set -euo pipefail"])
                && ["INSTALL_CMD=", "VERIFY_CMD=", "START_CMD="]
                    .into_iter()
                    .all(assigns)
        }
        VERIFICATION_FILE => {
            first.starts_with("# Verification") && has(&["## Commands", "## Evidence"])
        }
        _ => false,
    }
}
