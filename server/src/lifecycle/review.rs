//! Read-only checkouts for reviewers.

use std::{sync::Arc, time::Duration};

use prost::Message as _;
use uuid::Uuid;
use worktree_engine::{
    Error as EngineError,
    ids::{CommitId, TaskId, WorktreeId},
    lifecycle::{Operation, State, check},
    model::Warning,
    probe::DirectoryState,
    provision::Base,
    rebuild::ReviewRequest,
};
use worktree_proto::v1::{self, EventKind, ReviewDetail, event::Detail};

use super::{
    Answer, Call, Error, Lifecycle, Result,
    begin::{Intent, Journal, entry},
    event,
    repository::path_text,
};
use crate::{
    api::convert::{save, worktree},
    events::ProgressUpdate,
    registry::{
        Change, JournalChange, ReplyKey, RepositoryRow, ReviewChange, ReviewRow, StoredReply,
    },
};

/// A wish for a review.
#[derive(Debug, Clone)]
pub(crate) struct ReviewWish {
    /// The repository as the caller spells it.
    pub(crate) repo: String,
    /// The task; none for a review of a bare commit.
    pub(crate) task: Option<TaskId>,
    /// The commit; the tip of the task's branch if absent.
    pub(crate) sha: Option<CommitId>,
    /// Who reviews.
    pub(crate) reviewer: String,
    /// How long the checkout stays.
    pub(crate) ttl: Duration,
}

/// A review that was made.
#[derive(Debug)]
pub(crate) struct ReviewOutcome {
    /// Its row.
    pub(crate) review: ReviewRow,
    /// What the caller should know.
    pub(crate) warnings: Vec<Warning>,
}

impl Lifecycle {
    /// Checks a commit out for a reviewer.
    pub(crate) async fn create_review(
        self: &Arc<Self>,
        call: Call<ReviewOutcome>,
        wish: ReviewWish,
    ) -> Result<Answer<ReviewOutcome>> {
        self.mutate(call, move |this, call| async move {
            this.create_review_now(call, wish).await
        })
        .await
    }

    async fn create_review_now(
        &self,
        call: Call<ReviewOutcome>,
        wish: ReviewWish,
    ) -> Result<ReviewOutcome> {
        let located = self.locate(&wish.repo).await?;
        let stored = self.repository_row(&located).await?;
        let repository = self.open(&located).await?;
        let stored = match stored {
            Some(stored) => stored,
            None => RepositoryRow {
                repo_id: repository.repo_id(),
                common_dir: path_text(&repository.common_dir)?,
                path: repository.path.to_string_lossy().into_owned(),
                origin_url: repository.origin_url.clone(),
            },
        };
        let (row, lock) = match &wish.task {
            Some(task) => {
                let lock = self.lock(&stored.repo_id, task.as_str()).await?;
                let row = self.registry.newest(&stored.repo_id, task).await?;
                let row = row.ok_or_else(|| Error::WorktreeNotFound {
                    repo: wish.repo.clone(),
                    task: task.to_string(),
                })?;
                (Some(row), Some(lock))
            }
            None => (None, None),
        };
        let mut warnings = Vec::new();
        let sha = match (&wish.sha, &row) {
            (Some(sha), _) => {
                let (repository, base) = (repository.clone(), Base::Sha(sha.clone()));
                self.block(move |engine| engine.resolve_base(&repository, &base))
                    .await?
            }
            (None, Some(row)) => {
                check(row.state, Operation::Review)?;
                let checkout = row.checkout.clone();
                self.block(move |engine| {
                    engine
                        .branch_tip(&checkout)?
                        .ok_or(EngineError::BranchGone {
                            branch: checkout.branch,
                        })
                })
                .await?
            }
            (None, None) => return Err(Error::invalid("sha", "is required without a task")),
        };
        if let Some(row) = row.as_ref().filter(|row| row.state.has_checkout())
            && self.probe(row).await?.directory == DirectoryState::Present
        {
            let checkout = row.checkout.clone();
            let stat = self
                .block(move |engine| engine.diff_stat(&checkout, false))
                .await?;
            if stat.dirty {
                warnings.push(Warning::new(
                    "UNCHECKPOINTED_WORK",
                    "the worktree holds work that is not committed, which the review does not show",
                ));
            }
        }
        let id = WorktreeId::new();
        let request = ReviewRequest {
            id,
            repo_id: stored.repo_id.clone(),
            task_id: match &wish.task {
                Some(task) => task.clone(),
                None => "review".parse().map_err(EngineError::from)?,
            },
            sha: sha.clone(),
            filter_fingerprint: row.as_ref().map_or_else(
                || repository.config.filter_fingerprint(),
                |row| row.checkout.filter_fingerprint.clone(),
            ),
        };
        let entry = Uuid::now_v7();
        let made = self
            .review_work(entry, id, &stored, move |engine, journal| {
                engine.create_review(&repository, &request, journal)
            })
            .await?;
        warnings.extend(made.warnings);
        let now = Self::now();
        let review = ReviewRow {
            checkout: made.checkout,
            repo: stored.path.clone(),
            repo_id: stored.repo_id.clone(),
            task_id: wish.task.map(String::from).unwrap_or_default(),
            worktree_id: row.map(|row| row.id()),
            sha,
            reviewer: wish.reviewer,
            create_time: now,
            expire_time: now.checked_add(wish.ttl).unwrap_or(now),
        };
        let outcome = ReviewOutcome { review, warnings };
        let change = Change {
            events: vec![told(
                EventKind::ReviewCreated,
                &outcome.review,
                (false, false),
                &call.trace_id,
            )],
            journal: JournalChange::End(entry),
            reply: call.reply(&outcome),
            reviews: vec![ReviewChange::Put(Box::new(outcome.review.clone()))],
            repository: Some(stored),
            ..Change::default()
        };
        self.registry.commit(change).await?;
        drop(lock);
        Ok(outcome)
    }

