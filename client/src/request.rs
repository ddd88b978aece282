//! Request ids: what makes a repeat of a mutation join the first call and not do it twice.

use uuid::Uuid;
use worktree_proto::v1;

/// A request on its way out.
pub(crate) trait Outgoing: Clone + Send + Sync + 'static {
    /// Fills in what the caller left out and a safe retry needs.
    fn fill_in(&mut self) {}
}

macro_rules! with_request_id {
    ($($request:ident),+ $(,)?) => {
        $(impl Outgoing for v1::$request {
            fn fill_in(&mut self) {
                if self.request_id.is_empty() {
                    self.request_id = Uuid::now_v7().to_string();
                }
            }
        })+
    };
}

macro_rules! without_request_id {
    ($($request:ident),+ $(,)?) => {
        $(impl Outgoing for v1::$request {})+
    };
}

with_request_id!(
    AcquireLeaseRequest,
    CheckpointWorktreeRequest,
    CompleteWorktreeRequest,
    CreateReviewRequest,
    PauseWorktreeRequest,
    ProvisionWorktreeRequest,
    RemoveWorktreeRequest,
    ResumeWorktreeRequest,
    WriteHandoffRequest,
);

without_request_id!(
    CollectGarbageRequest,
    GetDiffRequest,
    GetHandoffRequest,
    GetResumeStateRequest,
    GetScaffoldRequest,
    GetServerInfoRequest,
    GetWorktreeRequest,
    ListBranchesRequest,
    ListEventsRequest,
    ListHandoffsRequest,
    ListReviewsRequest,
    ListWorktreesRequest,
    ReconcileRequest,
    ReleaseLeaseRequest,
    RemoveReviewRequest,
    RenewLeaseRequest,
    WatchEventsRequest,
);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use worktree_proto::policy::descriptor_pool;

    #[test]
    fn an_empty_id_is_filled_in_and_a_given_one_kept() {
        let mut request = v1::PauseWorktreeRequest::default();
        request.fill_in();
        assert!(Uuid::parse_str(&request.request_id).is_ok());
        let first = request.request_id.clone();
        request.fill_in();
        assert_eq!(request.request_id, first);
    }

    #[test]
    fn every_request_that_has_an_id_is_listed_as_such() {
        let with_id = descriptor_pool()
            .all_messages()
            .filter(|message| message.get_field_by_name("request_id").is_some());
        // The macro does not compile for a message without the field; this counts those that it was not given.
        assert_eq!(with_id.count(), 9);
    }
}
