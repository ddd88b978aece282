//! What people see of the messages.

mod event;
mod handoff;

use jiff::Timestamp;
use worktreed_client::proto::{
    Branch, DiffStat, EventKind, GcReason, GcVerdict, GetServerInfoResponse, Lease, NotSaved,
    NotSavedReason, Operation, ReconcileFindingKind, Review, TaskStatus, Worktree, WorktreeState,
};

pub(crate) use event::{event, findings, gc_item, progress, state_line};
pub(crate) use handoff::{handoff, handoffs, resume_state};

use crate::{
    table::{Table, details},
    text::{ago, duration, enum_name, path, short_id, size, time, until},
};

macro_rules! enum_names {
    ($($function:ident, $enum:ident, $prefix:literal;)+) => {
        $(fn $function(number: i32) -> String {
            enum_name($enum::try_from(number).ok().map(|known| known.as_str_name()), $prefix, number)
        })+
    };
}

enum_names! {
    state_name, WorktreeState, "WORKTREE_STATE_";
    status_name, TaskStatus, "TASK_STATUS_";
    operation_name, Operation, "OPERATION_";
    kind_name, EventKind, "EVENT_KIND_";
    not_saved_name, NotSavedReason, "NOT_SAVED_REASON_";
    verdict_name, GcVerdict, "GC_VERDICT_";
    gc_reason_name, GcReason, "GC_REASON_";
    finding_name, ReconcileFindingKind, "RECONCILE_FINDING_KIND_";
}

pub(crate) fn worktree(worktree: &Worktree) -> String {
    let now = Timestamp::now();
    let key = worktree.key.clone().unwrap_or_default();
    let pending = if worktree.pending_operation == 0 {
        String::new()
    } else {
        operation_name(worktree.pending_operation)
    };
    let owner = worktree
        .owner
        .as_ref()
        .map_or_else(String::new, |owner| format!("{}:{}", owner.kind, owner.id));
    let mut labels: Vec<_> = worktree
        .labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    labels.sort();
    details(&[
        ("task", key.task_id),
        ("name", worktree.display_name.clone()),
        ("repository", key.repo),
        (
            "state",
            format!(
                "{} ({})",
                state_name(worktree.state),
                status_name(worktree.task_status)
            ),
        ),
        ("in flight", pending),
        ("path", worktree.path.clone()),
        ("branch", worktree.branch.clone()),
        (
            "base",
            format!("{} {}", short_id(&worktree.base_sha), worktree.base_ref),
        ),
        ("baseline", worktree.base_commit.clone()),
        ("head", worktree.head.clone()),
        (
            "lease",
            worktree.lease.as_ref().map_or_else(String::new, lease),
        ),
        ("record in", worktree.sor_dir.clone()),
        ("owner", owner),
        ("labels", labels.join(", ")),
        ("created", time(worktree.create_time.as_ref())),
        ("last active", ago(worktree.last_active_time.as_ref(), now)),
        ("etag", worktree.etag.clone()),
        ("id", worktree.id.clone()),
    ])
}

pub(crate) fn worktree_or_nothing(shown: Option<&Worktree>) -> String {
    shown.map_or_else(String::new, worktree)
}

pub(crate) fn worktrees(worktrees: &[Worktree]) -> String {
    let now = Timestamp::now();
    let mut table = Table::new(&[
        "TASK", "STATE", "HOLDER", "ACTIVE", "HEAD", "BRANCH", "PATH",
    ]);
    for worktree in worktrees {
        table.row([
            worktree
                .key
                .as_ref()
                .map_or_else(String::new, |key| key.task_id.clone()),
            state_name(worktree.state),
            worktree
                .lease
                .as_ref()
                .map_or_else(|| "-".to_owned(), |lease| lease.holder.clone()),
            ago(worktree.last_active_time.as_ref(), now),
            short_id(&worktree.head).to_owned(),
            worktree.branch.clone(),
            worktree.path.clone(),
        ]);
    }
    or_nothing(&table, "no worktrees\n")
}

pub(crate) fn lease(lease: &Lease) -> String {
    let runtime = if lease.runtime.is_empty() {
        String::new()
    } else {
        format!(" ({})", lease.runtime)
    };
    let ends = until(lease.expire_time.as_ref(), Timestamp::now());
    format!(
        "{}{runtime}, epoch {}, ends {ends}",
        lease.holder, lease.epoch
    )
}

/// Shows what a save did: the commit or the recovery point, and what it does not hold.
pub(crate) fn save(
    head: &str,
    committed: bool,
    recovery_point: &str,
    not_saved: &[NotSaved],
) -> String {
    let committed = if committed {
        "a new commit"
    } else {
        "nothing to commit"
    };
    let mut text = details(&[
        ("head", head.to_owned()),
        ("commit", committed.to_owned()),
        ("recovery point", recovery_point.to_owned()),
    ]);
    text += &self::not_saved(not_saved);
    text
}

pub(crate) fn not_saved(entries: &[NotSaved]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["NOT SAVED", "WHY", "FILES", "SIZE"]);
    for entry in entries {
        table.row([
            path(&entry.path),
            not_saved_name(entry.reason),
            entry.file_count.to_string(),
            size(entry.size_bytes),
        ]);
    }
    format!("\n{}", table.render())
}

