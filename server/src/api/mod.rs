//! The services: they convert, and call. What is decided is decided by the lifecycle.

pub(crate) mod convert;
pub(crate) mod error;
mod event_service;
mod handoff_service;
mod lease_service;
mod maintenance_service;
mod page;
mod request;
mod review_service;
pub(crate) mod trace;
mod worktree_service;

use std::sync::Arc;

use prost::Message;
use tonic::{Response, Status, service::Routes};
use worktree_proto::v1::{
    event_service_server::EventServiceServer, handoff_service_server::HandoffServiceServer,
    lease_service_server::LeaseServiceServer, maintenance_service_server::MaintenanceServiceServer,
    review_service_server::ReviewServiceServer, worktree_service_server::WorktreeServiceServer,
};

use crate::{
    config::Limits,
    lifecycle::{Answer, Error, Lifecycle},
};

/// The six services, on one lifecycle.
pub(crate) fn routes(lifecycle: &Arc<Lifecycle>) -> Routes {
    let most = lifecycle.settings.limits.message_max_bytes;
    let api = Api {
        lifecycle: Arc::clone(lifecycle),
    };
    Routes::new(WorktreeServiceServer::new(api.clone()).max_decoding_message_size(most))
        .add_service(LeaseServiceServer::new(api.clone()).max_decoding_message_size(most))
        .add_service(HandoffServiceServer::new(api.clone()).max_decoding_message_size(most))
        .add_service(ReviewServiceServer::new(api.clone()).max_decoding_message_size(most))
        .add_service(EventServiceServer::new(api.clone()).max_decoding_message_size(most))
        .add_service(MaintenanceServiceServer::new(api).max_decoding_message_size(most))
}

/// What every service is made of.
#[derive(Debug, Clone)]
pub(crate) struct Api {
    lifecycle: Arc<Lifecycle>,
}

impl Api {
    fn limits(&self) -> &Limits {
        &self.lifecycle.settings.limits
    }
}

/// Turns what the lifecycle answered into a response.
fn respond<T, R: Message + Default>(
    answer: Result<Answer<T>, Error>,
    convert: impl Fn(&T) -> R,
) -> Result<Response<R>, Status> {
    let message = match answer {
        Ok(Answer::Fresh(outcome)) => convert(&outcome),
        Ok(Answer::Stored(bytes)) => R::decode(&*bytes).map_err(|error| {
            error::to_status(&Error::Internal(format!("a remembered answer: {error}")))
        })?,
        Err(error) => return Err(error::to_status(&error)),
    };
    Ok(Response::new(message))
}

/// Turns a plain answer into a response.
fn plain<R>(answer: Result<R, Error>) -> Result<Response<R>, Status> {
    answer
        .map(Response::new)
        .map_err(|error| error::to_status(&error))
}
