//! `worktreectl review`.

use worktreed_client::proto::{
    CreateReviewRequest, ListReviewsRequest, ListReviewsResponse, RemoveReviewRequest, WorktreeKey,
};

use crate::{
    args::{ListReviewsArgs, ReviewCommand},
    context::Context,
    failure::Failure,
    show,
    text::to_proto_duration,
};

pub(crate) async fn run(context: &Context, command: ReviewCommand) -> Result<(), Failure> {
    match command {
        ReviewCommand::Create(arguments) => {
            let key = WorktreeKey {
                repo: arguments.repo.resolve()?,
                task_id: arguments.task.unwrap_or_default(),
            };
            let request = CreateReviewRequest {
                key: Some(key),
                request_id: arguments.request_id,
                sha: arguments.sha.unwrap_or_default(),
                reviewer: arguments.reviewer,
                ttl: arguments.ttl.map(to_proto_duration),
            };
            let answer = context.client.create_review(request).await?;
            context.warn(&answer.warnings);
            context.show(&answer, |answer| {
                answer
                    .review
                    .as_ref()
                    .map_or_else(String::new, show::review)
            })
        }
        ReviewCommand::List(arguments) => list(context, arguments).await,
        ReviewCommand::Remove(arguments) => {
            let answer = context
                .client
                .remove_review(RemoveReviewRequest { id: arguments.id })
                .await?;
            context.show(&answer, |answer| {
                if answer.tree_unchanged {
                    "removed; the reviewer changed nothing\n".to_owned()
                } else {
                    format!(
                        "removed; the reviewer changed files, pinned as {}\n",
                        answer.recovery_point
                    )
                }
            })
        }
    }
}

async fn list(context: &Context, arguments: ListReviewsArgs) -> Result<(), Failure> {
    let mut request = ListReviewsRequest {
        repo: arguments.repo.resolve()?,
        task_id: arguments.task,
        ..Default::default()
    };
    let mut all = ListReviewsResponse::default();
    while let Some(size) = arguments.page.next_size(all.reviews.len()) {
        request.page_size = size;
        let page = context.client.list_reviews(request.clone()).await?;
        all.reviews.extend(page.reviews);
        all.next_page_token.clone_from(&page.next_page_token);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    context.show(&all, |all| show::reviews(&all.reviews))
}
