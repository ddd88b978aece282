//! Reading: from a pool of connections of its own, so that no reader waits for a writer.

use jiff::Timestamp;
use sqlx::{QueryBuilder, Row, Sqlite};
use uuid::Uuid;
use worktree_engine::{
    ids::{TaskId, WorktreeId},
    lifecycle::State,
};

use super::{
    Error, HandoffRow, JournalEntry, RecoveryPointRow, Registry, ReplyKey, RepositoryRow, Result,
    ReviewRow, StoredEvent, StoredReply, WorktreeQuery, WorktreeRow,
    sql::{self, nanos, select_worktrees},
};

impl Registry {
    /// The live worktree of a task.
    pub async fn live(&self, repo_id: &str, task: &TaskId) -> Result<Option<WorktreeRow>> {
        let row = sqlx::query(select_worktrees!(
            "WHERE w.repo_id = ? AND w.task_id = ? AND w.live = 1"
        ))
        .bind(repo_id)
        .bind(task.as_str())
        .fetch_optional(&self.inner.readers)
        .await?;
        row.as_ref().map(sql::worktree).transpose()
    }

    /// The live worktree of a task, else its newest.
    pub async fn newest(&self, repo_id: &str, task: &TaskId) -> Result<Option<WorktreeRow>> {
        let row = sqlx::query(select_worktrees!(
            "WHERE w.repo_id = ? AND w.task_id = ? ORDER BY w.live DESC, w.id DESC LIMIT 1"
        ))
        .bind(repo_id)
        .bind(task.as_str())
        .fetch_optional(&self.inner.readers)
        .await?;
        row.as_ref().map(sql::worktree).transpose()
    }

    /// The worktree of that id.
    pub async fn by_id(&self, id: WorktreeId) -> Result<Option<WorktreeRow>> {
        let row = sqlx::query(select_worktrees!("WHERE w.id = ?"))
            .bind(id.to_string())
            .fetch_optional(&self.inner.readers)
            .await?;
        row.as_ref().map(sql::worktree).transpose()
    }

    /// The newest row of the task that has this branch and owns it: the branch is then this task's own.
    pub async fn branch_owner(
        &self,
        repo_id: &str,
        task: &TaskId,
        branch: &str,
    ) -> Result<Option<WorktreeRow>> {
        let row = sqlx::query(select_worktrees!(
            "WHERE w.repo_id = ? AND w.branch = ? AND w.task_id = ? AND w.owns_branch <> 0 ORDER BY w.id DESC LIMIT 1"
        ))
        .bind(repo_id)
        .bind(branch)
        .bind(task.as_str())
        .fetch_optional(&self.inner.readers)
        .await?;
        row.as_ref().map(sql::worktree).transpose()
    }

    /// A page of worktrees, the newest first.
    pub async fn list(&self, query: &WorktreeQuery) -> Result<Vec<WorktreeRow>> {
        let mut builder = worktree_query(query);
        builder.push(" ORDER BY w.id DESC LIMIT ");
        builder.push_bind(i64::try_from(query.limit).unwrap_or(i64::MAX));
        let rows = builder.build().fetch_all(&self.inner.readers).await?;
        rows.iter().map(sql::worktree).collect()
    }

    /// All live worktrees, of one repository or of all.
    pub async fn live_rows(&self, repo_id: Option<&str>) -> Result<Vec<WorktreeRow>> {
        self.list(&WorktreeQuery {
            repo_id: repo_id.map(str::to_owned),
            limit: usize::MAX,
            ..WorktreeQuery::default()
        })
        .await
    }

    /// All live worktrees and the sequence that they are as of, from one snapshot.
    pub async fn snapshot(&self, repo_id: Option<&str>) -> Result<(Vec<WorktreeRow>, i64)> {
        let mut transaction = self.inner.readers.begin().await?;
        let sequence = sqlx::query("SELECT last_sequence FROM event_counter")
            .fetch_one(&mut *transaction)
            .await?
            .try_get(0)?;
        let query = WorktreeQuery {
            repo_id: repo_id.map(str::to_owned),
            ..WorktreeQuery::default()
        };
        let mut builder = worktree_query(&query);
        builder.push(" ORDER BY w.id");
        let rows = builder.build().fetch_all(&mut *transaction).await?;
        transaction.rollback().await?;
        let rows: Result<Vec<_>> = rows.iter().map(sql::worktree).collect();
        Ok((rows?, sequence))
    }

