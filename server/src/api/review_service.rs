//! `ReviewService`.

use std::time::Duration;

use prost::Message as _;
use tonic::{Request, Response, Status};
use worktree_proto::v1::{self, review_service_server::ReviewService};

use super::{
    Api,
    convert::{save, worktree},
    page, plain, request, respond, trace,
};
use crate::lifecycle::{Error, Lifecycle, Result, ReviewOutcome, ReviewWish};

/// The longest that one stays.
const TTL_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[tonic::async_trait]
impl ReviewService for Api {
    async fn create_review(
        &self,
        request: Request<v1::CreateReviewRequest>,
    ) -> Result<Response<v1::CreateReviewResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.ReviewService/CreateReview",
                &message.request_id,
                &message,
                |outcome| created(outcome).encode_to_vec(),
            )?;
            self.lifecycle
                .create_review(call, wish(message, self.limits().review_ttl)?)
                .await
        };
        respond(answer.await, created)
    }

    async fn list_reviews(
        &self,
        request: Request<v1::ListReviewsRequest>,
    ) -> Result<Response<v1::ListReviewsResponse>, Status> {
        plain(self.reviews(request.into_inner()).await)
    }

    async fn remove_review(
        &self,
        request: Request<v1::RemoveReviewRequest>,
    ) -> Result<Response<v1::RemoveReviewResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let id = Lifecycle::parse_id(&message.id)
                .ok_or_else(|| Error::invalid("id", "must be a UUID"))?;
            let trace_id = trace::trace_id(&extensions);
            self.lifecycle.remove_review(id, false, trace_id).await
        };
        plain(answer.await)
    }
}

impl Api {
    async fn reviews(&self, message: v1::ListReviewsRequest) -> Result<v1::ListReviewsResponse> {
        let size = request::page_size(message.page_size, self.limits())?;
        if !message.task_id.is_empty() {
            request::task("task_id", &message.task_id)?;
        }
        let query = format!("reviews {} {}", message.repo, message.task_id);
        let after = match page::cursor(&query, &message.page_token)? {
            Some(cursor) => Some(Lifecycle::parse_id(&cursor).ok_or(Error::PageTokenInvalid)?),
            None => None,
        };
        let task = Some(&*message.task_id).filter(|task| !task.is_empty());
        let mut rows = self
            .lifecycle
            .list_reviews(&message.repo, task, after, size + 1)
            .await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more);
        Ok(v1::ListReviewsResponse {
            next_page_token: next
                .map(|row| page::token(&query, &row.checkout.id.to_string()))
                .unwrap_or_default(),
            reviews: rows.iter().map(worktree::review).collect(),
        })
    }
}

fn wish(message: v1::CreateReviewRequest, default_ttl: Duration) -> Result<ReviewWish> {
    let key = message
        .key
        .ok_or_else(|| Error::invalid("key", "is required"))?;
    let task = match &*key.task_id {
        "" => None,
        text => Some(request::task("key.task_id", text)?),
    };
    let sha = match &*message.sha {
        "" => None,
        text => Some(
            text.parse()
                .map_err(|invalid| Error::invalid_id("sha", &invalid))?,
        ),
    };
    if task.is_none() && sha.is_none() {
        return Err(Error::invalid("sha", "is required without a task"));
    }
    // The rules of a task id: it may become part of a path.
    request::task("reviewer", &message.reviewer)?;
    let least = Duration::from_nanos(1);
    let ttl = request::duration("ttl", message.ttl, least, TTL_MAX)?;
    Ok(ReviewWish {
        repo: request::repo("key.repo", key.repo)?,
        task,
        sha,
        reviewer: message.reviewer,
        ttl: ttl.unwrap_or(default_ttl),
    })
}

fn created(outcome: &ReviewOutcome) -> v1::CreateReviewResponse {
    v1::CreateReviewResponse {
        review: Some(worktree::review(&outcome.review)),
        warnings: save::warnings(&outcome.warnings),
    }
}
