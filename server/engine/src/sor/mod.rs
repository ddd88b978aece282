//! The system of record: the files through which a checkout describes itself, and all that a cold runtime may know (law 9).

mod handoff;
mod handoff_json;
mod init;
mod progress;
mod recognise;
mod resume;
mod scaffold;
mod store;
mod text;

pub use handoff::{
    Commands, Evidence, Handoff, HandoffObserved, HandoffOrigin, RepositoryPath, RoomCursor,
    SCHEMA_VERSION,
};
pub use handoff_json::{parse_handoff, render_handoff};
pub use init::{InitSlots, default_init, parse_init};
pub use progress::{Progress, parse_progress};
pub use recognise::is_service_scaffold;
pub use resume::{ResumeState, resume_state};
pub use scaffold::{ScaffoldCommands, ScaffoldRequest, SorFile, render, validate};
pub use store::{
    HandoffRead, ScaffoldFile, WrittenHandoff, read_handoff, read_scaffold, write_handoff,
};

/// What the task is.
pub const TASK_FILE: &str = "TASK.md";
/// How far it is.
pub const PROGRESS_FILE: &str = "task-progress.md";
/// What was decided on the way.
pub const DECISIONS_FILE: &str = "DECISIONS.json";
/// How the checkout is brought to life.
pub const INIT_FILE: &str = "init.sh";
/// How the work is checked.
pub const VERIFICATION_FILE: &str = "VERIFICATION.md";
/// What one runtime tells the next; written at clock-out, not by provision.
pub const HANDOFF_FILE: &str = "AGENT_HANDOFF.json";

/// Every name of the system of record, in a fixed order.
pub const SOR_FILES: [&str; 6] = [
    TASK_FILE,
    PROGRESS_FILE,
    DECISIONS_FILE,
    INIT_FILE,
    VERIFICATION_FILE,
    HANDOFF_FILE,
];

/// No file of the system of record is read or written beyond this many bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
