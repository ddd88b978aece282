//! `EventService`.

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt as _};
use prost::Message as _;
use tonic::{Request, Response, Status};
use worktree_proto::v1::{
    self, event_service_server::EventService, watch_events_request::Start as WantedStart,
    watch_events_response::Item,
};

use super::{
    Api,
    convert::{count, timestamp, worktree},
    error::to_status,
    plain, request,
};
use crate::{
    events::{EventFilter, EventHub, PositionError, Start, WatchError, WatchItem, WatchOptions},
    lifecycle::{Error, Result},
    registry::StoredEvent,
};

/// The longest interval of bookmarks.
const BOOKMARK_MAX: Duration = Duration::from_secs(60 * 60);

#[tonic::async_trait]
impl EventService for Api {
    type WatchEventsStream =
        Pin<Box<dyn Stream<Item = Result<v1::WatchEventsResponse, Status>> + Send>>;

    async fn watch_events(
        &self,
        request: Request<v1::WatchEventsRequest>,
    ) -> Result<Response<Self::WatchEventsStream>, Status> {
        let message = request.into_inner();
        let hub = self.lifecycle.hub.clone();
        let answer = async {
            let options = self.options(message).await?;
            let items = hub
                .watch(options)
                .await
                .map_err(|error| watch_error(&hub, error))?;
            let hub = hub.clone();
            let items = items.map(move |item| match item {
                Ok(item) => response(&hub, item).map_err(|error| to_status(&error)),
                Err(error) => Err(to_status(&watch_error(&hub, error))),
            });
            Ok(Box::pin(items) as Self::WatchEventsStream)
        };
        plain(answer.await)
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> Result<Response<v1::ListEventsResponse>, Status> {
        let message = request.into_inner();
        let hub = &self.lifecycle.hub;
        let answer = async {
            let size = request::page_size(message.page_size, self.limits())?;
            let filter = self.filter(message.filter.unwrap_or_default()).await?;
            let after = Some(&*message.after).filter(|after| !after.is_empty());
            let page = hub
                .page(&filter, after, size)
                .await
                .map_err(|error| watch_error(hub, error))?;
            Ok(v1::ListEventsResponse {
                events: page
                    .events
                    .iter()
                    .map(|event| stored(hub, event))
                    .collect::<Result<_>>()?,
                next_position: hub.position(page.next),
                has_more: page.has_more,
            })
        };
        plain(answer.await)
    }
}

impl Api {
    async fn options(&self, message: v1::WatchEventsRequest) -> Result<WatchOptions> {
        let least = Duration::from_secs(1);
        let interval = message.bookmark_interval;
        let interval = request::duration("bookmark_interval", interval, least, BOOKMARK_MAX)?;
        Ok(WatchOptions {
            filter: self.filter(message.filter.unwrap_or_default()).await?,
            start: match message.start {
                None | Some(WantedStart::FromNow(_)) => Start::FromNow,
                Some(WantedStart::FromBeginning(_)) => Start::FromBeginning,
                Some(WantedStart::After(position)) => Start::After(position),
                Some(WantedStart::WithInitialState(_)) => Start::WithInitialState,
            },
            bookmark_interval: interval.unwrap_or_else(|| self.limits().bookmark_interval),
            include_progress: message.include_progress,
        })
    }

    async fn filter(&self, filter: v1::EventFilter) -> Result<EventFilter> {
        if filter.task_ids.len() > 1000 {
            return Err(Error::invalid("filter.task_ids", "must be at most 1,000"));
        }
        for (index, task) in filter.task_ids.iter().enumerate() {
            request::task(&format!("filter.task_ids[{index}]"), task)?;
        }
        for (index, kind) in filter.kinds.iter().enumerate() {
            if *kind == 0 || v1::EventKind::try_from(*kind).is_err() {
                let field = format!("filter.kinds[{index}]");
                return Err(Error::invalid(field, "is not a kind of event"));
            }
        }
        let repo_id = match &*filter.repo {
            "" => None,
            repo => Some(self.future_repo_id(repo).await?),
        };
        Ok(EventFilter {
            repo_id,
            task_ids: filter.task_ids.into_iter().collect(),
            kinds: filter.kinds.into_iter().collect(),
        })
    }

    /// The id that a repository has, or will have once something is made in it: a watch may begin before.
    async fn future_repo_id(&self, repo: &str) -> Result<String> {
        let located = self.lifecycle.locate(repo).await?;
        match self.lifecycle.repository_row(&located).await? {
            Some(row) => Ok(row.repo_id),
            None => Ok(self.lifecycle.open(&located).await?.repo_id()),
        }
    }
}

/// The stored event with what the log says of it.
fn stored(hub: &EventHub, event: &StoredEvent) -> Result<v1::Event> {
    let mut message = v1::Event::decode(&*event.payload)
        .map_err(|error| Error::Internal(format!("a stored event: {error}")))?;
    message.position = hub.position(event.sequence);
    message.sequence = event.sequence;
    message.time = Some(timestamp(event.time));
    Ok(message)
}

fn response(hub: &EventHub, item: WatchItem) -> Result<v1::WatchEventsResponse> {
    let item = match item {
        WatchItem::Event(event) => Item::Event(stored(hub, &event)?),
        WatchItem::Bookmark { sequence, time } => Item::Bookmark(v1::Bookmark {
            position: hub.position(sequence),
            time: Some(timestamp(time)),
        }),
        WatchItem::State(row) => Item::State(worktree::worktree(&row)),
        WatchItem::EndOfState { sequence, count: n } => Item::EndOfState(v1::EndOfState {
            position: hub.position(sequence),
            count: count(n),
        }),
        WatchItem::Progress(update) => Item::Progress(v1::Progress {
            key: Some(v1::WorktreeKey {
                repo: update.repo,
                task_id: update.task_id,
            }),
            operation: worktree::operation(update.operation) as i32,
            stage: update.stage.to_owned(),
            done: count(update.done),
            total: count(update.total),
            unit: update.unit.to_owned(),
            time: Some(timestamp(update.time)),
        }),
    };
    Ok(v1::WatchEventsResponse { item: Some(item) })
}

fn watch_error(hub: &EventHub, error: WatchError) -> Error {
    match error {
        WatchError::Position(PositionError::Malformed { field }) => {
            Error::invalid(field, "is not a position of this service")
        }
        WatchError::Position(PositionError::OtherLog | PositionError::Ahead { .. }) => {
            Error::PositionUnknown
        }
        WatchError::Position(PositionError::Compacted { oldest }) => {
            Error::EventsCompacted { oldest }
        }
        WatchError::Draining { sequence } => Error::Draining {
            position: Some(hub.position(sequence)),
        },
        WatchError::TooMany { limit } => Error::TooManyWatchers { limit },
        WatchError::Registry(error) => Error::Registry(error),
    }
}
