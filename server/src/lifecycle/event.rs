//! The events of the log. They hold the contract's own messages: what is stored is what is sent.

use prost::Message as _;
use worktree_engine::model::{RecoveryPoint, SaveMode, Saved};
use worktree_proto::v1::{self, EventKind, event::Detail};

use crate::{
    api::convert::{save, worktree},
    registry::{Lease, NewEvent, WorktreeRow},
};

/// An event about a worktree; `row` is as the commit will store it.
pub(crate) fn about(
    kind: EventKind,
    row: &WorktreeRow,
    detail: Option<Detail>,
    trace_id: &str,
) -> NewEvent {
    let row = row.as_committed();
    let event = v1::Event {
        kind: kind as i32,
        key: Some(worktree::key(&row)),
        worktree: Some(worktree::worktree(&row)),
        trace_id: trace_id.to_owned(),
        detail,
        ..v1::Event::default()
    };
    NewEvent {
        kind: kind as i32,
        repo_id: row.repo_id,
        task_id: row.checkout.task_id.to_string(),
        payload: event.encode_to_vec(),
    }
}

/// An event that no worktree's row changes with.
pub(crate) fn apart(
    kind: EventKind,
    repo_id: &str,
    key: Option<v1::WorktreeKey>,
    detail: Detail,
    trace_id: &str,
) -> NewEvent {
    let task_id = key.as_ref().map(|key| key.task_id.clone());
    let event = v1::Event {
        kind: kind as i32,
        key,
        trace_id: trace_id.to_owned(),
        detail: Some(detail),
        ..v1::Event::default()
    };
    NewEvent {
        kind: kind as i32,
        repo_id: repo_id.to_owned(),
        task_id: task_id.unwrap_or_default(),
        payload: event.encode_to_vec(),
    }
}

/// The detail of a lease event.
pub(crate) fn lease_detail(lease: &Lease) -> Detail {
    Detail::Lease(v1::LeaseDetail {
        lease: Some(worktree::lease(lease)),
        ..v1::LeaseDetail::default()
    })
}

/// The detail of a save.
pub(crate) fn saved_detail(saved: &Saved, asked: SaveMode) -> Detail {
    let mode = match asked {
        SaveMode::Commit if is_snapshot(saved) => v1::SaveMode::Snapshot,
        SaveMode::Commit => v1::SaveMode::Commit,
        SaveMode::Snapshot => v1::SaveMode::Snapshot,
    };
    Detail::Saved(v1::SavedDetail {
        save: mode as i32,
        committed: saved.committed,
        head: saved.head.to_string(),
        recovery_point: save::recovery_ref(saved.recovery_point.as_ref()),
        not_saved: save::not_saved(&saved.not_saved),
    })
}

/// The event of a recovery point, where one was pinned.
pub(crate) fn pinned(
    row: &WorktreeRow,
    point: Option<&RecoveryPoint>,
    operation: v1::Operation,
    trace_id: &str,
) -> Option<NewEvent> {
    let point = point?;
    let detail = Detail::RecoveryPoint(v1::RecoveryPointDetail {
        r#ref: point.ref_name.clone(),
        commit: point.commit.to_string(),
        operation: operation as i32,
    });
    Some(about(
        EventKind::RecoveryPointCreated,
        row,
        Some(detail),
        trace_id,
    ))
}

/// Whether a snapshot was made where a commit was asked for.
fn is_snapshot(saved: &Saved) -> bool {
    saved
        .warnings
        .iter()
        .any(|warning| warning.code == "SAVED_AS_SNAPSHOT")
}
