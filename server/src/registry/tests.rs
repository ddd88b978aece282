#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, path::Path};

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use uuid::Uuid;
use worktree_engine::{
    ids::{LeaseEpoch, Namespace, TaskId, WorktreeId, branch_name_for_task},
    lifecycle::State,
    model::Checkout,
};

use super::*;

pub(crate) const REPO: &str = "0123456789abcdef";

pub(crate) async fn registry() -> (TempDir, Registry) {
    let directory = tempfile::tempdir().unwrap();
    let registry = Registry::open(&directory.path().join("registry.sqlite"))
        .await
        .unwrap();
    (directory, registry)
}

pub(crate) fn row(task: &str) -> WorktreeRow {
    let task: TaskId = task.parse().unwrap();
    let namespace = Namespace::default();
    let commit: worktree_engine::ids::CommitId = "a".repeat(40).parse().unwrap();
    let id = WorktreeId::new();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    WorktreeRow {
        checkout: Checkout {
            id,
            branch: branch_name_for_task(&namespace, &task),
            path: format!("/root/{task}").into(),
            task_id: task,
            namespace,
            common_dir: "/repo/.git".into(),
            admin_id: id.to_string(),
            base_sha: commit.clone(),
            base_commit: commit.clone(),
            sor_dir: "".parse().unwrap(),
            identity: None,
            filter_fingerprint: String::new(),
        },
        repo: "/repo".to_owned(),
        repo_id: REPO.to_owned(),
        display_name: "a name".to_owned(),
        base_ref: "HEAD".to_owned(),
        head: Some(commit),
        head_time: Some(1),
        state: State::Provisioned,
        pending_operation: None,
        kind: "code".to_owned(),
        isolation: "worktree".to_owned(),
        origin: Origin::Created,
        owner: Some(("user".to_owned(), "anna".to_owned())),
        labels: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        host_id: "host".to_owned(),
        version: 0,
        create_time: now,
        update_time: now,
        last_active_time: now,
        lease: None,
        last_epoch: 0,
        restore: None,
        task_completed: false,
        owns_branch: true,
    }
}

pub(crate) fn event(task: &str) -> NewEvent {
    NewEvent {
        kind: 2,
        repo_id: REPO.to_owned(),
        task_id: task.to_owned(),
        payload: b"payload".to_vec(),
    }
}

pub(crate) fn events(count: usize, task: &str) -> Change {
    Change {
        events: vec![event(task); count],
        ..Change::default()
    }
}

fn put(row: &WorktreeRow) -> Change {
    Change {
        rows: vec![row.clone()],
        events: vec![event(row.task_id().as_str())],
        ..Change::default()
    }
}

#[test]
fn the_list_of_migrations_is_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let listed: Vec<_> = open::MIGRATIONS
        .iter()
        .map(|(version, name, _)| format!("{version:04}_{name}.sql"))
        .collect();
    assert_eq!(names, listed);
}

