//! Opening the file: looked at first, without writing, and refused untouched if it cannot be trusted.

use std::{borrow::Cow, path::Path, str::FromStr, sync::Arc, time::Duration};

use jiff::Timestamp;
use sqlx::{
    Connection, Row, SqlSafeStr, SqliteConnection,
    migrate::{Migration, MigrationType, Migrator},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use tokio::sync::watch;
use uuid::Uuid;

use super::{Error, Inner, Registry, Result, sql::nanos};

/// How many readers there are. All are opened at the start, and kept: what they cost is known then.
const READERS: u32 = 4;

/// The migrations in their order. A list and not `migrate!`, which does not notice a new file; a test holds it to the folder.
pub(super) const MIGRATIONS: &[(i64, &str, &str)] = &[(
    1,
    "registry",
    include_str!("../../migrations/0001_registry.sql"),
)];

fn migrator() -> Migrator {
    let migrations = MIGRATIONS.iter().map(|&(version, name, sql)| {
        Migration::new(
            version,
            Cow::Borrowed(name),
            MigrationType::Simple,
            sql.into_sql_str(),
            false,
        )
    });
    Migrator::with_migrations(migrations.collect())
}

impl Registry {
    /// Opens the registry, or makes it. A damaged or newer file is refused and left as it is.
    pub async fn open(path: &Path) -> Result<Self> {
        if path.metadata().is_ok_and(|found| found.len() > 0) {
            inspect(path).await?;
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(Duration::from_secs(10))
            .optimize_on_close(true, None);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options.clone())
            .await?;
        migrator().run(&writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(options.create_if_missing(false).read_only(true))
            .await?;
        let mut opened = Vec::new();
        for _ in 0..READERS {
            opened.push(readers.acquire().await?);
        }
        drop(opened);
        let (log_id, instance_id) = identity(&writer).await?;
        let head = sqlx::query("SELECT last_sequence FROM event_counter")
            .fetch_one(&writer)
            .await?
            .try_get(0)?;
        Ok(Self {
            inner: Arc::new(Inner {
                writer,
                readers,
                log_id,
                instance_id,
                head: watch::Sender::new(head),
            }),
        })
    }
}

/// Looks at the file without changing it, or anything beside it.
async fn inspect(path: &Path) -> Result<()> {
    let wal = path.with_file_name(format!(
        "{}-wal",
        path.file_name().unwrap_or_default().to_string_lossy()
    ));
    // Without a write-ahead log the file is all there is, and `immutable` keeps SQLite from making one to read it. With
    // one (the last server was killed) the log is part of the registry, and reading it needs SQLite's shared memory.
    let alone = !wal.metadata().is_ok_and(|found| found.len() > 0);
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(true)
        .immutable(alone)
        .busy_timeout(Duration::from_secs(10));
    let corrupt = |problem: String| Error::Corrupt {
        path: path.to_owned(),
        problem,
    };
    let broken = |error: sqlx::Error| corrupt(error.to_string());
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(broken)?;
    let verdict = look(&mut connection, path, &corrupt).await;
    connection.close().await.map_err(broken)?;
    verdict
}

async fn look(
    connection: &mut SqliteConnection,
    path: &Path,
    corrupt: &(dyn Fn(String) -> Error + Sync),
) -> Result<()> {
    let broken = |error: sqlx::Error| corrupt(error.to_string());
    let check: String = sqlx::query("PRAGMA quick_check(1)")
        .fetch_one(&mut *connection)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(broken)?;
    if check != "ok" {
        return Err(corrupt(check));
    }
    let tables: Vec<String> = sqlx::query("SELECT name FROM sqlite_master WHERE type = 'table'")
        .fetch_all(&mut *connection)
        .await
        .and_then(|rows| rows.iter().map(|row| row.try_get(0)).collect())
        .map_err(broken)?;
    if tables.is_empty() {
        return Ok(());
    }
    if !tables.iter().any(|name| name == "_sqlx_migrations") {
        return Err(corrupt("it is a database of something else".to_owned()));
    }
    let found: Option<i64> = sqlx::query("SELECT MAX(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await
        .and_then(|row| row.try_get(0))
        .map_err(broken)?;
    let known = MIGRATIONS.last().map_or(0, |migration| migration.0);
    match found {
        Some(found) if found > known => Err(Error::Newer {
            path: path.to_owned(),
            found,
            known,
        }),
        _ => Ok(()),
    }
}

/// The ids of log and installation, made at the first start.
async fn identity(writer: &sqlx::SqlitePool) -> Result<(Uuid, Uuid)> {
    sqlx::query(
        "INSERT INTO meta (one, log_id, instance_id, create_time) VALUES (1, ?, ?, ?) ON CONFLICT DO NOTHING",
    )
    .bind(Uuid::new_v4().to_string())
    .bind(Uuid::new_v4().to_string())
    .bind(nanos(Timestamp::now()))
    .execute(writer)
    .await?;
    let row = sqlx::query("SELECT log_id, instance_id FROM meta WHERE one = 1")
        .fetch_one(writer)
        .await?;
    let id = |column| {
        let text: &str = row.try_get(column)?;
        Uuid::from_str(text).map_err(|_| Error::Decode(format!("{column} {text:?}")))
    };
    Ok((id("log_id")?, id("instance_id")?))
}
