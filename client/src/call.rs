//! One call: its deadline, and its retries where the contract allows them.

use std::time::Duration;

use tokio::time::Instant;
use tonic::{Code, Request, Response, Status};
use worktree_proto::policy::method_policy;

use crate::{Error, RetryPolicy, request::Outgoing};

/// How one call is to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallOptions {
    /// The path of the method, by which its policy is found.
    pub(crate) path: &'static str,
    /// How long the call may take with all its retries; `None` for as long as it takes.
    pub(crate) deadline: Option<Duration>,
    pub(crate) retry: RetryPolicy,
}

/// Makes a call: `send` is one try. The request is filled in once, so that every try carries the same request id.
pub(crate) async fn call<Q, A, Send, Answer>(
    options: CallOptions,
    mut request: Q,
    send: Send,
) -> Result<A, Error>
where
    Q: Outgoing,
    Send: Fn(Request<Q>) -> Answer,
    Answer: Future<Output = Result<Response<A>, Status>>,
{
    request.fill_in();
    let attempts = if is_safe_to_retry(options.path) {
        options.retry.max_attempts.max(1)
    } else {
        1
    };
    let deadline = options.deadline.map(|limit| Instant::now() + limit);
    let mut attempt = 1;
    loop {
        let error = match try_once(&request, deadline, &send).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if attempt >= attempts || !error.is_retryable() {
            return Err(error);
        }
        let wait = options.retry.backoff(attempt, error.retry_delay());
        // A wait that outlasts the deadline can only hide the error that there is.
        if deadline.is_some_and(|deadline| Instant::now() + wait >= deadline) {
            return Err(error);
        }
        tracing::debug!(path = options.path, attempt, ?wait, %error, "trying again");
        tokio::time::sleep(wait).await;
        attempt += 1;
    }
}

async fn try_once<Q, A, Send, Answer>(
    request: &Q,
    deadline: Option<Instant>,
    send: &Send,
) -> Result<A, Error>
where
    Q: Outgoing,
    Send: Fn(Request<Q>) -> Answer,
    Answer: Future<Output = Result<Response<A>, Status>>,
{
    let mut outgoing = Request::new(request.clone());
    let answer = match deadline {
        None => send(outgoing).await,
        Some(deadline) => {
            // The server is told how long anybody listens.
            outgoing.set_timeout(deadline.saturating_duration_since(Instant::now()));
            match tokio::time::timeout_at(deadline, send(outgoing)).await {
                Ok(answer) => answer,
                Err(_) => return Err(deadline_exceeded()),
            }
        }
    };
    match answer {
        Ok(answer) => Ok(answer.into_inner()),
        // tonic says CANCELLED when its own timer, set to the same deadline, is the first to ring.
        Err(status)
            if status.code() == Code::Cancelled
                && deadline.is_some_and(|at| at <= Instant::now()) =>
        {
            Err(deadline_exceeded())
        }
        Err(status) => Err(Error::from(status)),
    }
}

fn is_safe_to_retry(path: &str) -> bool {
    method_policy(path).is_some_and(|policy| policy.idempotency.is_safe_to_retry())
}

fn deadline_exceeded() -> Error {
    Error::local(
        Code::DeadlineExceeded,
        "no answer before the deadline; a change that was begun goes on, and a repeat with its request id joins it",
    )
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