#[tokio::test]
async fn what_is_committed_is_read_back_and_survives_a_restart() {
    let (directory, registry) = registry().await;
    let mut row = row("t1");
    row.lease = Some(Lease {
        holder: "anna".to_owned(),
        runtime: "human".to_owned(),
        epoch: LeaseEpoch(3),
        ttl: std::time::Duration::from_secs(60),
        acquire_time: row.create_time,
        expire_time: row.create_time + SignedDuration::from_secs(60),
        holder_process: Some(HolderProcess {
            pid: 7,
            start_ticks: 8,
            host: "h".to_owned(),
        }),
    });
    row.last_epoch = 3;
    let committed = registry.commit(put(&row)).await.unwrap();
    assert_eq!(committed.rows, [row.as_committed()]);
    assert_eq!(committed.events[0].sequence, 1);
    let (log, instance) = (registry.log_id(), registry.instance_id());
    registry.close().await;
    let registry = Registry::open(&directory.path().join("registry.sqlite"))
        .await
        .unwrap();
    assert_eq!((registry.log_id(), registry.instance_id()), (log, instance));
    assert_eq!(registry.head(), 1);
    let found = registry.live(REPO, row.task_id()).await.unwrap().unwrap();
    assert_eq!(found, row.as_committed());
    let end = found.lease.as_ref().unwrap().expire_time;
    assert_eq!(registry.next_lease_expiry().await.unwrap(), Some(end));
    assert_eq!(
        registry.leases_expired(end).await.unwrap(),
        std::slice::from_ref(&found)
    );
    let mut released = found;
    released.lease = None;
    registry.commit(put(&released)).await.unwrap();
    assert!(registry.leases_expired(end).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_change_from_an_old_version_is_refused_whole() {
    let (_directory, registry) = registry().await;
    let first = registry
        .commit(put(&row("t1")))
        .await
        .unwrap()
        .rows
        .remove(0);
    registry.commit(put(&first)).await.unwrap();
    let mut change = put(&first);
    change.journal = JournalChange::Put(JournalEntry {
        id: Uuid::now_v7(),
        worktree_id: Some(first.id()),
        operation: "pause".to_owned(),
        payload: serde_json::json!({"x": 1}),
    });
    let error = registry.commit(change).await.unwrap_err();
    assert!(matches!(error, Error::Conflict { .. }), "{error}");
    assert!(registry.journal().await.unwrap().is_empty());
    assert_eq!(registry.event_range().await.unwrap(), (Some(1), 2));
}

#[tokio::test]
async fn law_4_a_task_has_one_live_worktree() {
    let (_directory, registry) = registry().await;
    let mut first = registry
        .commit(put(&row("t1")))
        .await
        .unwrap()
        .rows
        .remove(0);
    let second = row("t1");
    let error = registry.commit(put(&second)).await.unwrap_err();
    assert!(matches!(error, Error::LiveExists), "{error}");
    first.state = State::Removed;
    registry.commit(put(&first)).await.unwrap();
    registry.commit(put(&second)).await.unwrap();
    let newest = registry
        .newest(REPO, second.task_id())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(newest.id(), second.id());
    let query = WorktreeQuery {
        states: vec![State::Removed],
        limit: 10,
        ..WorktreeQuery::default()
    };
    assert_eq!(registry.list(&query).await.unwrap()[0].id(), first.id());
    assert_eq!(registry.live_rows(Some(REPO)).await.unwrap().len(), 1);
    assert!(registry.live_rows(Some("other")).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequences_have_no_gap_under_concurrent_and_failing_writers() {
    let (_directory, registry) = registry().await;
    let stale = registry
        .commit(put(&row("t1")))
        .await
        .unwrap()
        .rows
        .remove(0);
    registry.commit(put(&stale)).await.unwrap();
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (registry, stale) = (registry.clone(), stale.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    registry.commit(events(2, "t2")).await.unwrap();
                    registry.commit(put(&stale)).await.unwrap_err();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let all = registry.events_after(0, 1_000).await.unwrap();
    let sequences: Vec<_> = all.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=162).collect::<Vec<i64>>());
    assert_eq!(registry.head(), 162);
}

#[tokio::test]
async fn a_dropped_commit_leaves_nothing_and_blocks_nobody() {
    let (_directory, registry) = registry().await;
    for _ in 0..20 {
        let commit = registry.commit(events(50, "t1"));
        drop(tokio::time::timeout(std::time::Duration::from_micros(300), commit).await);
    }
    registry.commit(events(1, "t1")).await.unwrap();
    let all = registry.events_after(0, 10_000).await.unwrap();
    let contiguous = all
        .windows(2)
        .all(|pair| pair[1].sequence == pair[0].sequence + 1);
    assert!(contiguous && all.len() % 50 == 1, "{}", all.len());
}

#[tokio::test]
async fn journal_handoffs_reviews_and_recovery_points_are_kept() {
    let (_directory, registry) = registry().await;
    let row = registry
        .commit(put(&row("t1")))
        .await
        .unwrap()
        .rows
        .remove(0);
    let mut entry = JournalEntry {
        id: Uuid::now_v7(),
        worktree_id: Some(row.id()),
        operation: "pause".to_owned(),
        payload: serde_json::json!({"step": 1}),
    };
    for step in 1..=2 {
        entry.payload = serde_json::json!({ "step": step });
        let change = Change {
            journal: JournalChange::Put(entry.clone()),
            ..Change::default()
        };
        registry.commit(change).await.unwrap();
    }
    assert_eq!(registry.journal().await.unwrap(), [entry.clone()]);
    let handoff = NewHandoff {
        worktree_id: row.id(),
        origin: HandoffOrigin::Agent,
        digest: "d".to_owned(),
        handoff: "{}".to_owned(),
    };
    let review = ReviewRow {
        checkout: row.checkout.clone(),
        repo: row.repo.clone(),
        repo_id: REPO.to_owned(),
        task_id: "t1".to_owned(),
        worktree_id: Some(row.id()),
        sha: row.checkout.base_sha.clone(),
        reviewer: "bob".to_owned(),
        create_time: row.create_time,
        expire_time: row.create_time,
    };
    let point = RecoveryPointRow {
        point: worktree_engine::model::RecoveryPoint {
            ref_name: "refs/clawboo/recovery/x".to_owned(),
            commit: row.checkout.base_sha.clone(),
        },
        repo_id: REPO.to_owned(),
        worktree_id: Some(row.id()),
        operation: "PAUSE".to_owned(),
        create_time: row.create_time,
    };
    for number in 1..=2 {
        let change = Change {
            journal: JournalChange::End(entry.id),
            handoff: Some(handoff.clone()),
            reviews: vec![ReviewChange::Put(Box::new(review.clone()))],
            recovery_points: vec![point.clone()],
            ..Change::default()
        };
        let committed = registry.commit(change).await.unwrap();
        assert_eq!(committed.handoff_number, Some(number));
    }
    assert!(registry.journal().await.unwrap().is_empty());
    assert_eq!(
        registry
            .last_handoff(row.id())
            .await
            .unwrap()
            .unwrap()
            .number,
        2
    );
    let older = registry.handoffs(row.id(), Some(2), 10).await.unwrap();
    assert_eq!((older.len(), &older[0].handoff), (1, &handoff));
    let listed = registry
        .reviews(Some(REPO), Some("t1"), None, 10)
        .await
        .unwrap();
    assert_eq!(listed, std::slice::from_ref(&review));
    assert_eq!(
        registry
            .reviews_expired(row.create_time)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(registry.recovery_points(row.id()).await.unwrap(), [point]);
    let change = Change {
        reviews: vec![ReviewChange::Remove(review.checkout.id)],
        ..Change::default()
    };
    registry.commit(change).await.unwrap();
    assert_eq!(registry.review(review.checkout.id).await.unwrap(), None);
}

#[tokio::test]
async fn the_first_answer_to_a_request_stays_until_its_time() {
    let (_directory, registry) = registry().await;
    let reply = StoredReply {
        key: ReplyKey {
            principal: "p".to_owned(),
            method: "m".to_owned(),
            request_id: Uuid::new_v4(),
        },
        request_digest: vec![1],
        response: vec![2],
    };
    for response in [2, 3] {
        let mut reply = reply.clone();
        reply.response = vec![response];
        let change = Change {
            reply: Some(reply),
            ..Change::default()
        };
        registry.commit(change).await.unwrap();
    }
    assert_eq!(
        registry.find_reply(&reply.key).await.unwrap(),
        Some(reply.clone())
    );
    let past = Timestamp::UNIX_EPOCH;
    let compacted = registry.compact(past, 10, past).await.unwrap();
    assert_eq!(compacted, Compacted::default());
    let compacted = registry.compact(past, 10, Timestamp::MAX).await.unwrap();
    assert_eq!(compacted.replies, 1);
    assert_eq!(registry.find_reply(&reply.key).await.unwrap(), None);
}

#[tokio::test]
async fn compaction_takes_the_oldest_by_count_and_by_age() {
    let (_directory, registry) = registry().await;
    registry.commit(events(2_500, "t1")).await.unwrap();
    let past = Timestamp::UNIX_EPOCH;
    let compacted = registry.compact(past, 100, past).await.unwrap();
    assert_eq!(compacted.events, 2_400);
    assert_eq!(registry.event_range().await.unwrap(), (Some(2_401), 2_500));
    registry.compact(Timestamp::MAX, 100, past).await.unwrap();
    assert_eq!(registry.event_range().await.unwrap(), (None, 2_500));
    let next = registry.commit(events(1, "t1")).await.unwrap();
    assert_eq!(next.events[0].sequence, 2_501);
}

fn folder(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(path).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_damaged_or_newer_file_is_refused_and_left_as_it_is() {
    let (directory, registry) = registry().await;
    registry.commit(put(&row("t1"))).await.unwrap();
    registry.close().await;
    let path = directory.path().join("registry.sqlite");
    let whole = std::fs::read(&path).unwrap();
    let mut torn = whole.clone();
    torn[100..].fill(0xA5);
    for bytes in [b"not a database ".repeat(400), torn] {
        std::fs::write(&path, &bytes).unwrap();
        let before = folder(directory.path());
        let error = Registry::open(&path).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(folder(directory.path()) == before);
    }
    std::fs::write(&path, &whole).unwrap();
    let registry = Registry::open(&path).await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (99, 'x', 1, x'00', 0)")
        .execute(&registry.inner.writer)
        .await
        .unwrap();
    registry.close().await;
    let before = folder(directory.path());
    let error = Registry::open(&path).await.unwrap_err();
    assert!(matches!(error, Error::Newer { found: 99, .. }), "{error}");
    assert!(folder(directory.path()) == before);
}
