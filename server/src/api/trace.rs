//! What ties a call, its events and its lines in the log together.

use std::{
    task::{Context, Poll},
    time::Instant,
};

use futures::future::BoxFuture;
use tonic::Extensions;
use tower::{Layer, Service};
use tracing::Instrument as _;

/// The id of a call, among the extensions of its request.
#[derive(Debug, Clone)]
struct TraceId(String);

/// The id of the call that these extensions belong to.
pub(crate) fn trace_id(extensions: &Extensions) -> String {
    extensions
        .get::<TraceId>()
        .map_or_else(String::new, |id| id.0.clone())
}

/// Gives every call an id and a span, and writes a line when it is answered.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TraceLayer;

impl<S> Layer<S> for TraceLayer {
    type Service = Traced<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Traced { inner }
    }
}

/// A service whose calls are traced.
#[derive(Debug, Clone)]
pub(crate) struct Traced<S> {
    inner: S,
}

impl<S, B, R> Service<http::Request<B>> for Traced<S>
where
    S: Service<http::Request<B>, Response = http::Response<R>>,
    S::Future: Send + 'static,
    S::Error: std::fmt::Display,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> Self::Future {
        let id = uuid::Uuid::now_v7().to_string();
        let method = request.uri().path().to_owned();
        let span = tracing::info_span!("rpc", %method, trace_id = %id, task = tracing::field::Empty, repo = tracing::field::Empty);
        request.extensions_mut().insert(TraceId(id));
        let begun = Instant::now();
        let answer = span.in_scope(|| self.inner.call(request));
        Box::pin(
            async move {
                let answer = answer.await;
                // A stream that fails later carries its code in the trailers: this is the code of the answer's head.
                let code = answer.as_ref().ok().and_then(|response| {
                    let status = response.headers().get("grpc-status")?;
                    status.to_str().ok().map(ToOwned::to_owned)
                });
                let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
                tracing::info!(
                    code = code.as_deref().unwrap_or("0"),
                    milliseconds,
                    "answered"
                );
                answer
            }
            .instrument(span),
        )
    }
}

/// Names the worktree of a call in its span.
pub(crate) fn name_worktree(repo: &str, task: &str) {
    let span = tracing::Span::current();
    span.record("repo", repo);
    span.record("task", task);
}
