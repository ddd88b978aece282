//! The one function that changes the registry.

use jiff::Timestamp;
use sqlx::{Row, Sqlite, SqliteConnection, pool::PoolConnection};

use super::{
    Change, Committed, Error, JournalChange, Lease, NewEvent, NewHandoff, RecoveryPointRow,
    Registry, RepositoryRow, Result, ReviewChange, StoredEvent, StoredReply, WorktreeRow,
    sql::nanos,
};

impl Registry {
    /// Makes all of a change durable, or none of it: rows, events, journal, reply. The only writer (law 6).
    pub async fn commit(&self, change: Change) -> Result<Committed> {
        let mut writer = Writer(Some(self.inner.writer.acquire().await?));
        // IMMEDIATE: a lock taken late could find that another process wrote in between.
        writer.run("BEGIN IMMEDIATE").await?;
        // Boxed: the futures of a dozen statements would otherwise grow every operation that ends with a commit.
        match Box::pin(apply(writer.connection()?, change)).await {
            Ok(committed) => {
                writer.run("COMMIT").await?;
                writer.keep();
                if let Some(last) = committed.events.last() {
                    self.announce(last.sequence);
                }
                Ok(committed)
            }
            Err(error) => {
                // A full disk makes SQLite roll back by itself, and this fails: then the connection goes.
                if writer.run("ROLLBACK").await.is_ok() {
                    writer.keep();
                }
                Err(error)
            }
        }
    }

    /// Wakes the watchers. Commits may get here in another order than they were made in; the number only grows.
    fn announce(&self, sequence: i64) {
        self.inner.head.send_if_modified(|head| {
            let newer = sequence > *head;
            if newer {
                *head = sequence;
            }
            newer
        });
    }
}

/// The writing connection for one transaction. Unless it is kept it is closed, which rolls back whatever it was in: after
/// an error in the middle, or when the caller is dropped, nobody knows what that was.
struct Writer(Option<PoolConnection<Sqlite>>);

impl Writer {
    fn connection(&mut self) -> Result<&mut SqliteConnection> {
        self.0
            .as_deref_mut()
            .ok_or(Error::Database(sqlx::Error::WorkerCrashed))
    }

    async fn run(&mut self, statement: &'static str) -> Result<()> {
        sqlx::query(statement).execute(self.connection()?).await?;
        Ok(())
    }

