//! Rows of the database to values, and back.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::{Row, sqlite::SqliteRow};
use worktree_engine::{
    ids::LeaseEpoch,
    lifecycle::{Operation, State},
};

use super::{
    Error, HandoffOrigin, HandoffRow, Lease, NewHandoff, Origin, RecoveryPointRow, Result,
    ReviewRow, StoredEvent, WorktreeRow,
};

/// A worktree with its lease, by whatever follows.
macro_rules! select_worktrees {
    ($tail:literal) => {
        concat!(
            "SELECT w.*, l.holder, l.runtime, l.epoch, l.ttl_millis, l.acquire_time, l.expire_time, l.holder_process \
             FROM worktrees w LEFT JOIN leases l ON l.worktree_id = w.id ",
            $tail
        )
    };
}
pub(super) use select_worktrees;

/// A time as it is stored: in nanoseconds, so that what is read back equals what was answered. The ends of what 64 bits
/// hold (the years 1677 and 2262) stand for all beyond them.
pub(super) fn nanos(time: Timestamp) -> i64 {
    let end = if time < Timestamp::UNIX_EPOCH {
        i64::MIN
    } else {
        i64::MAX
    };
    i64::try_from(time.as_nanosecond()).unwrap_or(end)
}

pub(super) fn timestamp(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    let nanos: i64 = row.try_get(column)?;
    Timestamp::from_nanosecond(nanos.into()).map_err(|error| Error::Decode(error.to_string()))
}

fn known<T>(value: Option<T>, what: &str, name: &str) -> Result<T> {
    value.ok_or_else(|| Error::Decode(format!("{what} {name:?}")))
}

fn parsed<T: std::str::FromStr>(text: &str, what: &str) -> Result<T> {
    known(text.parse().ok(), what, text)
}

fn number(row: &SqliteRow, column: &str) -> Result<u64> {
    let value: i64 = row.try_get(column)?;
    u64::try_from(value).map_err(|_| Error::Decode(format!("{column} {value}")))
}

fn json<T: serde::de::DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T> {
    Ok(serde_json::from_str(row.try_get(column)?)?)
}

fn optional_json<T: serde::de::DeserializeOwned>(
    row: &SqliteRow,
    column: &str,
) -> Result<Option<T>> {
    let text: Option<&str> = row.try_get(column)?;
    Ok(text.map(serde_json::from_str).transpose()?)
}

fn worktree_id(row: &SqliteRow) -> Result<Option<worktree_engine::ids::WorktreeId>> {
    let text: Option<&str> = row.try_get("worktree_id")?;
    text.map(|text| parsed(text, "id").map(worktree_engine::ids::WorktreeId))
        .transpose()
}

fn lease(row: &SqliteRow) -> Result<Option<Lease>> {
    let Some(holder) = row.try_get("holder")? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        holder,
        runtime: row.try_get("runtime")?,
        epoch: LeaseEpoch(number(row, "epoch")?),
        ttl: Duration::from_millis(number(row, "ttl_millis")?),
        acquire_time: timestamp(row, "acquire_time")?,
        expire_time: timestamp(row, "expire_time")?,
        holder_process: optional_json(row, "holder_process")?,
    }))
}

pub(super) fn worktree(row: &SqliteRow) -> Result<WorktreeRow> {
    let state: &str = row.try_get("state")?;
    let pending: Option<&str> = row.try_get("pending_operation")?;
    let origin: &str = row.try_get("origin")?;
    let head: Option<&str> = row.try_get("head")?;
    let owner_kind: Option<String> = row.try_get("owner_kind")?;
    let owner_id: Option<String> = row.try_get("owner_id")?;
    Ok(WorktreeRow {
        checkout: json(row, "checkout")?,
        repo: row.try_get("repo")?,
        repo_id: row.try_get("repo_id")?,
        display_name: row.try_get("display_name")?,
        base_ref: row.try_get("base_ref")?,
        head: head.map(|head| parsed(head, "commit")).transpose()?,
        head_time: row.try_get("head_time")?,
        state: known(State::from_name(state), "state", state)?,
        pending_operation: pending
            .map(|name| known(Operation::from_name(name), "operation", name))
            .transpose()?,
        kind: row.try_get("kind")?,
        isolation: row.try_get("isolation")?,
        origin: known(Origin::from_name(origin), "origin", origin)?,
        owner: owner_kind.zip(owner_id),
        labels: json(row, "labels")?,
        host_id: row.try_get("host_id")?,
        version: row.try_get("version")?,
        create_time: timestamp(row, "create_time")?,
        update_time: timestamp(row, "update_time")?,
        last_active_time: timestamp(row, "last_active_time")?,
        lease: lease(row)?,
        last_epoch: number(row, "last_epoch")?,
        restore: optional_json(row, "restore")?,
        task_completed: row.try_get("task_completed")?,
        owns_branch: row.try_get("owns_branch")?,
    })
}

pub(super) fn event(row: &SqliteRow) -> Result<StoredEvent> {
    Ok(StoredEvent {
        sequence: row.try_get("sequence")?,
        time: timestamp(row, "time")?,
        kind: row.try_get("kind")?,
        repo_id: row.try_get("repo_id")?,
        task_id: row.try_get("task_id")?,
        payload: row.try_get("payload")?,
    })
}

pub(super) fn handoff(row: &SqliteRow) -> Result<HandoffRow> {
    let origin: &str = row.try_get("origin")?;
    Ok(HandoffRow {
        number: row.try_get("number")?,
        create_time: timestamp(row, "create_time")?,
        handoff: NewHandoff {
            worktree_id: known(worktree_id(row)?, "worktree", "")?,
            origin: known(HandoffOrigin::from_name(origin), "origin", origin)?,
            digest: row.try_get("digest")?,
            handoff: row.try_get("handoff")?,
        },
    })
}

pub(super) fn review(row: &SqliteRow) -> Result<ReviewRow> {
    Ok(ReviewRow {
        checkout: json(row, "checkout")?,
        repo: row.try_get("repo")?,
        repo_id: row.try_get("repo_id")?,
        task_id: row.try_get("task_id")?,
        worktree_id: worktree_id(row)?,
        sha: parsed(row.try_get("sha")?, "commit")?,
        reviewer: row.try_get("reviewer")?,
        create_time: timestamp(row, "create_time")?,
        expire_time: timestamp(row, "expire_time")?,
    })
}

pub(super) fn recovery_point(row: &SqliteRow) -> Result<RecoveryPointRow> {
    Ok(RecoveryPointRow {
        point: worktree_engine::model::RecoveryPoint {
            ref_name: row.try_get("ref_name")?,
            commit: parsed(row.try_get("commit_id")?, "commit")?,
        },
        repo_id: row.try_get("repo_id")?,
        worktree_id: worktree_id(row)?,
        operation: row.try_get("operation")?,
        create_time: timestamp(row, "create_time")?,
    })
}