    /// The worktrees whose lease ends at that time or before.
    pub async fn leases_expired(&self, now: Timestamp) -> Result<Vec<WorktreeRow>> {
        let rows = sqlx::query(select_worktrees!(
            "WHERE l.expire_time <= ? ORDER BY l.expire_time"
        ))
        .bind(nanos(now))
        .fetch_all(&self.inner.readers)
        .await?;
        rows.iter().map(sql::worktree).collect()
    }

    /// When the next lease ends.
    pub async fn next_lease_expiry(&self) -> Result<Option<Timestamp>> {
        let row = sqlx::query(
            "SELECT expire_time FROM leases WHERE expire_time IS NOT NULL ORDER BY expire_time LIMIT 1",
        )
        .fetch_optional(&self.inner.readers)
        .await?;
        row.as_ref()
            .map(|row| sql::timestamp(row, "expire_time"))
            .transpose()
    }

    /// The journal: what was begun and is not finished, the oldest first.
    pub async fn journal(&self) -> Result<Vec<JournalEntry>> {
        let rows = sqlx::query(
            "SELECT id, worktree_id, operation, payload FROM journal ORDER BY create_time, id",
        )
        .fetch_all(&self.inner.readers)
        .await?;
        let bad = |text: &str| Error::Decode(format!("journal id {text:?}"));
        rows.iter()
            .map(|row| {
                let id: &str = row.try_get("id")?;
                let worktree: Option<&str> = row.try_get("worktree_id")?;
                Ok(JournalEntry {
                    id: id.parse().map_err(|_| bad(id))?,
                    worktree_id: worktree
                        .map(|text| text.parse().map(WorktreeId).map_err(|_| bad(text)))
                        .transpose()?,
                    operation: row.try_get("operation")?,
                    payload: serde_json::from_str(row.try_get("payload")?)?,
                })
            })
            .collect()
    }

    /// The remembered answer to a request.
    pub async fn find_reply(&self, key: &ReplyKey) -> Result<Option<StoredReply>> {
        let row = sqlx::query(
            "SELECT request_digest, response FROM replies WHERE principal = ? AND method = ? AND request_id = ?",
        )
        .bind(&key.principal)
        .bind(&key.method)
        .bind(key.request_id.to_string())
        .fetch_optional(&self.inner.readers)
        .await?;
        row.map(|row| {
            Ok(StoredReply {
                key: key.clone(),
                request_digest: row.try_get("request_digest")?,
                response: row.try_get("response")?,
            })
        })
        .transpose()
    }

    /// The newest handoff of a worktree.
    pub async fn last_handoff(&self, id: WorktreeId) -> Result<Option<HandoffRow>> {
        Ok(self.handoffs(id, None, 1).await?.pop())
    }

