//! The client: one method an RPC.

use std::time::Duration;

use tonic::transport::Channel;
use worktree_proto::{
    policy::{Idempotency, method_policy},
    v1::{
        self, event_service_client::EventServiceClient,
        handoff_service_client::HandoffServiceClient, lease_service_client::LeaseServiceClient,
        maintenance_service_client::MaintenanceServiceClient,
        review_service_client::ReviewServiceClient, worktree_service_client::WorktreeServiceClient,
    },
};

use crate::{
    ClockIn, Endpoint, EndpointError, Error, Responses, RetryPolicy, Watch,
    call::{CallOptions, call},
};

/// The largest answer that the client takes. The files of a system of record, 1 MiB each, do not fit into tonic's own
/// limit of 4 MiB.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// How long calls may take, their retries included. The deadline ends the reply, never the change itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For calls that change nothing; `None` for no limit.
    pub read: Option<Duration>,
    /// For all others, and for streams that end by themselves; `None` for no limit.
    pub write: Option<Duration>,
}

impl Default for Deadlines {
    fn default() -> Self {
        // A checkout has 30 minutes on the server; the rest is for what it waits for.
        Self {
            read: Some(Duration::from_secs(60)),
            write: Some(Duration::from_secs(35 * 60)),
        }
    }
}

/// A client of one server. Cheap to clone; clones share the connection.
#[derive(Debug, Clone)]
pub struct Client {
    channel: Channel,
    deadlines: Deadlines,
    retry: RetryPolicy,
}

impl Client {
    /// Makes a client that connects at its first call, and again whenever the connection was lost.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn new(endpoint: &Endpoint) -> Self {
        Self {
            channel: endpoint.channel(),
            deadlines: Deadlines::default(),
            retry: RetryPolicy::default(),
        }
    }

    /// Makes a client of the server that the environment names; see [`Endpoint::from_env`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn from_env() -> Result<Self, EndpointError> {
        Ok(Self::new(&Endpoint::from_env()?))
    }

    /// Returns the client with other deadlines.
    #[must_use]
    pub fn with_deadlines(mut self, deadlines: Deadlines) -> Self {
        self.deadlines = deadlines;
        self
    }

    /// Returns the client with other retries.
    #[must_use]
    pub fn with_retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// Returns how the client retries.
    pub fn retry(&self) -> RetryPolicy {
        self.retry
    }

    /// Clocks in: takes the lease, and keeps it alive until the guard is released or dropped.
    pub async fn clock_in(&self, request: v1::AcquireLeaseRequest) -> Result<ClockIn, Error> {
        crate::lease::clock_in(self, request).await
    }

    /// Watches events, and goes on by itself where the connection was cut off.
    pub fn watch(&self, request: v1::WatchEventsRequest) -> Watch {
        Watch::new(self.clone(), request)
    }

    fn options(&self, path: &'static str) -> CallOptions {
        let reads = method_policy(path)
            .is_some_and(|policy| policy.idempotency == Idempotency::NoSideEffects);
        let deadline = if reads {
            self.deadlines.read
        } else {
            self.deadlines.write
        };
        CallOptions {
            path,
            deadline,
            retry: self.retry,
        }
    }

    fn stream_options(&self, path: &'static str, deadline: Option<Duration>) -> CallOptions {
        CallOptions {
            path,
            deadline,
            retry: self.retry,
        }
    }
}

