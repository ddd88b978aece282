//! One writer: leases, their end, and the fence behind them.

use std::fs;

use worktreed_client::{
    Code,
    proto::{self as v1, ErrorReason, EventKind, WorktreeState},
};

use crate::{
    events,
    repo::{commit_all, write},
    scene::{Scene, Start},
    task::{assert_state, at, handoff, metadata, refused},
};

/// A lease that a test can wait for to end; shorter than the server grants unless it is told to.
const SHORT: Option<prost_types::Duration> = Some(prost_types::Duration {
    seconds: 1,
    nanos: 0,
});

fn short_leases() -> Start {
    Start::default().env("WORKTREED_LEASE_TTL_MIN", "1s")
}

#[tokio::test]
async fn a_live_lease_keeps_others_out_and_names_its_holder() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let lease = task.acquire("anna").await.unwrap().lease.unwrap();
    assert_eq!(
        (lease.holder.as_str(), lease.runtime.as_str(), lease.epoch),
        ("anna", "codex", 1)
    );

    let (code, reason) = (Code::FailedPrecondition, ErrorReason::LeaseHeld);
    let error = refused(task.acquire("bert").await, code, reason);
    assert_eq!(
        (metadata(&error, "holder"), metadata(&error, "runtime")),
        ("anna", "codex")
    );
    assert!(metadata(&error, "expire_time").contains('T'));
    let delay = error.retry_delay().expect("it says when to come again");
    assert!(delay.as_secs() <= 60 && delay.as_secs() > 40, "{delay:?}");

    write(at(&worktree, "x.txt"), "x\n");
    refused(task.checkpoint(0).await, code, reason);
    refused(task.pause(0).await, code, reason);
    refused(task.complete(0).await, code, reason);
    refused(
        task.remove_with(|request| request.discard_changes = true)
            .await,
        code,
        reason,
    );
    refused(task.write_handoff(0, handoff("go")).await, code, reason);
    assert!(at(&worktree, "x.txt").exists());
    assert_state(&task.get().await, WorktreeState::Working);

    // Exempt: a repeated provision, resume of a live one, reviews, reads.
    task.try_provision(|_| {}).await.unwrap();
    task.resume().await.unwrap();
    task.review("rita", |_| {}).await.unwrap();
    task.diff_stat().await.unwrap();
}

#[tokio::test]
async fn an_epoch_that_is_not_the_live_one_is_fenced_off() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let first = task.clock_in("anna").await;
    let again = task.acquire("anna").await.unwrap().lease.unwrap();
    assert_eq!(again.epoch, first, "the same holder keeps its epoch");
    task.release(first).await.unwrap();

    let (code, reason) = (Code::Aborted, ErrorReason::LeaseFenced);
    // Nobody else has taken over, and still.
    refused(task.checkpoint(first).await, code, reason);
    refused(task.renew(first).await, code, reason);
    let second = task.clock_in("bert").await;
    assert!(second > first);
    for stale in [first, second + 1] {
        let error = refused(task.checkpoint(stale).await, code, reason);
        assert_eq!(
            (metadata(&error, "holder"), metadata(&error, "epoch")),
            ("bert", second.to_string().as_str())
        );
        refused(task.pause(stale).await, code, reason);
        refused(task.complete(stale).await, code, reason);
        refused(task.write_handoff(stale, handoff("go")).await, code, reason);
        refused(task.renew(stale).await, code, reason);
        refused(
            task.remove_with(|request| request.lease_epoch = stale)
                .await,
            code,
            reason,
        );
    }
    task.checkpoint(second).await.unwrap();
}

#[tokio::test]
async fn a_release_can_be_repeated_and_no_other_can_release() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let epoch = task.clock_in("anna").await;
    refused(
        task.release(epoch + 1).await,
        Code::Aborted,
        ErrorReason::LeaseFenced,
    );
    let released = task.release(epoch).await.unwrap();
    assert_state(&released, WorktreeState::Working);
    assert!(released.lease.is_none());
    assert!(
        task.release(epoch).await.unwrap().lease.is_none(),
        "a repeat answers the worktree as it is"
    );
    let released = events::kinds(&scene.client, "t1")
        .await
        .into_iter()
        .filter(|kind| *kind == EventKind::LeaseReleased);
    assert_eq!(released.count(), 1);
}

#[tokio::test]
async fn a_lease_expires_by_the_server_s_clock_and_its_epoch_with_it() {
    let scene = Scene::with(5, short_leases()).await;
    let task = scene.task("t1");
    task.provision().await;
    let mut watch = events::watch_now(&scene.client).await;
    let lease = task
        .acquire_with("anna", |request| request.ttl = SHORT)
        .await
        .unwrap()
        .lease
        .unwrap();
    let expired = events::wait_for(&mut watch, EventKind::LeaseExpired).await;
    let Some(v1::event::Detail::Lease(detail)) = expired.detail else {
        panic!("{expired:?}")
    };
    let ended = detail.lease.unwrap();
    assert_eq!((ended.holder.as_str(), ended.epoch), ("anna", lease.epoch));
    let after = expired.worktree.unwrap();
    assert_state(&after, WorktreeState::Working);
    assert!(after.lease.is_none());

    refused(
        task.checkpoint(lease.epoch).await,
        Code::Aborted,
        ErrorReason::LeaseFenced,
    );
    refused(
        task.renew(lease.epoch).await,
        Code::Aborted,
        ErrorReason::LeaseFenced,
    );
    task.checkpoint(0).await.unwrap();
    assert!(task.clock_in("bert").await > lease.epoch);
}

