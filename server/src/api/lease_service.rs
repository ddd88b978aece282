//! `LeaseService`.

use prost::Message as _;
use tonic::{Request, Response, Status};
use worktree_proto::v1::{self, lease_service_server::LeaseService};

use super::{
    Api,
    convert::{handoff, worktree},
    plain, request, respond, trace,
};
use crate::{
    config::Limits,
    lifecycle::{AcquireOutcome, AcquireRequest, Error, Result},
    registry::HolderProcess,
};

#[tonic::async_trait]
impl LeaseService for Api {
    async fn acquire_lease(
        &self,
        request: Request<v1::AcquireLeaseRequest>,
    ) -> Result<Response<v1::AcquireLeaseResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let call = request::call(
                &extensions,
                "worktree.v1.LeaseService/AcquireLease",
                &message.request_id,
                &message,
                |outcome| acquired(outcome).encode_to_vec(),
            )?;
            self.lifecycle
                .acquire_lease(call, wish(message, self.limits())?)
                .await
        };
        respond(answer.await, acquired)
    }

    async fn renew_lease(
        &self,
        request: Request<v1::RenewLeaseRequest>,
    ) -> Result<Response<v1::RenewLeaseResponse>, Status> {
        let message = request.into_inner();
        let answer = async {
            let key = request::key(message.key)?;
            let epoch = request::required_epoch(message.lease_epoch)?;
            let ttl = request::ttl(message.ttl, self.limits())?;
            let lease = self.lifecycle.renew_lease(key, epoch, ttl).await?;
            Ok(v1::RenewLeaseResponse {
                lease: Some(worktree::lease(&lease)),
            })
        };
        plain(answer.await)
    }

    async fn release_lease(
        &self,
        request: Request<v1::ReleaseLeaseRequest>,
    ) -> Result<Response<v1::ReleaseLeaseResponse>, Status> {
        let (_, extensions, message) = request.into_parts();
        let answer = async {
            let key = request::key(message.key)?;
            let epoch = request::required_epoch(message.lease_epoch)?;
            let trace_id = trace::trace_id(&extensions);
            let row = self.lifecycle.release_lease(key, epoch, trace_id).await?;
            Ok(v1::ReleaseLeaseResponse {
                worktree: Some(worktree::worktree(&row)),
            })
        };
        plain(answer.await)
    }
}

fn wish(message: v1::AcquireLeaseRequest, limits: &Limits) -> Result<AcquireRequest> {
    let key = request::key(message.key)?;
    if message.holder.trim().is_empty() {
        return Err(Error::invalid("holder", "is required"));
    }
    request::at_most("holder", &message.holder, request::NAME_CHARS)?;
    request::at_most("runtime", &message.runtime, 64)?;
    request::at_most("takeover_reason", &message.takeover_reason, 1000)?;
    let ttl = request::ttl(message.ttl, limits)?;
    let holder_process = match message.holder_process {
        Some(process) => {
            if process.pid <= 0 {
                return Err(Error::invalid(
                    "holder_process.pid",
                    "must be greater than 0",
                ));
            }
            request::at_most("holder_process.host", &process.host, 255)?;
            Some(HolderProcess {
                pid: process.pid,
                start_ticks: process.start_ticks,
                host: process.host,
            })
        }
        None => None,
    };
    Ok(AcquireRequest {
        key,
        holder: message.holder,
        runtime: message.runtime,
        ttl,
        takeover_reason: message.takeover_reason,
        holder_process,
    })
}

fn acquired(outcome: &AcquireOutcome) -> v1::AcquireLeaseResponse {
    v1::AcquireLeaseResponse {
        lease: Some(worktree::lease(&outcome.lease)),
        worktree: Some(worktree::worktree(&outcome.row)),
        resume_state: Some(handoff::resume_state(&outcome.resume_state)),
    }
}