macro_rules! unary {
    ($($(#[$doc:meta])* $service:ident $method:ident($request:ident) -> $answer:ident, $path:literal;)+) => {
        impl Client {
            $($(#[$doc])*
            pub async fn $method(&self, request: v1::$request) -> Result<v1::$answer, Error> {
                let stub = $service::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
                call(self.options($path), request, move |request| {
                    let mut stub = stub.clone();
                    // On the heap: the future of a call is large, and callers put it into their own.
                    Box::pin(async move { stub.$method(request).await })
                })
                .await
            })+
        }

        #[cfg(test)]
        const UNARY_PATHS: &[&str] = &[$($path),+];
    };
}

unary! {
    /// Makes the worktree of a task, or answers the one that it has.
    WorktreeServiceClient provision_worktree(ProvisionWorktreeRequest) -> ProvisionWorktreeResponse, "/worktree.v1.WorktreeService/ProvisionWorktree";
    /// Answers one worktree.
    WorktreeServiceClient get_worktree(GetWorktreeRequest) -> GetWorktreeResponse, "/worktree.v1.WorktreeService/GetWorktree";
    /// Answers a page of worktrees.
    WorktreeServiceClient list_worktrees(ListWorktreesRequest) -> ListWorktreesResponse, "/worktree.v1.WorktreeService/ListWorktrees";
    /// Saves the work and keeps the directory.
    WorktreeServiceClient checkpoint_worktree(CheckpointWorktreeRequest) -> CheckpointWorktreeResponse, "/worktree.v1.WorktreeService/CheckpointWorktree";
    /// Saves the work, drops the directory and keeps the branch.
    WorktreeServiceClient pause_worktree(PauseWorktreeRequest) -> PauseWorktreeResponse, "/worktree.v1.WorktreeService/PauseWorktree";
    /// Builds the directory again.
    WorktreeServiceClient resume_worktree(ResumeWorktreeRequest) -> ResumeWorktreeResponse, "/worktree.v1.WorktreeService/ResumeWorktree";
    /// Ends the work: cleans up where nothing changed, retains it otherwise.
    WorktreeServiceClient complete_worktree(CompleteWorktreeRequest) -> CompleteWorktreeResponse, "/worktree.v1.WorktreeService/CompleteWorktree";
    /// Drops a worktree, after a recovery point pinned what was in it.
    WorktreeServiceClient remove_worktree(RemoveWorktreeRequest) -> RemoveWorktreeResponse, "/worktree.v1.WorktreeService/RemoveWorktree";
    /// Answers the files of the system of record.
    WorktreeServiceClient get_scaffold(GetScaffoldRequest) -> GetScaffoldResponse, "/worktree.v1.WorktreeService/GetScaffold";
    /// Answers a page of the branches of a repository.
    WorktreeServiceClient list_branches(ListBranchesRequest) -> ListBranchesResponse, "/worktree.v1.WorktreeService/ListBranches";

    /// Takes the lease. [`Client::clock_in`] does it and keeps the lease alive.
    LeaseServiceClient acquire_lease(AcquireLeaseRequest) -> AcquireLeaseResponse, "/worktree.v1.LeaseService/AcquireLease";
    /// Puts the end of the lease off.
    LeaseServiceClient renew_lease(RenewLeaseRequest) -> RenewLeaseResponse, "/worktree.v1.LeaseService/RenewLease";
    /// Gives the lease back.
    LeaseServiceClient release_lease(ReleaseLeaseRequest) -> ReleaseLeaseResponse, "/worktree.v1.LeaseService/ReleaseLease";

    /// Clocks out: writes and records the handoff, and releases the lease.
    HandoffServiceClient write_handoff(WriteHandoffRequest) -> WriteHandoffResponse, "/worktree.v1.HandoffService/WriteHandoff";
    /// Answers the handoff in the checkout, or the one recorded last.
    HandoffServiceClient get_handoff(GetHandoffRequest) -> GetHandoffResponse, "/worktree.v1.HandoffService/GetHandoff";
    /// Answers a page of the recorded handoffs.
    HandoffServiceClient list_handoffs(ListHandoffsRequest) -> ListHandoffsResponse, "/worktree.v1.HandoffService/ListHandoffs";
    /// Answers what a cold runtime needs to go on.
    HandoffServiceClient get_resume_state(GetResumeStateRequest) -> GetResumeStateResponse, "/worktree.v1.HandoffService/GetResumeState";

    /// Checks a commit out for one reviewer.
    ReviewServiceClient create_review(CreateReviewRequest) -> CreateReviewResponse, "/worktree.v1.ReviewService/CreateReview";
    /// Answers a page of reviews.
    ReviewServiceClient list_reviews(ListReviewsRequest) -> ListReviewsResponse, "/worktree.v1.ReviewService/ListReviews";
    /// Drops a review's directory, and says whether the reviewer changed anything.
    ReviewServiceClient remove_review(RemoveReviewRequest) -> RemoveReviewResponse, "/worktree.v1.ReviewService/RemoveReview";

    /// Answers a page of events from the log. [`Client::watch`] waits for more.
    EventServiceClient list_events(ListEventsRequest) -> ListEventsResponse, "/worktree.v1.EventService/ListEvents";

    /// Compares registry, git and disk, and puts right what is safe to put right.
    MaintenanceServiceClient reconcile(ReconcileRequest) -> ReconcileResponse, "/worktree.v1.MaintenanceService/Reconcile";
    /// Answers what the server is, can do and allows.
    MaintenanceServiceClient get_server_info(GetServerInfoRequest) -> GetServerInfoResponse, "/worktree.v1.MaintenanceService/GetServerInfo";
}

macro_rules! streaming {
    ($($(#[$doc:meta])* $service:ident $method:ident($request:ident) -> $answer:ident, $deadline:expr, $path:literal;)+) => {
        impl Client {
            $($(#[$doc])*
            pub async fn $method(&self, request: v1::$request) -> Result<Responses<v1::$answer>, Error> {
                let stub = $service::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
                let deadline: fn(&Deadlines) -> Option<Duration> = $deadline;
                let options = self.stream_options($path, deadline(&self.deadlines));
                let stream = call(options, request, move |request| {
                    let mut stub = stub.clone();
                    Box::pin(async move { stub.$method(request).await })
                })
                .await?;
                Ok(Responses::new(stream))
            })+
        }

        #[cfg(test)]
        const STREAMING_PATHS: &[&str] = &[$($path),+];
    };
}

streaming! {
    /// Answers the size of the work, then the patch if asked for. Only the opening of the stream is retried.
    WorktreeServiceClient get_diff(GetDiffRequest) -> GetDiffResponse, |deadlines| deadlines.write, "/worktree.v1.WorktreeService/GetDiff";
    /// Opens a watch as the server gives it. [`Client::watch`] goes on by itself where it is cut off.
    EventServiceClient watch_events(WatchEventsRequest) -> WatchEventsResponse, |_| None, "/worktree.v1.EventService/WatchEvents";
    /// Reaps worktrees by age and count. Only the opening of the stream is retried.
    MaintenanceServiceClient collect_garbage(CollectGarbageRequest) -> CollectGarbageResponse, |deadlines| deadlines.write, "/worktree.v1.MaintenanceService/CollectGarbage";
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use worktree_proto::policy::method_policies;

    use super::*;

    #[test]
    fn every_rpc_of_the_contract_has_a_method_under_its_own_path() {
        let ours: BTreeSet<&str> = UNARY_PATHS.iter().chain(STREAMING_PATHS).copied().collect();
        let contract: BTreeSet<&str> = method_policies().keys().map(String::as_str).collect();
        assert_eq!(ours, contract);
    }
}
