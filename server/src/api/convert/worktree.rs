//! Rows as the contract shows them.

use jiff::Timestamp;
use worktree_engine::lifecycle::{Operation, State, TaskStatus};
use worktree_proto::v1;

use super::{count, seconds, timestamp};
use crate::registry::{HolderProcess, Lease, Origin, ReviewRow, WorktreeRow};

pub(crate) fn state(state: State) -> v1::WorktreeState {
    match state {
        State::Provisioning => v1::WorktreeState::Provisioning,
        State::Provisioned => v1::WorktreeState::Provisioned,
        State::Working => v1::WorktreeState::Working,
        State::HandedOff => v1::WorktreeState::HandedOff,
        State::Paused => v1::WorktreeState::Paused,
        State::Completing => v1::WorktreeState::Completing,
        State::Retained => v1::WorktreeState::Retained,
        State::Done => v1::WorktreeState::Done,
        State::DoneClean => v1::WorktreeState::DoneClean,
        State::Reaped => v1::WorktreeState::Reaped,
        State::Removed => v1::WorktreeState::Removed,
        State::Failed => v1::WorktreeState::Failed,
    }
}

/// The state of that number; none for one that is not known or not given.
pub(crate) fn state_from(number: i32) -> Option<State> {
    let wanted = v1::WorktreeState::try_from(number).ok()?;
    State::ALL.iter().copied().find(|s| state(*s) == wanted)
}

fn task_status(status: TaskStatus) -> v1::TaskStatus {
    match status {
        TaskStatus::Todo => v1::TaskStatus::Todo,
        TaskStatus::InProgress => v1::TaskStatus::InProgress,
        TaskStatus::InReview => v1::TaskStatus::InReview,
        TaskStatus::Done => v1::TaskStatus::Done,
        TaskStatus::Cancelled => v1::TaskStatus::Cancelled,
    }
}

pub(crate) fn operation(operation: Operation) -> v1::Operation {
    match operation {
        Operation::Provision => v1::Operation::Provision,
        Operation::AcquireLease => v1::Operation::AcquireLease,
        Operation::ReleaseLease => v1::Operation::ReleaseLease,
        Operation::WriteHandoff => v1::Operation::WriteHandoff,
        Operation::Checkpoint => v1::Operation::Checkpoint,
        Operation::Pause => v1::Operation::Pause,
        Operation::Resume => v1::Operation::Resume,
        Operation::Complete => v1::Operation::Complete,
        Operation::Collect => v1::Operation::CollectGarbage,
        Operation::Remove => v1::Operation::Remove,
        Operation::Review => v1::Operation::CreateReview,
    }
}

fn isolation(name: &str) -> v1::Isolation {
    match name {
        "none" => v1::Isolation::None,
        "worktree" => v1::Isolation::Worktree,
        "container" => v1::Isolation::Container,
        _ => v1::Isolation::Unspecified,
    }
}

/// The engine's name of an isolation; none for a number that is not known.
pub(crate) fn isolation_name(number: i32) -> Option<&'static str> {
    match v1::Isolation::try_from(number).ok()? {
        v1::Isolation::Unspecified => Some(""),
        v1::Isolation::None => Some("none"),
        v1::Isolation::Worktree => Some("worktree"),
        v1::Isolation::Container => Some("container"),
    }
}

fn origin(origin: Origin) -> v1::Origin {
    match origin {
        Origin::Created => v1::Origin::Created,
        Origin::Adopted => v1::Origin::Adopted,
    }
}

pub(crate) fn lease(lease: &Lease) -> v1::Lease {
    v1::Lease {
        holder: lease.holder.clone(),
        runtime: lease.runtime.clone(),
        epoch: count(lease.epoch.0),
        expire_time: Some(timestamp(lease.expire_time)),
        acquire_time: Some(timestamp(lease.acquire_time)),
        holder_process: lease.holder_process.as_ref().map(holder_process),
    }
}

fn holder_process(process: &HolderProcess) -> v1::HolderProcess {
    v1::HolderProcess {
        pid: count(process.pid),
        start_ticks: process.start_ticks,
        host: process.host.clone(),
    }
}

/// The etag of a row.
pub(crate) fn etag(version: i64) -> String {
    format!("{version:x}")
}

pub(crate) fn key(row: &WorktreeRow) -> v1::WorktreeKey {
    v1::WorktreeKey {
        repo: row.repo.clone(),
        task_id: row.checkout.task_id.to_string(),
    }
}

pub(crate) fn worktree(row: &WorktreeRow) -> v1::Worktree {
    v1::Worktree {
        id: row.checkout.id.to_string(),
        key: Some(key(row)),
        repo_id: row.repo_id.clone(),
        display_name: row.display_name.clone(),
        path: row.checkout.path.to_string_lossy().into_owned(),
        branch: row.checkout.branch.to_string(),
        base_ref: row.base_ref.clone(),
        base_sha: row.checkout.base_sha.to_string(),
        base_commit: row.checkout.base_commit.to_string(),
        head: row
            .head
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        head_time: row.head_time.map(seconds),
        state: state(row.state) as i32,
        task_status: task_status(row.state.task_status(row.task_completed)) as i32,
        pending_operation: row.pending_operation.map_or(0, |op| operation(op) as i32),
        kind: row.kind.clone(),
        isolation: isolation(&row.isolation) as i32,
        origin: origin(row.origin) as i32,
        owner: row.owner.as_ref().map(|(kind, id)| v1::Owner {
            kind: kind.clone(),
            id: id.clone(),
        }),
        labels: row.labels.clone().into_iter().collect(),
        sor_dir: row.checkout.sor_dir.to_string(),
        host_id: row.host_id.clone(),
        etag: etag(row.version),
        create_time: Some(timestamp(row.create_time)),
        update_time: Some(timestamp(row.update_time)),
        last_active_time: Some(timestamp(row.last_active_time)),
        lease: row.live_lease(Timestamp::now()).map(lease),
    }
}

pub(crate) fn review(row: &ReviewRow) -> v1::Review {
    v1::Review {
        id: row.checkout.id.to_string(),
        path: row.checkout.path.to_string_lossy().into_owned(),
        sha: row.checkout.base_sha.to_string(),
        reviewer: row.reviewer.clone(),
        expire_time: Some(timestamp(row.expire_time)),
        key: Some(v1::WorktreeKey {
            repo: row.repo.clone(),
            task_id: row.task_id.clone(),
        }),
        create_time: Some(timestamp(row.create_time)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_number() {
        for &known in State::ALL {
            assert_eq!(state_from(state(known) as i32), Some(known));
        }
        assert_eq!(state_from(0), None);
        assert_eq!(state_from(29), None);
    }

    #[test]
    fn every_operation_has_a_number_of_its_own() {
        let numbers: std::collections::BTreeSet<i32> = Operation::ALL
            .iter()
            .map(|op| operation(*op) as i32)
            .collect();
        assert_eq!(numbers.len(), Operation::ALL.len());
        assert!(!numbers.contains(&0));
    }
}