    /// Lets the engine work on a review's checkout; what it had begun is taken back if it fails.
    async fn review_work<T: Send + 'static>(
        &self,
        id: Uuid,
        review: WorktreeId,
        stored: &RepositoryRow,
        work: impl FnOnce(&worktree_engine::Engine, &mut Journal) -> worktree_engine::Result<T>
        + Send
        + 'static,
    ) -> Result<T> {
        let intent = Intent::new(Operation::Review, State::Removed, State::Removed);
        let change = Change {
            journal: JournalChange::Put(entry(id, Some(review), &intent)?),
            ..Change::default()
        };
        self.registry.commit(change).await?;
        let about = ProgressUpdate {
            repo: stored.path.clone(),
            repo_id: stored.repo_id.clone(),
            task_id: String::new(),
            operation: Operation::Review,
            stage: "",
            done: 0,
            total: 0,
            unit: "files",
            time: Self::now(),
        };
        let mut journal = self.journal_of(id, Some(review), intent, about);
        let outcome = self
            .block(move |engine| {
                let result = work(engine, &mut journal);
                Ok((result, journal.step_begun().cloned()))
            })
            .await;
        let (error, step) = match outcome {
            Ok((Ok(done), _)) => return Ok(done),
            Ok((Err(error), step)) => (Error::Engine(error), step),
            Err(error) => (error, None),
        };
        // A finished drop of a review stays in the journal: the next start takes its row out.
        if self.settle(step).await?.is_none() {
            let change = Change {
                journal: JournalChange::End(id),
                ..Change::default()
            };
            self.registry.commit(change).await?;
        }
        Err(error)
    }

    /// A page of reviews.
    pub(crate) async fn list_reviews(
        &self,
        repo: &str,
        task: Option<&str>,
        after: Option<WorktreeId>,
        limit: usize,
    ) -> Result<Vec<ReviewRow>> {
        let repo_id = match repo {
            "" => None,
            repo => match self.repo_id(repo).await? {
                Some(id) => Some(id),
                None => return Ok(Vec::new()),
            },
        };
        Ok(self
            .registry
            .reviews(repo_id.as_deref(), task, after, limit)
            .await?)
    }

    /// Drops a review's directory.
    pub(crate) async fn remove_review(
        self: &Arc<Self>,
        id: WorktreeId,
        is_expired: bool,
        trace_id: String,
    ) -> Result<v1::RemoveReviewResponse> {
        let this = self.share();
        self.spawn(async move {
            let Some(found) = this.registry.review(id).await? else {
                return this.removed_before(id).await;
            };
            let _lock = this.lock(&found.repo_id, &format!("review {id}")).await?;
            let Some(review) = this.registry.review(id).await? else {
                return this.removed_before(id).await;
            };
            let stored = RepositoryRow {
                repo_id: review.repo_id.clone(),
                common_dir: String::new(),
                path: review.repo.clone(),
                origin_url: None,
            };
            let checkout = review.checkout.clone();
            let entry = Uuid::now_v7();
            let removed = this
                .review_work(entry, id, &stored, move |engine, journal| {
                    engine.remove_review(&checkout, journal)
                })
                .await?;
            let answer = v1::RemoveReviewResponse {
                tree_unchanged: removed.tree_unchanged,
                recovery_point: save::recovery_ref(removed.recovery_point.as_ref()),
            };
            let change = Change {
                reply: Some(StoredReply {
                    key: removal(id),
                    request_digest: Vec::new(),
                    response: answer.encode_to_vec(),
                }),
                events: vec![told(
                    EventKind::ReviewRemoved,
                    &review,
                    (removed.tree_unchanged, is_expired),
                    &trace_id,
                )],
                journal: JournalChange::End(entry),
                reviews: vec![ReviewChange::Remove(id)],
                ..Change::default()
            };
            this.registry.commit(change).await?;
            Ok(answer)
        })
        .await
    }

    /// What the removal of a review that is gone was answered with.
    async fn removed_before(&self, id: WorktreeId) -> Result<v1::RemoveReviewResponse> {
        let stored = self.registry.find_reply(&removal(id)).await?;
        let stored = stored.ok_or_else(|| Error::ReviewNotFound { id: id.to_string() })?;
        v1::RemoveReviewResponse::decode(&*stored.response)
            .map_err(|error| Error::Internal(format!("a remembered answer: {error}")))
    }

    /// Removes the reviews whose time is over.
    pub(crate) async fn sweep_reviews(self: &Arc<Self>) -> Result<()> {
        for review in self.registry.reviews_expired(Self::now()).await? {
            let id = review.checkout.id;
            if let Err(error) = self.remove_review(id, true, String::new()).await {
                tracing::warn!(review = %id, %error, "an expired review could not be removed");
            }
        }
        Ok(())
    }
}

/// The request has no id of its own: the review's is as good, and the same for every caller.
fn removal(id: WorktreeId) -> ReplyKey {
    ReplyKey {
        principal: String::new(),
        method: "RemoveReview".to_owned(),
        request_id: id.0,
    }
}

fn told(
    kind: EventKind,
    review: &ReviewRow,
    (tree_unchanged, expired): (bool, bool),
    trace_id: &str,
) -> crate::registry::NewEvent {
    let shown = worktree::review(review);
    let key = shown.key.clone();
    let detail = Detail::Review(ReviewDetail {
        review: Some(shown),
        tree_unchanged,
        expired,
    });
    event::apart(kind, &review.repo_id, key, detail, trace_id)
}