pub(crate) fn diff_stat(stat: &DiffStat) -> String {
    let dirty = if stat.dirty {
        ", not all of it committed"
    } else {
        ""
    };
    format!(
        "{} files changed, {} insertions(+), {} deletions(-){dirty}\n",
        stat.files_changed, stat.insertions, stat.deletions
    )
}

pub(crate) fn branches(branches: &[Branch]) -> String {
    let mut table = Table::new(&["", "BRANCH", "HEAD", "COMMITTED", "TASK", "CHECKED OUT"]);
    for branch in branches {
        table.row([
            if branch.current { "*" } else { "" }.to_owned(),
            branch.name.clone(),
            short_id(&branch.head).to_owned(),
            time(branch.commit_time.as_ref()),
            branch.task_id.clone(),
            branch.checked_out_path.clone(),
        ]);
    }
    or_nothing(&table, "no branches\n")
}

pub(crate) fn review(review: &Review) -> String {
    let key = review.key.clone().unwrap_or_default();
    details(&[
        ("id", review.id.clone()),
        ("path", review.path.clone()),
        ("commit", review.sha.clone()),
        ("reviewer", review.reviewer.clone()),
        ("task", key.task_id),
        ("repository", key.repo),
        ("ends", until(review.expire_time.as_ref(), Timestamp::now())),
    ])
}

pub(crate) fn reviews(reviews: &[Review]) -> String {
    let now = Timestamp::now();
    let mut table = Table::new(&["ID", "TASK", "REVIEWER", "COMMIT", "ENDS", "PATH"]);
    for review in reviews {
        table.row([
            review.id.clone(),
            review
                .key
                .as_ref()
                .map_or_else(String::new, |key| key.task_id.clone()),
            review.reviewer.clone(),
            short_id(&review.sha).to_owned(),
            until(review.expire_time.as_ref(), now),
            review.path.clone(),
        ]);
    }
    or_nothing(&table, "no reviews\n")
}

pub(crate) fn server_info(info: &GetServerInfoResponse) -> String {
    let limits = info.limits.unwrap_or_default();
    let ttl = |ttl: Option<&prost_types::Duration>| duration(ttl);
    details(&[
        ("version", info.version.clone()),
        ("git", info.git_version.clone()),
        ("namespace", info.namespace.clone()),
        ("worktrees in", info.worktree_root.clone()),
        ("state in", info.state_dir.clone()),
        ("instance", info.instance_id.clone()),
        ("started", time(info.start_time.as_ref())),
        ("features", info.features.join(", ")),
        (
            "lease",
            format!(
                "{}, from {} to {}",
                ttl(limits.lease_ttl_default.as_ref()),
                ttl(limits.lease_ttl_min.as_ref()),
                ttl(limits.lease_ttl_max.as_ref())
            ),
        ),
        ("lock wait", duration(limits.lock_wait.as_ref())),
        (
            "page",
            format!(
                "{}, at most {}",
                limits.page_size_default, limits.page_size_max
            ),
        ),
        ("largest saved file", size(limits.saved_file_max_bytes)),
        (
            "events kept",
            format!(
                "{} or {}",
                duration(limits.event_retention.as_ref()),
                limits.event_retention_count
            ),
        ),
        ("warnings", info.warnings.join("; ")),
    ])
}

fn or_nothing(table: &Table, nothing: &str) -> String {
    if table.is_empty() {
        nothing.to_owned()
    } else {
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use worktreed_client::proto::{
        Event, HandedOffDetail, ResumeState, WorktreeKey, event::Detail,
    };

    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_an_agent_writes() {
        let detail = HandedOffDetail {
            handoff_from: "a".into(),
            next_best_step: "x\ny\u{1b}[2J".into(),
            ..Default::default()
        };
        let shown = event(&Event {
            kind: EventKind::HandedOff.into(),
            time: Some(prost_types::Timestamp {
                seconds: 0,
                nanos: 0,
            }),
            key: Some(WorktreeKey {
                repo: "/r".into(),
                task_id: "fix".into(),
            }),
            detail: Some(Detail::HandedOff(detail)),
            ..Default::default()
        });
        assert_eq!(
            shown,
            "1970-01-01T00:00:00Z  handed_off              fix  by a: x\u{fffd}y\u{fffd}[2J\n"
        );
    }

    #[test]
    fn empty_lists_say_so() {
        assert_eq!(worktrees(&[]), "no worktrees\n");
        assert_eq!(findings(&[]), "registry, git and disk agree\n");
        assert_eq!(not_saved(&[]), "");
    }

    #[test]
    fn a_resume_state_shows_what_is_there() {
        let state = ResumeState {
            has_handoff: true,
            done: vec!["a".into(), "b\nc".into()],
            next: Some("d".into()),
            ..Default::default()
        };
        assert_eq!(
            resume_state(&state),
            "from  the handoff\nnext  d\n\ndone\n  - a\n  - b\n    c\n"
        );
    }
}
