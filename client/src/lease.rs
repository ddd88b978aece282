//! A lease that is kept alive in the background.

use std::{fmt, time::Duration};

use tokio::{sync::watch, task::JoinHandle, time::Instant};
use worktree_proto::v1::{
    AcquireLeaseRequest, Lease, ReleaseLeaseRequest, RenewLeaseRequest, ResumeState, Worktree,
    WorktreeKey,
};

use crate::{Client, Deadlines, Error, RetryPolicy};

/// What a client asks for when the caller does not say: the renewals must be planned by the time that the server
/// really grants.
const DEFAULT_TTL: Duration = Duration::from_secs(60);

/// The outcome of clocking in.
#[derive(Debug)]
pub struct ClockIn {
    /// Keeps the lease alive.
    pub guard: LeaseGuard,
    /// The worktree, its directory there.
    pub worktree: Worktree,
    /// What to go on from.
    pub resume_state: ResumeState,
}

/// Why a lease is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseLoss {
    /// The server refused to renew: the lease has expired, was released or taken over. Holds its message.
    Refused(String),
    /// The server could not be reached until the lease must have expired. Holds the last error.
    Unreachable(String),
}

impl fmt::Display for LeaseLoss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) => write!(formatter, "the lease is lost: {message}"),
            Self::Unreachable(message) => write!(
                formatter,
                "the lease could not be renewed in time: {message}"
            ),
        }
    }
}

impl std::error::Error for LeaseLoss {}

/// Where a lease stands.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseState {
    /// It is live, as of the last renewal.
    Held(Lease),
    /// It is lost. Nothing may be written any more.
    Lost(LeaseLoss),
}

/// Keeps a lease alive: renews it in the background at a third of its time, and tells its owner when it is lost.
///
/// Dropping the guard ends the renewals and gives nothing back: the lease then expires by itself. To give it back at
/// once call [`LeaseGuard::release`]. After a handoff that released the lease call [`LeaseGuard::stop`].
#[derive(Debug)]
pub struct LeaseGuard {
    client: Client,
    key: WorktreeKey,
    epoch: i64,
    state: watch::Receiver<LeaseState>,
    renewal: JoinHandle<()>,
}

impl LeaseGuard {
    /// Returns the epoch, which goes into every mutation.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Returns the key of the worktree.
    pub fn key(&self) -> &WorktreeKey {
        &self.key
    }

    /// Returns where the lease stands now.
    pub fn state(&self) -> LeaseState {
        self.state.borrow().clone()
    }

    /// Says whether the lease is lost.
    pub fn is_lost(&self) -> bool {
        matches!(*self.state.borrow(), LeaseState::Lost(_))
    }

