//! What is kept for how long.

use jiff::Timestamp;

use super::{Registry, Result, sql::nanos};

/// How much a compaction took out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Events.
    pub events: u64,
    /// Remembered answers.
    pub replies: u64,
}

/// How much one transaction takes out: a long one would hold up every mutation.
const STEP: i64 = 1_000;

impl Registry {
    /// Takes out events from before `events_before` or beyond the newest `keep_events`, and answers from before
    /// `replies_before`. A piece at a time, so that mutations get their turn.
    pub async fn compact(
        &self,
        events_before: Timestamp,
        keep_events: u64,
        replies_before: Timestamp,
    ) -> Result<Compacted> {
        let keep = i64::try_from(keep_events).unwrap_or(i64::MAX);
        let (_, head) = self.event_range().await?;
        let beyond = head.saturating_sub(keep);
        let mut compacted = Compacted::default();
        loop {
            // From the front and never from the middle, whatever the clock did: what is kept has no gap. Times follow
            // sequences but for a clock set back, so the first event that is young enough ends it.
            let result = sqlx::query(
                "DELETE FROM events WHERE sequence <= (SELECT MIN(sequence) + ? FROM events) AND (sequence <= ? OR \
                 sequence < COALESCE((SELECT MIN(sequence) FROM events WHERE time >= ?), ?))",
            )
            .bind(STEP - 1)
            .bind(beyond)
            .bind(nanos(events_before))
            .bind(i64::MAX)
            .execute(&self.inner.writer)
            .await?;
            compacted.events += result.rows_affected();
            if result.rows_affected() == 0 {
                break;
            }
        }
        loop {
            let result = sqlx::query(
                "DELETE FROM replies WHERE (principal, method, request_id) IN \
                 (SELECT principal, method, request_id FROM replies WHERE create_time < ? ORDER BY create_time LIMIT ?)",
            )
            .bind(nanos(replies_before))
            .bind(STEP)
            .execute(&self.inner.writer)
            .await?;
            compacted.replies += result.rows_affected();
            if result.rows_affected() == 0 {
                break;
            }
        }
        Ok(compacted)
    }
}