    /// Handoffs of a worktree with a number below `before`, the newest first.
    pub async fn handoffs(
        &self,
        id: WorktreeId,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<HandoffRow>> {
        let rows = sqlx::query(
            "SELECT * FROM handoffs WHERE worktree_id = ? AND number < ? ORDER BY number DESC LIMIT ?",
        )
        .bind(id.to_string())
        .bind(before.unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_all(&self.inner.readers)
        .await?;
        rows.iter().map(sql::handoff).collect()
    }

    /// The review of that id.
    pub async fn review(&self, id: WorktreeId) -> Result<Option<ReviewRow>> {
        let row = sqlx::query("SELECT * FROM reviews WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.inner.readers)
            .await?;
        row.as_ref().map(sql::review).transpose()
    }

    /// Reviews, the newest first; `repo_id` and `task_id` narrow it down.
    pub async fn reviews(
        &self,
        repo_id: Option<&str>,
        task_id: Option<&str>,
        after: Option<WorktreeId>,
        limit: usize,
    ) -> Result<Vec<ReviewRow>> {
        let mut builder = QueryBuilder::<Sqlite>::new("SELECT * FROM reviews WHERE 1 = 1");
        if let Some(repo_id) = repo_id {
            builder
                .push(" AND repo_id = ")
                .push_bind(repo_id.to_owned());
        }
        if let Some(task_id) = task_id {
            builder
                .push(" AND task_id = ")
                .push_bind(task_id.to_owned());
        }
        if let Some(after) = after {
            builder.push(" AND id < ").push_bind(after.to_string());
        }
        builder.push(" ORDER BY id DESC LIMIT ");
        builder.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = builder.build().fetch_all(&self.inner.readers).await?;
        rows.iter().map(sql::review).collect()
    }

    /// The reviews that end at that time or before.
    pub async fn reviews_expired(&self, now: Timestamp) -> Result<Vec<ReviewRow>> {
        let rows = sqlx::query("SELECT * FROM reviews WHERE expire_time <= ? ORDER BY expire_time")
            .bind(nanos(now))
            .fetch_all(&self.inner.readers)
            .await?;
        rows.iter().map(sql::review).collect()
    }

    /// The recovery points made of a worktree, the oldest first.
    pub async fn recovery_points(&self, id: WorktreeId) -> Result<Vec<RecoveryPointRow>> {
        let rows = sqlx::query(
            "SELECT * FROM recovery_points WHERE worktree_id = ? ORDER BY create_time, ref_name",
        )
        .bind(id.to_string())
        .fetch_all(&self.inner.readers)
        .await?;
        rows.iter().map(sql::recovery_point).collect()
    }

    /// The repository with this canonical common directory.
    pub async fn repository(&self, common_dir: &str) -> Result<Option<RepositoryRow>> {
        let rows = sqlx::query("SELECT * FROM repositories WHERE common_dir = ?")
            .bind(common_dir)
            .fetch_optional(&self.inner.readers)
            .await?;
        rows.as_ref().map(repository).transpose()
    }

    /// Every repository seen so far.
    pub async fn repositories(&self) -> Result<Vec<RepositoryRow>> {
        let rows = sqlx::query("SELECT * FROM repositories ORDER BY repo_id")
            .fetch_all(&self.inner.readers)
            .await?;
        rows.iter().map(repository).collect()
    }

    /// The events after a sequence, the oldest first.
    pub async fn events_after(&self, sequence: i64, limit: usize) -> Result<Vec<StoredEvent>> {
        let rows = sqlx::query("SELECT * FROM events WHERE sequence > ? ORDER BY sequence LIMIT ?")
            .bind(sequence)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(&self.inner.readers)
            .await?;
        rows.iter().map(sql::event).collect()
    }

    /// The oldest event kept and the newest sequence given out; the first is absent while no event is kept.
    pub async fn event_range(&self) -> Result<(Option<i64>, i64)> {
        let row = sqlx::query(
            "SELECT (SELECT MIN(sequence) FROM events) AS oldest, last_sequence FROM event_counter",
        )
        .fetch_one(&self.inner.readers)
        .await?;
        Ok((row.try_get("oldest")?, row.try_get("last_sequence")?))
    }

    /// Whether a journal entry of that id is there.
    pub async fn in_journal(&self, id: Uuid) -> Result<bool> {
        let row = sqlx::query("SELECT 1 FROM journal WHERE id = ?")
            .bind(id.to_string())
            .fetch_optional(&self.inner.readers)
            .await?;
        Ok(row.is_some())
    }
}

fn repository(row: &sqlx::sqlite::SqliteRow) -> Result<RepositoryRow> {
    Ok(RepositoryRow {
        repo_id: row.try_get("repo_id")?,
        common_dir: row.try_get("common_dir")?,
        path: row.try_get("path")?,
        origin_url: row.try_get("origin_url")?,
    })
}

fn worktree_query(query: &WorktreeQuery) -> QueryBuilder<Sqlite> {
    let mut builder = QueryBuilder::new(select_worktrees!("WHERE "));
    if query.states.is_empty() {
        builder.push("w.live = 1");
    } else {
        builder.push("w.state IN (");
        let mut separated = builder.separated(", ");
        for state in &query.states {
            separated.push_bind(State::as_str(*state));
        }
        builder.push(")");
    }
    if let Some(repo_id) = &query.repo_id {
        builder.push(" AND w.repo_id = ").push_bind(repo_id.clone());
    }
    if let Some(after) = query.after {
        builder.push(" AND w.id < ").push_bind(after.to_string());
    }
    builder
}