#[tokio::test]
async fn a_renewal_puts_the_end_off_and_makes_no_event() {
    let scene = Scene::with(5, short_leases()).await;
    let task = scene.task("t1");
    task.provision().await;
    let lease = task
        .acquire_with("anna", |request| request.ttl = SHORT)
        .await
        .unwrap()
        .lease
        .unwrap();
    let before = events::log(&scene.client).await.len();
    let longer = Some(prost_types::Duration {
        seconds: 600,
        nanos: 0,
    });
    let request = v1::RenewLeaseRequest {
        key: Some(task.key.clone()),
        lease_epoch: lease.epoch,
        ttl: longer,
    };
    let renewed = scene
        .client
        .renew_lease(request)
        .await
        .unwrap()
        .lease
        .unwrap();
    let seconds = |lease: &v1::Lease| lease.expire_time.as_ref().unwrap().seconds;
    assert!(seconds(&renewed) - seconds(&lease) > 500);
    assert_eq!(renewed.epoch, lease.epoch);
    assert_eq!(events::log(&scene.client).await.len(), before);
}

#[tokio::test]
async fn a_live_lease_is_taken_over_only_with_a_reason() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let old = task.clock_in("anna").await;
    let taken = task
        .acquire_with("bert", |request| {
            request.takeover_reason = "anna is gone".to_owned()
        })
        .await
        .unwrap();
    let new = taken.lease.unwrap().epoch;
    assert!(new > old);
    refused(
        task.checkpoint(old).await,
        Code::Aborted,
        ErrorReason::LeaseFenced,
    );
    task.checkpoint(new).await.unwrap();
    let log = events::log(&scene.client).await;
    let event = log
        .iter()
        .find(|event| event.kind() == EventKind::LeaseTakenOver)
        .expect("it is told");
    let Some(v1::event::Detail::Lease(detail)) = &event.detail else {
        panic!("{event:?}")
    };
    assert_eq!(
        (
            detail.previous_holder.as_str(),
            detail.takeover_reason.as_str()
        ),
        ("anna", "anna is gone")
    );
}

#[tokio::test]
async fn the_lease_is_mirrored_in_the_git_lock() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    task.provision().await;
    let process = v1::HolderProcess {
        pid: 4242,
        start_ticks: 77,
        host: "host".to_owned(),
    };
    task.acquire_with("an\x1b[31mna\n", |request| {
        request.holder_process = Some(process)
    })
    .await
    .unwrap();
    let listing = scene.repo.git(&["worktree", "list", "--porcelain"]);
    let reason = listing
        .lines()
        .find_map(|line| line.strip_prefix("locked "))
        .unwrap();
    assert!(
        reason.starts_with("worktreed ") && reason.contains(" t1 "),
        "{reason}"
    );
    assert!(reason.contains("pid 4242 start 77 epoch 1"), "{reason}");
    assert!(
        !reason.contains('\x1b') && reason.len() <= 200,
        "{reason:?}"
    );
}

#[tokio::test]
async fn a_lease_outlives_a_restart_of_the_server() {
    let mut scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    let epoch = task.clock_in("anna").await;
    scene.restart(Start::default()).await;
    let task = scene.task("t1");
    refused(
        task.acquire("bert").await,
        Code::FailedPrecondition,
        ErrorReason::LeaseHeld,
    );
    write(at(&worktree, "x.txt"), "x\n");
    assert!(task.checkpoint(epoch).await.unwrap().committed);
    task.release(epoch).await.unwrap();
    assert!(task.clock_in("bert").await > epoch);
}

#[tokio::test]
async fn the_client_s_guard_keeps_a_lease_alive_and_tells_when_it_is_lost() {
    let scene = Scene::with(5, short_leases()).await;
    let task = scene.task("t1");
    task.provision().await;
    let request = v1::AcquireLeaseRequest {
        key: Some(task.key.clone()),
        holder: "anna".to_owned(),
        ttl: SHORT,
        ..Default::default()
    };
    let turn = scene.client.clock_in(request).await.unwrap();
    let mut renewals = turn.guard.subscribe();
    tokio::time::timeout(crate::scene::PATIENCE, renewals.changed())
        .await
        .unwrap()
        .unwrap();
    assert!(!turn.guard.is_lost());
    task.acquire_with("bert", |request| request.takeover_reason = "now".to_owned())
        .await
        .unwrap();
    let loss = tokio::time::timeout(crate::scene::PATIENCE, turn.guard.lost())
        .await
        .unwrap();
    assert!(
        matches!(loss, worktreed_client::LeaseLoss::Refused(_)),
        "{loss}"
    );
}

#[tokio::test]
async fn clocking_in_rebuilds_what_was_paused_or_reaped() {
    let scene = Scene::new().await;
    let task = scene.task("t1");
    let worktree = task.provision().await;
    write(at(&worktree, "x.txt"), "x\n");
    commit_all(&at(&worktree, ""), "work");
    write(at(&worktree, "y.txt"), "y\n");
    task.pause(0).await.unwrap();
    refused(
        task.resume_state("").await,
        Code::FailedPrecondition,
        ErrorReason::CheckoutAbsent,
    );
    refused(
        task.checkpoint(0).await,
        Code::FailedPrecondition,
        ErrorReason::IllegalTransition,
    );
    let answer = task.acquire("anna").await.unwrap();
    assert_state(&answer.worktree.unwrap(), WorktreeState::Working);
    assert_eq!(fs::read(at(&worktree, "y.txt")).unwrap(), b"y\n");
    assert!(answer.resume_state.is_some());
}
