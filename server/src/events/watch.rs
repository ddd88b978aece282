//! One watch: from a start, through the log, to the end of the server or of the watcher.

use std::{collections::HashSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::{
    sync::{OwnedSemaphorePermit, broadcast, mpsc, watch},
    time::{Instant, MissedTickBehavior},
};
use tokio_stream::wrappers::ReceiverStream;

use super::{EventHub, Position, PositionError, ProgressUpdate};
use crate::registry::{self, StoredEvent, WorktreeRow};

/// How many events are read from the log at a time.
const PAGE: usize = 256;
/// How many items wait for the connection: a slow watcher holds so many in memory, and the rest stays in the log.
const BACKLOG: usize = 64;
/// How long the end of a watch waits for a watcher that does not read.
const LAST_WORD: Duration = Duration::from_secs(2);
/// The shortest interval of bookmarks.
const MIN_BOOKMARK: Duration = Duration::from_secs(1);

/// Which events are shown. What is empty or absent shows all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of this repository, by id.
    pub repo_id: Option<String>,
    /// Of these tasks.
    pub task_ids: HashSet<String>,
    /// Of these kinds, by number.
    pub kinds: HashSet<i32>,
}

impl EventFilter {
    fn concerns(&self, repo_id: &str, task_id: &str) -> bool {
        self.repo_id
            .as_deref()
            .is_none_or(|wanted| wanted == repo_id)
            && (self.task_ids.is_empty() || self.task_ids.contains(task_id))
    }

    fn shows(&self, event: &StoredEvent) -> bool {
        self.concerns(&event.repo_id, &event.task_id)
            && (self.kinds.is_empty() || self.kinds.contains(&event.kind))
    }
}

/// Where a watch starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// With what happens after the call.
    #[default]
    FromNow,
    /// With the oldest event kept.
    FromBeginning,
    /// After this position (a token).
    After(String),
    /// With the worktrees as they are.
    WithInitialState,
}

/// What is watched, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// Which events.
    pub filter: EventFilter,
    /// Where to start.
    pub start: Start,
    /// How often a bookmark is sent while no event is; at least a second.
    pub bookmark_interval: Duration,
    /// Whether the progress of running operations is shown too.
    pub include_progress: bool,
}

/// One item of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// Something happened.
    Event(Box<StoredEvent>),
    /// Nothing that passes the filter happened up to here.
    Bookmark {
        /// The sequence to go on from.
        sequence: i64,
        /// When it was so.
        time: Timestamp,
    },
    /// A worktree as it is.
    State(Box<WorktreeRow>),
    /// The initial state is complete.
    EndOfState {
        /// The sequence that it is as of.
        sequence: i64,
        /// How many worktrees were sent.
        count: u64,
    },
    /// How far an operation is.
    Progress(Box<ProgressUpdate>),
}

