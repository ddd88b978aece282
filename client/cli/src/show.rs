//! What people see of the messages.

use std::fmt::Write as _;

use jiff::Timestamp;
use worktreed_client::proto::{
    Branch, DiffStat, Event, EventKind, GcItem, GcReason, GcVerdict, GetServerInfoResponse,
    Handoff, HandoffEntry, Lease, NotSaved, NotSavedReason, Operation, Progress, ReconcileFinding,
    ReconcileFindingKind, ResumeState, Review, TaskStatus, Worktree, WorktreeState, event::Detail,
};

use crate::{
    table::{Table, details},
    text::{ago, duration, enum_name, path, plain, plain_lines, short_id, size, time, until},
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

/// Shows an event on one line.
pub(crate) fn event(event: &Event) -> String {
    let task = event.key.as_ref().map_or("-", |key| {
        if key.task_id.is_empty() {
            "-"
        } else {
            &key.task_id
        }
    });
    let line = format!(
        "{}  {:<22}  {task}  {}",
        time(event.time.as_ref()),
        kind_name(event.kind),
        event.detail.as_ref().map_or_else(String::new, event_detail)
    );
    format!("{}\n", plain(line.trim_end()))
}

fn event_detail(detail: &Detail) -> String {
    match detail {
        Detail::Provisioned(_) => String::new(),
        Detail::Failed(failed) => failed.message.clone(),
        Detail::Lease(detail) => {
            let holder = detail.lease.as_ref().map_or_else(String::new, |lease| {
                format!("{} epoch {}", lease.holder, lease.epoch)
            });
            if detail.previous_holder.is_empty() {
                holder
            } else {
                format!(
                    "{holder}, from {}: {}",
                    detail.previous_holder, detail.takeover_reason
                )
            }
        }
        Detail::HandedOff(detail) => {
            format!("by {}: {}", detail.handoff_from, detail.next_best_step)
        }
        Detail::Saved(detail) => short_id(&detail.head).to_owned(),
        Detail::Resumed(detail) => format!("from {}", state_name(detail.from_state)),
        Detail::Completed(detail) => detail
            .diff_stat
            .as_ref()
            .map_or_else(String::new, |stat| diff_stat(stat).trim_end().to_owned()),
        Detail::Removed(detail) => detail.recovery_point.clone(),
        Detail::GcItem(item) => format!("{} {}", gc_reason_name(item.reason), item.detail),
        Detail::Sweep(summary) => format!(
            "{} reaped, {} skipped, {} failed",
            summary.reaped, summary.skipped, summary.failed
        ),
        Detail::Review(detail) => detail.review.as_ref().map_or_else(String::new, |review| {
            format!("{} by {}", review.id, review.reviewer)
        }),
        Detail::RecoveryPoint(detail) => detail.r#ref.clone(),
        Detail::Healed(finding) => finding.detail.clone(),
        Detail::SourceTouched(detail) => detail.changed.join(", "),
    }
}

/// Shows a worktree of the initial state of a watch, on one line.
pub(crate) fn state_line(worktree: &Worktree) -> String {
    let task = worktree
        .key
        .as_ref()
        .map_or("-", |key| key.task_id.as_str());
    plain(&format!(
        "{:<20}  {:<22}  {task}",
        "",
        state_name(worktree.state)
    )) + "\n"
}

/// Shows how far an operation is, on one line.
pub(crate) fn progress(progress: &Progress) -> String {
    let task = progress
        .key
        .as_ref()
        .map_or("-", |key| key.task_id.as_str());
    let total = if progress.total > 0 {
        format!("/{}", progress.total)
    } else {
        String::new()
    };
    let line = format!(
        "{}  {:<22}  {task}  {} {}{total} {}",
        time(progress.time.as_ref()),
        operation_name(progress.operation),
        progress.stage,
        progress.done,
        progress.unit
    );
    plain(line.trim_end()) + "\n"
}

/// Shows the verdict on one worktree, on one line.
pub(crate) fn gc_item(item: &GcItem) -> String {
    let task = item.key.as_ref().map_or("-", |key| key.task_id.as_str());
    let line = format!(
        "{:<10}  {:<22}  {task}  {}",
        verdict_name(item.verdict),
        gc_reason_name(item.reason),
        item.detail
    );
    format!("{}\n", plain(line.trim_end()))
}

pub(crate) fn findings(findings: &[ReconcileFinding]) -> String {
    let mut table = Table::new(&["FOUND", "HEALED", "TASK", "DETAIL", "TO DO"]);
    for finding in findings {
        table.row([
            finding_name(finding.kind),
            if finding.healed { "yes" } else { "no" }.to_owned(),
            finding
                .key
                .as_ref()
                .map_or_else(String::new, |key| key.task_id.clone()),
            finding.detail.clone(),
            finding.suggested_command.clone(),
        ]);
    }
    or_nothing(&table, "registry, git and disk agree\n")
}

pub(crate) fn server_info(info: &GetServerInfoResponse) -> String {
    let limits = info.limits.clone().unwrap_or_default();
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

fn or_nothing(table: &Table, nothing: &str) -> String {
    if table.is_empty() {
        nothing.to_owned()
    } else {
        table.render()
    }
}

#[cfg(test)]
mod tests {
    use worktreed_client::proto::{HandedOffDetail, WorktreeKey};

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
