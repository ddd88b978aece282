//! How the registry fails.

use std::path::PathBuf;

/// The registry's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every way the registry fails. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A row is not in the version that the change was made from.
    #[error("the worktree {id} was changed by somebody else in between")]
    Conflict {
        /// The row.
        id: String,
    },
    /// The task has a live worktree already.
    #[error("the task has a live worktree already")]
    LiveExists,
    /// No room for the change.
    #[error("no space left for the registry")]
    DiskFull(#[source] sqlx::Error),
    /// The file is damaged, or is no registry.
    #[error("the registry {} is damaged: {problem}; it was left as it is: put a copy back, or move it away to start anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// The file was written by a newer version.
    #[error("the registry {} is from a newer version of worktreed (its schema is {found}, this one knows {known}); it was left as it is: run the newer version", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema known here.
        known: i64,
    },
    /// A stored value cannot be read.
    #[error("the registry holds a value that cannot be read: {0}")]
    Decode(String),
    /// The database failed.
    #[error("the registry failed: {0}")]
    Database(#[source] sqlx::Error),
    /// The schema could not be brought up to date.
    #[error("the registry could not be brought up to date: {0}")]
    Migrate(#[from] sqlx::migrate::MigrateError),
}

impl Error {
    /// Whether there was no room for the change.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull(_))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let code = error
            .as_database_error()
            .and_then(|database| database.code())
            .and_then(|code| code.parse::<u32>().ok());
        match code {
            // FULL, and the two I/O errors by which a file that cannot grow shows itself (the log, its shared memory).
            Some(13 | 778 | 4874) => Self::DiskFull(error),
            _ => Self::Database(error),
        }
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Decode(error.to_string())
    }
}
