//! `HandoffService`.

use prost::Message as _;
use tonic::{Request, Response, Status};
use worktree_proto::v1::{self, handoff_service_server::HandoffService};

use super::{
    Api,
    convert::{handoff, save, timestamp, worktree},
    page, plain, request, respond,
};
use crate::lifecycle::{Error, HandoffOutcome, Result, recorded};

#[tonic::async_trait]
impl HandoffService for Api {
    async fn write_handoff(
        &self,
        request: Request<v1::WriteHandoffRequest>,
    ) -> Result<Response<v1::WriteHandoffResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.HandoffService/WriteHandoff",
                &message.request_id,
                &message,
                |outcome| written(outcome).encode_to_vec(),
            )?;
            let key = request::key(message.key)?;
            let epoch = request::epoch(message.lease_epoch)?;
            let said = message
                .handoff
                .ok_or_else(|| Error::invalid("handoff", "is required"))?;
            let said = handoff::from_request(said)?;
            self.lifecycle
                .write_handoff(call, key, epoch, said, message.keep_lease)
                .await
        };
        respond(answer.await, written)
    }

    async fn get_handoff(
        &self,
        request: Request<v1::GetHandoffRequest>,
    ) -> Result<Response<v1::GetHandoffResponse>, Status> {
        let answer = async {
            let key = request::key(request.into_inner().key)?;
            let found = self.lifecycle.get_handoff(&key).await?;
            Ok(v1::GetHandoffResponse {
                handoff: found.handoff.as_ref().map(handoff::to_message),
                problem: found.problem,
                from_history: found.from_history,
            })
        };
        plain(answer.await)
    }

    async fn list_handoffs(
        &self,
        request: Request<v1::ListHandoffsRequest>,
    ) -> Result<Response<v1::ListHandoffsResponse>, Status> {
        plain(self.handoffs(request.into_inner()).await)
    }

    async fn get_resume_state(
        &self,
        request: Request<v1::GetResumeStateRequest>,
    ) -> Result<Response<v1::GetResumeStateResponse>, Status> {
        let message = request.into_inner();
        let answer = async {
            let key = request::key(message.key)?;
            let state = self
                .lifecycle
                .get_resume_state(&key, message.runtime)
                .await?;
            Ok(v1::GetResumeStateResponse {
                resume_state: Some(handoff::resume_state(&state)),
            })
        };
        plain(answer.await)
    }
}

impl Api {
    async fn handoffs(&self, message: v1::ListHandoffsRequest) -> Result<v1::ListHandoffsResponse> {
        let size = request::page_size(message.page_size, self.limits())?;
        let key = request::key(message.key)?;
        let query = format!("handoffs {} {}", key.repo, key.task);
        let before = match page::cursor(&query, &message.page_token)? {
            Some(cursor) => Some(cursor.parse().map_err(|_| Error::PageTokenInvalid)?),
            None => None,
        };
        let mut rows = self.lifecycle.list_handoffs(&key, before, size + 1).await?;
        let more = rows.len() > size;
        rows.truncate(size);
        let next = rows.last().filter(|_| more);
        let next_page_token = next
            .map(|row| page::token(&query, &row.number.to_string()))
            .unwrap_or_default();
        let entry = |row: &crate::registry::HandoffRow| {
            let said = recorded(row)?;
            Ok(v1::HandoffEntry {
                number: row.number,
                recorded_time: Some(timestamp(row.create_time)),
                head: said
                    .observed
                    .as_ref()
                    .map(|observed| observed.head.clone())
                    .unwrap_or_default(),
                handoff: Some(handoff::to_message(&said)),
            })
        };
        Ok(v1::ListHandoffsResponse {
            entries: rows.iter().map(entry).collect::<Result<_>>()?,
            next_page_token,
        })
    }
}

fn written(outcome: &HandoffOutcome) -> v1::WriteHandoffResponse {
    v1::WriteHandoffResponse {
        worktree: Some(worktree::worktree(&outcome.row)),
        handoff: Some(handoff::to_message(&outcome.handoff)),
        number: outcome.number,
        warnings: save::warnings(&outcome.warnings),
    }
}