    /// Returns a receiver that sees each renewal and the loss, for an owner that waits in several places.
    pub fn subscribe(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Waits until the lease is lost. Made to stand in a `select!` beside the work.
    pub async fn lost(&self) -> LeaseLoss {
        let mut state = self.state.clone();
        let lost = state
            .wait_for(|state| matches!(state, LeaseState::Lost(_)))
            .await;
        match lost.as_deref() {
            Ok(LeaseState::Lost(loss)) => loss.clone(),
            Ok(LeaseState::Held(_)) | Err(_) => {
                LeaseLoss::Unreachable("the renewal has ended".to_owned())
            }
        }
    }

    /// Gives the lease back and returns the worktree. A handoff that the runtime has written is recorded by it.
    pub async fn release(self) -> Result<Worktree, Error> {
        self.renewal.abort();
        let request = ReleaseLeaseRequest {
            key: Some(self.key.clone()),
            lease_epoch: self.epoch,
        };
        let answer = self.client.release_lease(request).await?;
        answer
            .worktree
            .ok_or_else(|| Error::incomplete_answer("worktree"))
    }

    /// Ends the renewals and leaves the lease as it is.
    pub fn stop(self) {
        // Dropping does it; the method gives it a name.
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

pub(crate) async fn clock_in(
    client: &Client,
    mut request: AcquireLeaseRequest,
) -> Result<ClockIn, Error> {
    let ttl = request.ttl.as_ref().map_or(DEFAULT_TTL, |ttl| {
        Duration::try_from(*ttl).unwrap_or(DEFAULT_TTL)
    });
    if request.ttl.is_none() {
        request.ttl = prost_types::Duration::try_from(ttl).ok();
    }
    let key = request.key.clone().unwrap_or_default();
    // Taken before the call: the server's count begins later than ours, so that ours is never too long.
    let begun = Instant::now();
    let answer = client.acquire_lease(request).await?;
    let lease = answer
        .lease
        .ok_or_else(|| Error::incomplete_answer("lease"))?;
    let worktree = answer
        .worktree
        .ok_or_else(|| Error::incomplete_answer("worktree"))?;
    let epoch = lease.epoch;
    let (sender, state) = watch::channel(LeaseState::Held(lease));
    let renewal = Renewal {
        // One try a call: this loop decides itself when to try again, and when it is too late.
        client: client
            .clone()
            .with_retry(RetryPolicy::never())
            .with_deadlines(Deadlines {
                read: Some(ttl / 3),
                write: Some(ttl / 3),
            }),
        request: RenewLeaseRequest {
            key: Some(key.clone()),
            lease_epoch: epoch,
            ttl: prost_types::Duration::try_from(ttl).ok(),
        },
        ttl,
        sender,
    };
    let renewal = tokio::spawn(renewal.run(begun + ttl));
    let guard = LeaseGuard {
        client: client.clone(),
        key,
        epoch,
        state,
        renewal,
    };
    Ok(ClockIn {
        guard,
        worktree,
        resume_state: answer.resume_state.unwrap_or_default(),
    })
}

struct Renewal {
    client: Client,
    request: RenewLeaseRequest,
    ttl: Duration,
    sender: watch::Sender<LeaseState>,
}

impl Renewal {
    async fn run(self, mut expires: Instant) {
        let mut last_problem = None;
        loop {
            // After a failure sooner: a third of what is left, so that several tries fit in.
            let left = expires.saturating_duration_since(Instant::now());
            let wait = if last_problem.is_some() {
                left / 3
            } else {
                self.ttl / 3
            };
            tokio::time::sleep(wait.max(self.shortest_wait())).await;
            let begun = Instant::now();
            if begun >= expires {
                let message = last_problem
                    .unwrap_or_else(|| "this process was held up for too long".to_owned());
                return self.lose(LeaseLoss::Unreachable(message));
            }
            match tokio::time::timeout_at(expires, self.client.renew_lease(self.request.clone()))
                .await
            {
                Ok(Ok(answer)) => {
                    expires = begun + self.ttl;
                    last_problem = None;
                    if let Some(lease) = answer.lease {
                        self.sender.send_replace(LeaseState::Held(lease));
                    }
                }
                Ok(Err(error)) if is_transient(&error) => {
                    tracing::warn!(%error, "the lease was not renewed; trying again");
                    last_problem = Some(error.to_string());
                }
                Ok(Err(error)) => return self.lose(LeaseLoss::Refused(error.to_string())),
                Err(_) => return self.lose(LeaseLoss::Unreachable("no answer in time".to_owned())),
            }
        }
    }

    /// Keeps the tries from becoming a busy loop when little time is left.
    fn shortest_wait(&self) -> Duration {
        (self.ttl / 60).min(Duration::from_secs(1))
    }

    fn lose(&self, loss: LeaseLoss) {
        tracing::warn!(%loss, "lease lost");
        self.sender.send_replace(LeaseState::Lost(loss));
    }
}

/// Says whether the lease may still be ours after this error. Only a clear refusal says that it is not.
fn is_transient(error: &Error) -> bool {
    use tonic::Code;
    match error.code() {
        Code::Aborted | Code::NotFound | Code::FailedPrecondition | Code::InvalidArgument => {
            error.is_retryable()
        }
        Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented | Code::OutOfRange => {
            false
        }
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => true,
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
