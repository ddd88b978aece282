#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use worktree_proto::v1::{AcquireLeaseResponse, ReleaseLeaseResponse, RenewLeaseResponse};

use super::*;
use crate::testing::Fake;

const ACQUIRE: &str = "/worktree.v1.LeaseService/AcquireLease";
const RENEW: &str = "/worktree.v1.LeaseService/RenewLease";
const RELEASE: &str = "/worktree.v1.LeaseService/ReleaseLease";

fn lease(epoch: i64) -> Lease {
    Lease {
        holder: "runner".into(),
        epoch,
        ..Default::default()
    }
}

fn server_that_renews(
    renew: impl Fn(u32) -> Result<RenewLeaseResponse, Status> + Send + Sync + 'static,
) -> Fake {
    let renewals = AtomicU32::new(0);
    Fake::default()
        .unary(ACQUIRE, |_: AcquireLeaseRequest| {
            Ok(AcquireLeaseResponse {
                lease: Some(lease(7)),
                worktree: Some(Worktree::default()),
                resume_state: None,
            })
        })
        .unary(RENEW, move |request: RenewLeaseRequest| {
            assert_eq!(request.lease_epoch, 7);
            renew(renewals.fetch_add(1, Ordering::SeqCst) + 1)
        })
}

fn request(ttl_milliseconds: u64) -> AcquireLeaseRequest {
    let ttl = prost_types::Duration::try_from(Duration::from_millis(ttl_milliseconds)).unwrap();
    AcquireLeaseRequest {
        key: Some(WorktreeKey::default()),
        ttl: Some(ttl),
        ..Default::default()
    }
}

fn fenced() -> Status {
    let details = ErrorDetails::with_error_info("LEASE_FENCED", "worktree.v1", []);
    Status::with_error_details(Code::Aborted, "taken over by another", details)
}

#[tokio::test]
async fn a_lease_that_is_taken_over_is_reported_to_its_owner() {
    let server = server_that_renews(|count| match count {
        1 | 2 => Ok(RenewLeaseResponse {
            lease: Some(lease(7)),
        }),
        _ => Err(fenced()),
    })
    .serve();

    let clock_in = server.client().clock_in(request(150)).await.unwrap();
    assert_eq!(clock_in.guard.epoch(), 7);
    assert!(!clock_in.guard.is_lost());
    let loss = clock_in.guard.lost().await;
    assert_eq!(
        loss,
        LeaseLoss::Refused("taken over by another (LEASE_FENCED)".into())
    );
    assert!(clock_in.guard.is_lost());
}

#[tokio::test]
async fn a_server_that_is_away_for_a_moment_costs_no_lease() {
    let seen = Arc::new(AtomicU32::new(0));
    let counter = seen.clone();
    let server = server_that_renews(move |count| {
        counter.store(count, Ordering::SeqCst);
        match count {
            1 | 2 => Err(Status::unavailable("restarting")),
            3 => Ok(RenewLeaseResponse {
                lease: Some(Lease {
                    runtime: "renewed".into(),
                    ..lease(7)
                }),
            }),
            _ => Err(fenced()),
        }
    })
    .serve();

    let clock_in = server.client().clock_in(request(600)).await.unwrap();
    let mut states = clock_in.guard.subscribe();
    states.changed().await.unwrap();
    let state = states.borrow_and_update().clone();
    assert!(matches!(state, LeaseState::Held(lease) if lease.runtime == "renewed"));
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_server_that_stays_away_loses_the_lease_when_it_must_have_expired() {
    let server = server_that_renews(|_| Err(Status::unavailable("gone"))).serve();
    let begun = Instant::now();
    let clock_in = server.client().clock_in(request(200)).await.unwrap();
    let loss = clock_in.guard.lost().await;
    assert!(matches!(loss, LeaseLoss::Unreachable(_)), "{loss:?}");
    assert!(begun.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn release_gives_the_epoch_back_and_a_missing_ttl_is_filled_in() {
    let server = server_that_renews(|_| Err(fenced()))
        .unary(ACQUIRE, |request: AcquireLeaseRequest| {
            assert_eq!(request.ttl.map(|ttl| ttl.seconds), Some(60));
            assert!(!request.request_id.is_empty());
            Ok(AcquireLeaseResponse {
                lease: Some(lease(7)),
                worktree: Some(Worktree::default()),
                resume_state: None,
            })
        })
        .unary(RELEASE, |request: ReleaseLeaseRequest| {
            assert_eq!(request.lease_epoch, 7);
            Ok(ReleaseLeaseResponse {
                worktree: Some(Worktree {
                    id: "w1".into(),
                    ..Default::default()
                }),
            })
        })
        .serve();
    let clock_in = server
        .client()
        .clock_in(AcquireLeaseRequest::default())
        .await
        .unwrap();
    assert_eq!(clock_in.guard.release().await.unwrap().id, "w1");
}