    fn keep(mut self) {
        // Back to the pool.
        drop(self.0.take());
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

async fn apply(connection: &mut SqliteConnection, change: Change) -> Result<Committed> {
    let now = Timestamp::now();
    if let Some(repository) = &change.repository {
        put_repository(connection, repository, now).await?;
    }
    let mut committed = Committed::default();
    for row in change.rows {
        committed.rows.push(put_worktree(connection, row).await?);
    }
    if let Some(handoff) = &change.handoff {
        committed.handoff_number = Some(add_handoff(connection, handoff, now).await?);
    }
    for point in &change.recovery_points {
        add_recovery_point(connection, point).await?;
    }
    for review in &change.reviews {
        put_review(connection, review).await?;
    }
    put_journal(connection, &change.journal, now).await?;
    if let Some(reply) = &change.reply {
        add_reply(connection, reply, now).await?;
    }
    committed.events = append(connection, change.events, now).await?;
    Ok(committed)
}

async fn put_repository(
    connection: &mut SqliteConnection,
    repository: &RepositoryRow,
    now: Timestamp,
) -> Result<()> {
    // What was seen first stays: the id is computed from it.
    sqlx::query(
        "INSERT INTO repositories (repo_id, common_dir, path, origin_url, first_seen_time) VALUES (?, ?, ?, ?, ?) \
         ON CONFLICT DO NOTHING",
    )
    .bind(&repository.repo_id)
    .bind(&repository.common_dir)
    .bind(&repository.path)
    .bind(&repository.origin_url)
    .bind(nanos(now))
    .execute(connection)
    .await?;
    Ok(())
}

async fn put_worktree(
    connection: &mut SqliteConnection,
    mut row: WorktreeRow,
) -> Result<WorktreeRow> {
    let id = row.id().to_string();
    if row.version == 0 {
        insert_worktree(connection, &id, &row).await?;
    } else if !update_worktree(connection, &id, &row).await? {
        return Err(Error::Conflict { id });
    }
    put_lease(connection, &id, row.lease.as_ref()).await?;
    row.version += 1;
    Ok(row)
}

/// Makes the row with what never changes; the update that follows in the same transaction writes the rest, so that the
/// long list of columns stands in one place.
async fn insert_worktree(
    connection: &mut SqliteConnection,
    id: &str,
    row: &WorktreeRow,
) -> Result<()> {
    let inserted = sqlx::query(
        "INSERT INTO worktrees (id, repo, repo_id, task_id, origin, kind, isolation, host_id, create_time, live, version, \
         state, path, branch, base_ref, checkout, update_time, last_active_time) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '', '', '', '', '', 0, 0)",
    )
    .bind(id)
    .bind(&row.repo)
    .bind(&row.repo_id)
    .bind(row.task_id().as_str())
    .bind(row.origin.as_str())
    .bind(&row.kind)
    .bind(&row.isolation)
    .bind(&row.host_id)
    .bind(nanos(row.create_time))
    .bind(!row.state.is_terminal())
    .execute(&mut *connection)
    .await;
    match inserted {
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => Err(Error::LiveExists),
        Err(error) => Err(error.into()),
        Ok(_) => update_worktree(connection, id, row).await.map(drop),
    }
}

/// Whether the row was there in the version that the change was made from.
async fn update_worktree(
    connection: &mut SqliteConnection,
    id: &str,
    row: &WorktreeRow,
) -> Result<bool> {
    let (owner_kind, owner_id) = row.owner.as_ref().map(|(kind, id)| (kind, id)).unzip();
    let restore = row
        .restore
        .as_ref()
        .map(serde_json::to_string)
        .transpose()?;
    let epoch = i64::try_from(row.last_epoch).unwrap_or(i64::MAX);
    let result = sqlx::query(
        "UPDATE worktrees SET version = version + 1, live = ?, state = ?, pending_operation = ?, display_name = ?, \
         owner_kind = ?, owner_id = ?, labels = ?, path = ?, branch = ?, base_ref = ?, checkout = ?, head = ?, \
         head_time = ?, restore = ?, task_completed = ?, owns_branch = ?, last_epoch = ?, update_time = ?, \
         last_active_time = ? WHERE id = ? AND version = ?",
    )
    .bind(!row.state.is_terminal())
    .bind(row.state.as_str())
    .bind(row.pending_operation.map(|operation| operation.as_str()))
    .bind(&row.display_name)
    .bind(owner_kind)
    .bind(owner_id)
    .bind(serde_json::to_string(&row.labels)?)
    .bind(row.checkout.path.to_string_lossy().into_owned())
    .bind(row.checkout.branch.as_str())
    .bind(&row.base_ref)
    .bind(serde_json::to_string(&row.checkout)?)
    .bind(row.head.as_ref().map(|head| head.as_str()))
    .bind(row.head_time)
    .bind(restore)
    .bind(row.task_completed)
    .bind(row.owns_branch)
    .bind(epoch)
    .bind(nanos(row.update_time))
    .bind(nanos(row.last_active_time))
    .bind(id)
    .bind(row.version)
    .execute(connection)
    .await?;
    Ok(result.rows_affected() == 1)
}

async fn put_lease(
    connection: &mut SqliteConnection,
    id: &str,
    lease: Option<&Lease>,
) -> Result<()> {
    sqlx::query("DELETE FROM leases WHERE worktree_id = ?")
        .bind(id)
        .execute(&mut *connection)
        .await?;
    let Some(lease) = lease else { return Ok(()) };
    let process = lease.holder_process.as_ref().map(serde_json::to_string);
    sqlx::query(
        "INSERT INTO leases (worktree_id, holder, runtime, epoch, ttl_millis, acquire_time, expire_time, holder_process) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(&lease.holder)
    .bind(&lease.runtime)
    .bind(i64::try_from(lease.epoch.0).unwrap_or(i64::MAX))
    .bind(i64::try_from(lease.ttl.as_millis()).unwrap_or(i64::MAX))
    .bind(nanos(lease.acquire_time))
    .bind(nanos(lease.expire_time))
    .bind(process.transpose()?)
    .execute(connection)
    .await?;
    Ok(())
}

async fn add_handoff(
    connection: &mut SqliteConnection,
    handoff: &NewHandoff,
    now: Timestamp,
) -> Result<i64> {
    let id = handoff.worktree_id.to_string();
    let number: i64 =
        sqlx::query("SELECT COALESCE(MAX(number), 0) + 1 FROM handoffs WHERE worktree_id = ?")
            .bind(&id)
            .fetch_one(&mut *connection)
            .await?
            .try_get(0)?;
    sqlx::query(
        "INSERT INTO handoffs (worktree_id, number, origin, digest, handoff, create_time) VALUES (?, ?, ?, ?, ?, ?)",
    )
    .bind(&id)
    .bind(number)
    .bind(handoff.origin.as_str())
    .bind(&handoff.digest)
    .bind(&handoff.handoff)
    .bind(nanos(now))
    .execute(connection)
    .await?;
    Ok(number)
}

async fn add_recovery_point(
    connection: &mut SqliteConnection,
    row: &RecoveryPointRow,
) -> Result<()> {
    // A replayed journal may record the same pin again.
    sqlx::query(
        "INSERT INTO recovery_points (ref_name, repo_id, worktree_id, commit_id, operation, create_time) \
         VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )
    .bind(&row.point.ref_name)
    .bind(&row.repo_id)
    .bind(row.worktree_id.map(|id| id.to_string()))
    .bind(row.point.commit.as_str())
    .bind(&row.operation)
    .bind(nanos(row.create_time))
    .execute(connection)
    .await?;
    Ok(())
}

async fn put_review(connection: &mut SqliteConnection, change: &ReviewChange) -> Result<()> {
    let row = match change {
        ReviewChange::Put(row) => row,
        ReviewChange::Remove(id) => {
            sqlx::query("DELETE FROM reviews WHERE id = ?")
                .bind(id.to_string())
                .execute(connection)
                .await?;
            return Ok(());
        }
    };
    sqlx::query(
        "INSERT INTO reviews (id, repo, repo_id, task_id, worktree_id, sha, reviewer, checkout, create_time, expire_time) \
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
         ON CONFLICT (id) DO UPDATE SET checkout = excluded.checkout, expire_time = excluded.expire_time",
    )
    .bind(row.checkout.id.to_string())
    .bind(&row.repo)
    .bind(&row.repo_id)
    .bind(&row.task_id)
    .bind(row.worktree_id.map(|id| id.to_string()))
    .bind(row.sha.as_str())
    .bind(&row.reviewer)
    .bind(serde_json::to_string(&row.checkout)?)
    .bind(nanos(row.create_time))
    .bind(nanos(row.expire_time))
    .execute(connection)
    .await?;
    Ok(())
}

async fn put_journal(
    connection: &mut SqliteConnection,
    change: &JournalChange,
    now: Timestamp,
) -> Result<()> {
    match change {
        JournalChange::None => {}
        JournalChange::End(id) => {
            sqlx::query("DELETE FROM journal WHERE id = ?")
                .bind(id.to_string())
                .execute(connection)
                .await?;
        }
        JournalChange::Put(entry) => {
            sqlx::query(
                "INSERT INTO journal (id, worktree_id, operation, payload, create_time, update_time) \
                 VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET operation = excluded.operation, \
                 payload = excluded.payload, update_time = excluded.update_time",
            )
            .bind(entry.id.to_string())
            .bind(entry.worktree_id.map(|id| id.to_string()))
            .bind(&entry.operation)
            .bind(serde_json::to_string(&entry.payload)?)
            .bind(nanos(now))
            .bind(nanos(now))
            .execute(connection)
            .await?;
        }
    }
    Ok(())
}

async fn add_reply(
    connection: &mut SqliteConnection,
    reply: &StoredReply,
    now: Timestamp,
) -> Result<()> {
    // The first answer stays: a repeat gets what the first one got.
    sqlx::query(
        "INSERT INTO replies (principal, method, request_id, request_digest, response, create_time) \
         VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
    )
    .bind(&reply.key.principal)
    .bind(&reply.key.method)
    .bind(reply.key.request_id.to_string())
    .bind(&reply.request_digest)
    .bind(&reply.response)
    .bind(nanos(now))
    .execute(connection)
    .await?;
    Ok(())
}

async fn append(
    connection: &mut SqliteConnection,
    events: Vec<NewEvent>,
    now: Timestamp,
) -> Result<Vec<StoredEvent>> {
    let mut stored = Vec::with_capacity(events.len());
    for event in events {
        let sequence: i64 = sqlx::query(
            "UPDATE event_counter SET last_sequence = last_sequence + 1 RETURNING last_sequence",
        )
        .fetch_one(&mut *connection)
        .await?
        .try_get(0)?;
        sqlx::query(
            "INSERT INTO events (sequence, time, kind, repo_id, task_id, payload) VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(sequence)
        .bind(nanos(now))
        .bind(event.kind)
        .bind(&event.repo_id)
        .bind(&event.task_id)
        .bind(&event.payload)
        .execute(&mut *connection)
        .await?;
        stored.push(StoredEvent {
            sequence,
            time: now,
            kind: event.kind,
            repo_id: event.repo_id,
            task_id: event.task_id,
            payload: event.payload,
        });
    }
    Ok(stored)
}
