//! The answer of a call that streams.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use futures::Stream;
use tonic::Streaming;

use crate::Error;

/// The messages of a streamed answer. Dropping it ends the call.
#[derive(Debug)]
pub struct Responses<T> {
    inner: Streaming<T>,
}

impl<T> Responses<T> {
    pub(crate) fn new(inner: Streaming<T>) -> Self {
        Self { inner }
    }

    /// Waits for the next message; `None` when the stream has ended as it should.
    pub async fn message(&mut self) -> Result<Option<T>, Error> {
        self.inner.message().await.map_err(Error::from)
    }
}

impl<T> Stream for Responses<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.inner)
            .poll_next(context)
            .map_err(Error::from)
    }
}
