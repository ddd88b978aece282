//! What was saved and what was not, warnings, and the size of the work.

use worktree_engine::model::{
    DiffStat, NotSaved, NotSavedReason, RecoveryPoint, SaveMode, Warning,
};
use worktree_proto::v1;

use super::count;

pub(crate) fn not_saved_reason(reason: NotSavedReason) -> v1::NotSavedReason {
    match reason {
        NotSavedReason::Ignored => v1::NotSavedReason::Ignored,
        NotSavedReason::IgnoredKept => v1::NotSavedReason::IgnoredKept,
        NotSavedReason::Unreadable => v1::NotSavedReason::Unreadable,
        NotSavedReason::TooLarge => v1::NotSavedReason::TooLarge,
        NotSavedReason::SpecialFile => v1::NotSavedReason::SpecialFile,
    }
}

pub(crate) fn not_saved(list: &[NotSaved]) -> Vec<v1::NotSaved> {
    list.iter()
        .map(|entry| v1::NotSaved {
            path: entry.path.clone(),
            reason: not_saved_reason(entry.reason) as i32,
            file_count: count(entry.file_count),
            size_bytes: count(entry.size_bytes),
        })
        .collect()
}

/// Warnings; a code that the contract does not know keeps its sentence.
pub(crate) fn warnings(list: &[Warning]) -> Vec<v1::Warning> {
    list.iter()
        .map(|warning| {
            let name = format!("WARNING_CODE_{}", warning.code);
            let code = v1::WarningCode::from_str_name(&name);
            v1::Warning {
                code: code.unwrap_or(v1::WarningCode::Unspecified) as i32,
                message: warning.message.clone(),
                path: Vec::new(),
            }
        })
        .collect()
}

pub(crate) fn diff_stat(stat: &DiffStat) -> v1::DiffStat {
    v1::DiffStat {
        files_changed: count(stat.files_changed),
        insertions: count(stat.insertions),
        deletions: count(stat.deletions),
        dirty: stat.dirty,
    }
}

/// The full name of the ref, or nothing.
pub(crate) fn recovery_ref(point: Option<&RecoveryPoint>) -> String {
    point
        .map(|point| point.ref_name.clone())
        .unwrap_or_default()
}

pub(crate) fn save_mode(mode: v1::SaveMode) -> SaveMode {
    match mode {
        v1::SaveMode::Snapshot => SaveMode::Snapshot,
        v1::SaveMode::Unspecified | v1::SaveMode::Commit => SaveMode::Commit,
    }
}