/// How a watch ends.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// It cannot start, or go on, there.
    #[error(transparent)]
    Position(#[from] PositionError),
    /// The server stops.
    #[error("the server is stopping; go on from the last position elsewhere or later")]
    Draining {
        /// The last sequence that was sent or passed.
        sequence: i64,
    },
    /// There are as many watches as there may be.
    #[error("no more than {limit} watches at a time (setting max_watches)")]
    TooMany {
        /// How many.
        limit: usize,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

/// A page of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The events that pass the filter.
    pub events: Vec<StoredEvent>,
    /// The sequence to go on from.
    pub next: i64,
    /// Whether there were more at the time.
    pub has_more: bool,
}

impl EventHub {
    /// Starts a watch. Where it starts is settled before the call returns, so that a refusal is the call's answer and
    /// nothing that happens afterwards is missed.
    pub async fn watch(
        &self,
        options: WatchOptions,
    ) -> Result<ReceiverStream<Result<WatchItem, WatchError>>, WatchError> {
        let place =
            Arc::clone(&self.places)
                .try_acquire_owned()
                .map_err(|_| WatchError::TooMany {
                    limit: self.max_watches,
                })?;
        let head = self.registry.subscribe();
        let progress = options.include_progress.then(|| self.progress.subscribe());
        let (first, sequence) = self.first(&options).await?;
        let (sender, receiver) = mpsc::channel(BACKLOG);
        let watcher = Watcher {
            hub: self.clone(),
            filter: options.filter,
            interval: options.bookmark_interval.max(MIN_BOOKMARK),
            head,
            progress,
            sender,
            sequence,
            _place: place,
        };
        tokio::spawn(watcher.run(first));
        Ok(ReceiverStream::new(receiver))
    }

    /// A page of events after a position, or from the oldest kept.
    pub async fn page(
        &self,
        filter: &EventFilter,
        after: Option<&str>,
        size: usize,
    ) -> Result<Page, WatchError> {
        let mut next = match after {
            Some(token) => self.resolve(token).await?,
            None => self.beginning().await?,
        };
        let mut events = Vec::new();
        loop {
            // One more than wanted, to know whether there is more.
            let read = self.registry.events_after(next, PAGE).await?;
            self.check_contiguous(next, &read).await?;
            let last_page = read.len() < PAGE;
            for event in read {
                if filter.shows(&event) {
                    if events.len() == size {
                        return Ok(Page {
                            events,
                            next,
                            has_more: true,
                        });
                    }
                    next = event.sequence;
                    events.push(event);
                } else {
                    next = event.sequence;
                }
            }
            if last_page {
                return Ok(Page {
                    events,
                    next,
                    has_more: false,
                });
            }
        }
    }

    async fn first(&self, options: &WatchOptions) -> Result<(Vec<WatchItem>, i64), WatchError> {
        let time = Timestamp::now();
        Ok(match &options.start {
            Start::FromNow => {
                let (_, sequence) = self.registry.event_range().await?;
                (vec![WatchItem::Bookmark { sequence, time }], sequence)
            }
            Start::FromBeginning => (Vec::new(), self.beginning().await?),
            Start::After(token) => (Vec::new(), self.resolve(token).await?),
            Start::WithInitialState => {
                let filter = &options.filter;
                let (rows, sequence) = self.registry.snapshot(filter.repo_id.as_deref()).await?;
                let shown = rows
                    .into_iter()
                    .filter(|row| filter.concerns(&row.repo_id, row.task_id().as_str()));
                let mut items: Vec<_> = shown.map(|row| WatchItem::State(Box::new(row))).collect();
                let count = items.len() as u64;
                items.push(WatchItem::EndOfState { sequence, count });
                (items, sequence)
            }
        })
    }

    /// The sequence before the oldest event kept.
    async fn beginning(&self) -> Result<i64, WatchError> {
        let (oldest, head) = self.registry.event_range().await?;
        Ok(oldest.map_or(head, |oldest| oldest - 1))
    }

    /// The sequence of a position, if the log can go on from there.
    async fn resolve(&self, token: &str) -> Result<i64, WatchError> {
        let position = Position::parse(token)?;
        if position.log_id != self.registry.log_id() {
            return Err(PositionError::OtherLog.into());
        }
        let (oldest, head) = self.registry.event_range().await?;
        if position.sequence > head {
            return Err(PositionError::Ahead { head }.into());
        }
        let oldest = oldest.unwrap_or(head + 1);
        if position.sequence < oldest - 1 {
            return Err(PositionError::Compacted { oldest }.into());
        }
        Ok(position.sequence)
    }

    /// What was read has to begin right after `sequence`: a slow reader may have been overtaken by compaction.
    async fn check_contiguous(
        &self,
        sequence: i64,
        read: &[StoredEvent],
    ) -> Result<(), WatchError> {
        let oldest = match read.first() {
            Some(first) => first.sequence,
            // Nothing is kept any more, which is only well if nothing was missed.
            None => {
                let (oldest, head) = self.registry.event_range().await?;
                oldest.unwrap_or(head + 1).min(head + 1)
            }
        };
        if oldest > sequence + 1 && (!read.is_empty() || self.registry.head() > sequence) {
            return Err(PositionError::Compacted { oldest }.into());
        }
        Ok(())
    }
}

struct Watcher {
    hub: EventHub,
    filter: EventFilter,
    interval: Duration,
    head: watch::Receiver<i64>,
    progress: Option<broadcast::Receiver<ProgressUpdate>>,
    sender: mpsc::Sender<Result<WatchItem, WatchError>>,
    /// The last sequence that was sent or passed.
    sequence: i64,
    _place: OwnedSemaphorePermit,
}

/// The watcher is gone, or was told the end.
struct Ended;

impl Watcher {
    async fn run(mut self, first: Vec<WatchItem>) {
        // `Ended` only says that there is nobody to tell any more.
        drop(self.go(first).await);
    }

    async fn go(&mut self, first: Vec<WatchItem>) -> Result<(), Ended> {
        for item in first {
            self.send(item).await?;
        }
        let mut ticks = tokio::time::interval_at(Instant::now() + self.interval, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.catch_up().await? {
                ticks.reset();
            }
            let shutdown = self.hub.shutdown.clone();
            let sender = self.sender.clone();
            tokio::select! {
                biased;
                () = sender.closed() => return Err(Ended),
                () = shutdown.cancelled() => return self.drain().await,
                changed = self.head.changed() => if changed.is_err() { return Err(Ended) },
                update = next_progress(&mut self.progress) => self.show(update).await?,
                _ = ticks.tick() => {
                    let bookmark = WatchItem::Bookmark { sequence: self.sequence, time: Timestamp::now() };
                    self.send(bookmark).await?;
                }
            }
        }
    }

    /// Sends what the log has beyond this watch; whether any of it was shown.
    async fn catch_up(&mut self) -> Result<bool, Ended> {
        let mut shown = false;
        loop {
            let read = self.hub.registry.events_after(self.sequence, PAGE).await;
            let read = match read {
                Ok(read) => read,
                Err(error) => return self.fail(error.into()).await,
            };
            if let Err(error) = self.hub.check_contiguous(self.sequence, &read).await {
                return self.fail(error).await;
            }
            let whole = read.len() == PAGE;
            for event in read {
                let sequence = event.sequence;
                if self.filter.shows(&event) {
                    self.send(WatchItem::Event(Box::new(event))).await?;
                    shown = true;
                }
                self.sequence = sequence;
            }
            if !whole {
                return Ok(shown);
            }
        }
    }

    async fn show(
        &mut self,
        update: Result<ProgressUpdate, broadcast::error::RecvError>,
    ) -> Result<(), Ended> {
        match update {
            Ok(update) if self.filter.concerns(&update.repo_id, &update.task_id) => {
                self.send(WatchItem::Progress(Box::new(update))).await
            }
            // Skipped steps are no loss: progress is not part of the history.
            Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
            Err(broadcast::error::RecvError::Closed) => {
                self.progress = None;
                Ok(())
            }
        }
    }

    /// Waits for room, for as long as the server and the watcher live.
    async fn send(&mut self, item: WatchItem) -> Result<(), Ended> {
        let sender = self.sender.clone();
        tokio::select! {
            sent = sender.send(Ok(item)) => sent.map_err(|_| Ended),
            () = self.hub.shutdown.cancelled() => self.drain().await,
        }
    }

    async fn drain(&self) -> Result<(), Ended> {
        let sequence = self.sequence;
        self.fail(WatchError::Draining { sequence }).await
    }

    /// Ends the watch with its reason. A watcher that does not read cannot hold up the end of the server.
    async fn fail<T>(&self, error: WatchError) -> Result<T, Ended> {
        drop(tokio::time::timeout(LAST_WORD, self.sender.send(Err(error))).await);
        Err(Ended)
    }
}

/// The next step of progress, or never where none is wanted.
async fn next_progress(
    receiver: &mut Option<broadcast::Receiver<ProgressUpdate>>,
) -> Result<ProgressUpdate, broadcast::error::RecvError> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}
