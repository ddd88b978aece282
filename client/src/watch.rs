//! A watch that goes on by itself where it was cut off.

use std::time::Duration;

use futures::Stream;
use worktree_proto::v1::{
    Bookmark, EndOfState, ErrorReason, Event, Progress, WatchEventsRequest, Worktree,
    watch_events_request::Start, watch_events_response::Item,
};

use crate::{Client, Error, Responses, RetryPolicy};
use worktree_proto::v1::WatchEventsResponse;

/// The metadata under which a server that goes away names the last position that it sent.
const POSITION_KEY: &str = "position";

/// What a watch yields.
#[derive(Debug, Clone, PartialEq)]
pub enum WatchItem {
    /// Something happened.
    Event(Box<Event>),
    /// Nothing happened that passes the filter; the position has moved.
    Bookmark(Bookmark),
    /// A worktree as it is: part of the initial state.
    State(Box<Worktree>),
    /// The initial state is complete.
    EndOfState(EndOfState),
    /// How far a running operation is.
    Progress(Progress),
    /// The connection was lost within the initial state, which now begins anew: what came of it so far is void.
    StateRestarted,
}

/// A watch on events. It reconnects when the connection is lost or the server goes away, and continues after the last
/// position that it has seen, so that no event is missed and none is seen twice.
///
/// What cannot be mended is passed up, above all `EVENTS_COMPACTED`: then the state must be read anew.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    request: WatchEventsRequest,
    stream: Option<Responses<WatchEventsResponse>>,
    /// Where to go on; `None` until the server has said where the watch stands.
    position: Option<String>,
    state_begun: bool,
    announce_restart: bool,
    ever_connected: bool,
    failures: u32,
}

impl Watch {
    pub(crate) fn new(client: Client, request: WatchEventsRequest) -> Self {
        let position = match &request.start {
            Some(Start::After(position)) => Some(position.clone()),
            Some(Start::FromNow(_) | Start::FromBeginning(_) | Start::WithInitialState(_))
            | None => None,
        };
        Self {
            client,
            request,
            stream: None,
            position,
            state_begun: false,
            announce_restart: false,
            ever_connected: false,
            failures: 0,
        }
    }

    /// Returns the position to go on from in another watch; `None` if the server has not said any.
    pub fn position(&self) -> Option<&str> {
        self.position.as_deref()
    }

    /// Waits for the next item. An error is one that does not mend itself; called again, the watch goes on where it
    /// stood. May be dropped while it waits, as `select!` does: nothing is lost by it.
    pub async fn next(&mut self) -> Result<WatchItem, Error> {
        loop {
            if std::mem::take(&mut self.announce_restart) {
                return Ok(WatchItem::StateRestarted);
            }
            match self.receive().await {
                Ok(Some(item)) => {
                    self.failures = 0;
                    return Ok(item);
                }
                // The server sent a message of a kind that this version does not know.
                Ok(None) => {}
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Turns the watch into a stream that ends after its first error.
    pub fn into_stream(self) -> impl Stream<Item = Result<WatchItem, Error>> + Send {
        futures::stream::unfold(Some(self), |watch| async move {
            let mut watch = watch?;
            match watch.next().await {
                Ok(item) => Some((Ok(item), Some(watch))),
                Err(error) => Some((Err(error), None)),
            }
        })
    }

    async fn receive(&mut self) -> Result<Option<WatchItem>, Error> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => {
                let request = self.next_request();
                let stream = self.connecting_client().watch_events(request).await?;
                self.ever_connected = true;
                self.stream.insert(stream)
            }
        };
        match stream.message().await? {
            Some(message) => Ok(message.item.map(|item| self.note(item))),
            // No watch ends well: a proxy, or a server that does not say that it goes away.
            None => Err(Error::local(
                tonic::Code::Unavailable,
                "the server ended the watch",
            )),
        }
    }

    /// Once connected, this loop does the retries itself.
    fn connecting_client(&self) -> Client {
        if self.ever_connected {
            self.client.clone().with_retry(RetryPolicy::never())
        } else {
            self.client.clone()
        }
    }

    fn next_request(&self) -> WatchEventsRequest {
        let mut request = self.request.clone();
        if let Some(position) = &self.position {
            request.start = Some(Start::After(position.clone()));
        }
        request
    }

    fn note(&mut self, item: Item) -> WatchItem {
        match item {
            Item::Event(event) => {
                self.position = Some(event.position.clone());
                WatchItem::Event(Box::new(event))
            }
            Item::Bookmark(bookmark) => {
                self.position = Some(bookmark.position.clone());
                WatchItem::Bookmark(bookmark)
            }
            Item::State(worktree) => {
                self.state_begun = true;
                WatchItem::State(Box::new(worktree))
            }
            Item::EndOfState(end) => {
                self.position = Some(end.position.clone());
                WatchItem::EndOfState(end)
            }
            Item::Progress(progress) => WatchItem::Progress(progress),
        }
    }

    async fn recover(&mut self, error: Error) -> Result<(), Error> {
        self.stream = None;
        if !self.ever_connected || !error.is_retryable() {
            return Err(error);
        }
        // The server may have looked at events after the last one sent, which the filter left out. Within the initial
        // state it names none that could be gone on from.
        if error.is(ErrorReason::ServerDraining)
            && self.position.is_some()
            && let Some(position) = error
                .metadata()
                .get(POSITION_KEY)
                .filter(|position| !position.is_empty())
        {
            self.position = Some(position.clone());
        }
        self.announce_restart = self.position.is_none() && std::mem::take(&mut self.state_begun);
        self.failures = self.failures.saturating_add(1);
        let wait: Duration = self
            .client
            .retry()
            .backoff(self.failures, error.retry_delay());
        tracing::info!(%error, ?wait, position = self.position, "the watch was cut off; going on");
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
