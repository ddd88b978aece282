//! How an operation runs: in a task of its own that outlives its caller, journalled, with its answer remembered.

use std::{future::Future, sync::Arc};

use serde::{Deserialize, Serialize};
use tracing::Instrument as _;
use uuid::Uuid;
use worktree_engine::{Engine, Result as EngineResult};

use super::{Error, Lifecycle, Result};
use crate::registry::{ReplyKey, StoredReply};

/// What identifies a call, and how its answer is spelled for a repeat.
#[derive(Debug, Clone)]
pub(crate) struct Call<T> {
    /// Who asks.
    pub(crate) principal: String,
    /// The name of the RPC.
    pub(crate) method: &'static str,
    /// The caller's id of the request.
    pub(crate) request_id: Option<Uuid>,
    /// The digest of the request.
    pub(crate) digest: Vec<u8>,
    /// What ties call, event and log together.
    pub(crate) trace_id: String,
    /// The encoded answer of an outcome.
    pub(crate) encode: fn(&T) -> Vec<u8>,
}

impl<T> Call<T> {
    /// The answer to be remembered with the change; none where the caller gave no id.
    pub(crate) fn reply(&self, outcome: &T) -> Option<StoredReply> {
        Some(StoredReply {
            key: self.key()?,
            request_digest: self.digest.clone(),
            response: (self.encode)(outcome),
        })
    }

    /// What the journal keeps of the call.
    pub(crate) fn asked(&self) -> Option<Asked> {
        Some(Asked {
            principal: self.principal.clone(),
            method: self.method.to_owned(),
            request_id: self.request_id?,
            digest: self.digest.clone(),
        })
    }

    fn key(&self) -> Option<ReplyKey> {
        Some(ReplyKey {
            principal: self.principal.clone(),
            method: self.method.to_owned(),
            request_id: self.request_id?,
        })
    }
}

/// A call that can be repeated, as the journal keeps it: its answer is owed even if the server died in between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    principal: String,
    method: String,
    request_id: Uuid,
    digest: Vec<u8>,
}

impl Asked {
    /// The answer to be remembered with the change.
    pub(crate) fn reply(self, response: Vec<u8>) -> StoredReply {
        StoredReply {
            key: ReplyKey {
                principal: self.principal,
                method: self.method,
                request_id: self.request_id,
            },
            request_digest: self.digest,
            response,
        }
    }
}

/// What a call is answered with.
#[derive(Debug)]
pub(crate) enum Answer<T> {
    /// What it just did.
    Fresh(T),
    /// What it was answered with before.
    Stored(Vec<u8>),
}

impl Lifecycle {
    /// Runs a mutation to its end, whatever becomes of the caller.
    pub(crate) async fn mutate<T, F>(
        self: &Arc<Self>,
        call: Call<T>,
        run: impl FnOnce(Arc<Self>, Call<T>) -> F,
    ) -> Result<Answer<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let lifecycle = Arc::clone(self);
        let identity = (call.key(), call.digest.clone(), call.method);
        // On the heap: the state of a whole operation would weigh on every handler.
        let work = Box::pin(run(Arc::clone(self), call));
        self.spawn(async move {
            let (Some(key), digest, method) = identity else {
                return work.await.map(Answer::Fresh);
            };
            // Held to the end: a concurrent duplicate waits here and then finds the answer.
            let name = format!(
                "request {} {} {}",
                key.principal, key.method, key.request_id
            );
            let _joined = lifecycle.locks.join(&name).await;
            match lifecycle.registry.find_reply(&key).await? {
                Some(reply) if reply.request_digest == digest => Ok(Answer::Stored(reply.response)),
                Some(_) => Err(Error::RequestIdReused {
                    id: key.request_id.to_string(),
                    method,
                }),
                None => work.await.map(Answer::Fresh),
            }
        })
        .await
    }

    /// Runs a future as a task that a dropped caller does not cancel; refused once the server shuts down.
    pub(crate) async fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        if self.drain.is_cancelled() {
            return Err(Error::Draining { position: None });
        }
        self.tasks
            .spawn(Box::pin(work).instrument(tracing::Span::current()))
            .await
            .unwrap_or_else(|error| Err(Error::Internal(format!("an operation ended: {error}"))))
    }

    /// Runs the engine where it may block.
    pub(crate) async fn block<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> EngineResult<T> + Send + 'static,
    ) -> Result<T> {
        let permit = Arc::clone(&self.blocking).acquire_owned();
        let permit = tokio::time::timeout(self.settings.limits.lock_wait, permit)
            .await
            .map_err(|_| Error::QueueFull)?
            .map_err(|_| Error::Draining { position: None })?;
        let engine = Arc::clone(&self.engine);
        let span = tracing::Span::current();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            span.in_scope(|| work(&engine))
        })
        .await
        .map_err(|error| Error::Internal(format!("a blocking operation ended: {error}")))?
        .map_err(Error::Engine)
    }
}
