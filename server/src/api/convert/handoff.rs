//! Handoffs and ResumeStates.

use worktree_engine::{
    Result as EngineResult,
    sor::{
        Commands, Evidence, Handoff, HandoffObserved, HandoffOrigin, RepositoryPath, ResumeState,
        RoomCursor,
    },
};
use worktree_proto::v1;

use super::count;

/// Reads a handoff from a request; what the service fills in itself is left out.
pub(crate) fn from_request(handoff: v1::Handoff) -> EngineResult<Handoff> {
    let commands = handoff.commands.unwrap_or_default();
    let evidence = handoff.evidence.unwrap_or_default();
    let mut read = Handoff {
        handoff_from: handoff.handoff_from,
        runtime: handoff.runtime,
        timestamp: handoff.timestamp,
        completed_subtasks: handoff.completed_subtasks,
        broken_or_unverified: handoff.broken_or_unverified,
        next_best_step: handoff.next_best_step,
        why_blocked: handoff.why_blocked,
        commands: Commands {
            init: commands.init,
            verify: commands.verify,
            start: commands.start,
            ..Commands::default()
        },
        evidence: Evidence {
            test_results: evidence.test_results,
            lint_results: evidence.lint_results,
            ..Evidence::default()
        },
        warnings: handoff.warnings,
        native_session_id: handoff.native_session_id,
        room_cursor: handoff.room_cursor.map(|cursor| RoomCursor {
            room_id: cursor.room_id,
            last_seen_seq: cursor.last_seen_seq,
            ..RoomCursor::default()
        }),
        ..Handoff::default()
    };
    read.set_extra_json(&handoff.extra_json)?;
    read.validate()?;
    Ok(read)
}

pub(crate) fn origin(origin: Option<HandoffOrigin>) -> v1::HandoffOrigin {
    match origin {
        None => v1::HandoffOrigin::Unspecified,
        Some(HandoffOrigin::Agent) => v1::HandoffOrigin::Agent,
        Some(HandoffOrigin::Service) => v1::HandoffOrigin::Service,
    }
}

pub(crate) fn to_message(handoff: &Handoff) -> v1::Handoff {
    v1::Handoff {
        handoff_from: handoff.handoff_from.clone(),
        runtime: handoff.runtime.clone(),
        timestamp: handoff.timestamp.clone(),
        completed_subtasks: handoff.completed_subtasks.clone(),
        broken_or_unverified: handoff.broken_or_unverified.clone(),
        next_best_step: handoff.next_best_step.clone(),
        why_blocked: handoff.why_blocked.clone(),
        commands: Some(commands(&handoff.commands)),
        evidence: Some(v1::Evidence {
            test_results: handoff.evidence.test_results.clone(),
            lint_results: handoff.evidence.lint_results.clone(),
        }),
        warnings: handoff.warnings.clone(),
        native_session_id: handoff.native_session_id.clone(),
        room_cursor: handoff.room_cursor.as_ref().map(|cursor| v1::RoomCursor {
            room_id: cursor.room_id.clone(),
            last_seen_seq: cursor.last_seen_seq,
        }),
        task_id: handoff.task_id.clone().unwrap_or_default(),
        schema_version: i32::try_from(handoff.schema_version).unwrap_or(i32::MAX),
        origin: origin(handoff.origin) as i32,
        observed: handoff.observed.as_ref().map(observed),
        extra_json: handoff.extra_json(),
    }
}

fn observed(observed: &HandoffObserved) -> v1::Observed {
    v1::Observed {
        head: observed.head.clone(),
        commits_since_base: count(observed.commits_since_baseline),
        diff_stat: Some(v1::DiffStat {
            files_changed: count(observed.files_changed),
            insertions: count(observed.insertions),
            deletions: count(observed.deletions),
            dirty: observed.dirty,
        }),
        dirty_paths: observed
            .dirty_paths
            .iter()
            .map(RepositoryPath::as_bytes)
            .map(<[u8]>::to_vec)
            .collect(),
        dirty_path_count: count(observed.dirty_path_count),
    }
}

fn commands(commands: &Commands) -> v1::Commands {
    v1::Commands {
        init: commands.init.clone(),
        verify: commands.verify.clone(),
        start: commands.start.clone(),
    }
}

pub(crate) fn resume_state(state: &ResumeState) -> v1::ResumeState {
    v1::ResumeState {
        has_handoff: state.has_handoff,
        done: state.done.clone(),
        broken: state.broken.clone(),
        next: state.next.clone(),
        why_blocked: state.why_blocked.clone(),
        commands: Some(commands(&state.commands)),
        warnings: state.warnings.clone(),
        last_runtime: state.last_runtime.clone(),
        native_session_id: state.native_session_id.clone(),
        handoff_from: state.handoff_from.clone(),
        handoff_time: state.handoff_time.clone(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_handoff_survives_both_ways() {
        let message = v1::Handoff {
            handoff_from: "a".into(),
            runtime: "r".into(),
            timestamp: "2026-01-01T00:00:00Z".into(),
            completed_subtasks: vec!["one".into()],
            why_blocked: Some(String::new()),
            commands: Some(v1::Commands {
                init: "./init.sh".into(),
                ..Default::default()
            }),
            evidence: Some(v1::Evidence::default()),
            native_session_id: Some("s".into()),
            room_cursor: Some(v1::RoomCursor {
                room_id: "room".into(),
                last_seen_seq: 1 << 60,
            }),
            extra_json: r#"{"mine":[1,2]}"#.into(),
            ..Default::default()
        };
        let back = to_message(&from_request(message.clone()).unwrap());
        assert_eq!(back, message);
    }

    #[test]
    fn a_handoff_without_its_author_is_refused() {
        let message = v1::Handoff {
            runtime: "r".into(),
            ..Default::default()
        };
        assert!(from_request(message).is_err());
    }
}
