//! What is shown on one line as it comes: events, progress, verdicts; and what a reconciliation found.

use worktreed_client::proto::{Event, GcItem, Progress, ReconcileFinding, Worktree, event::Detail};

use super::{
    diff_stat, finding_name, gc_reason_name, kind_name, operation_name, or_nothing, state_name,
    verdict_name,
};
use crate::{
    table::Table,
    text::{plain, short_id, time},
};

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
