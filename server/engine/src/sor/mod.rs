//! t
#![allow(missing_docs)]
use crate::error::*;
use crate::ids::*;
pub const SOR_FILES: &[&str] = &[
    "TASK.md",
    "task-progress.md",
    "DECISIONS.json",
    "init.sh",
    "VERIFICATION.md",
];
pub const HANDOFF_FILE: &str = "AGENT_HANDOFF.json";
#[derive(Debug, Clone, Default)]
pub struct ScaffoldRequest {
    pub title: String,
}
#[derive(Debug, Clone)]
pub struct SorFile {
    pub name: &'static str,
    pub content: Vec<u8>,
    pub executable: bool,
}
pub fn validate(_: &ScaffoldRequest) -> Result<()> {
    Ok(())
}
pub fn render(_: &TaskId, _: &ScaffoldRequest, _: &SorDir) -> Vec<SorFile> {
    SOR_FILES
        .iter()
        .map(|n| SorFile {
            name: n,
            content: n.as_bytes().to_vec(),
            executable: *n == "init.sh",
        })
        .collect()
}
pub fn is_service_scaffold(_: &str, _: &[u8]) -> bool {
    false
}
