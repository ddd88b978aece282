//! What happens by itself: leases end, reviews expire, garbage is collected, the trash is emptied.

use std::{sync::Arc, time::Duration};

use super::{Lifecycle, Result};

/// The longest pause between two looks at the leases.
const LEASE_TICK: Duration = Duration::from_secs(1);
/// How often reviews, trash and retention are looked at.
const SLOW_TICK: Duration = Duration::from_secs(60);
/// How long after the start the first sweep begins.
const FIRST_SWEEP: Duration = Duration::from_secs(30);
/// How many dropped directories are deleted before others get a turn.
const TRASH_STEP: usize = 8;

impl Lifecycle {
    /// Starts what happens by itself; it ends when the server shuts down.
    pub(crate) fn start_timers(self: &Arc<Self>) {
        self.every(LEASE_TICK, LEASE_TICK, |this| async move {
            this.end_expired_leases().await
        });
        self.every(SLOW_TICK, SLOW_TICK, |this| async move {
            this.sweep_reviews().await
        });
        self.every(LEASE_TICK, SLOW_TICK, |this| async move {
            this.block(|engine| engine.empty_trash(TRASH_STEP))
                .await
                .map(drop)
        });
        let compaction = self.settings.limits.compaction_interval;
        if !compaction.is_zero() {
            self.every(compaction, compaction, |this| async move {
                this.compact().await
            });
        }
        if !self.settings.limits.gc_interval.is_zero() {
            let interval = self.settings.limits.gc_interval;
            self.every(FIRST_SWEEP.min(interval), interval, |this| async move {
                let mut items = this.collect(this.default_sweep(), String::new()).await?;
                while items.recv().await.is_some() {}
                Ok(())
            });
        }
    }

    fn every<F>(
        self: &Arc<Self>,
        first: Duration,
        interval: Duration,
        work: impl Fn(Arc<Self>) -> F + Send + 'static,
    ) where
        F: Future<Output = Result<()>> + Send + 'static,
    {
        let this = self.share();
        let drain = self.drain.clone();
        tokio::spawn(async move {
            let begin = tokio::time::Instant::now() + first;
            let mut ticks = tokio::time::interval_at(begin, interval);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = drain.cancelled() => return,
                    _ = ticks.tick() => {}
                }
                if let Err(error) = work(this.share()).await {
                    tracing::warn!(%error, "a timed task failed");
                }
            }
        });
    }

    async fn end_expired_leases(self: &Arc<Self>) -> Result<()> {
        for row in self.registry.leases_expired(Self::now()).await? {
            // One at a time, each in a task of its own that a shutdown waits for.
            let this = self.share();
            let ended = self
                .spawn(async move { this.hold_row(row).await.map(drop) })
                .await;
            if let Err(error) = ended {
                tracing::debug!(%error, "a lease could not be ended yet");
            }
        }
        Ok(())
    }

    async fn compact(&self) -> Result<()> {
        let now = Self::now();
        let before = |age: Duration| now.checked_sub(age).unwrap_or(jiff::Timestamp::MIN);
        self.registry
            .compact(
                before(self.settings.limits.event_retention),
                self.settings.limits.event_retention_count,
                before(self.settings.limits.reply_retention),
            )
            .await?;
        Ok(())
    }
}
