//! A client of worktreed.
//!
//! Over the generated stubs it adds what every caller needs: request ids that are filled in, retries only where the
//! contract says that they are safe, deadlines, errors by reason, a [`LeaseGuard`] that keeps a lease alive, and a
//! [`Watch`] that goes on by itself where it was cut off.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use worktreed_client::{Client, proto::{ProvisionWorktreeRequest, WorktreeKey}};
//!
//! let client = Client::from_env()?;
//! let answer = client
//!     .provision_worktree(ProvisionWorktreeRequest {
//!         key: Some(WorktreeKey { repo: "/src/project".into(), task_id: "fix-login".into() }),
//!         ..Default::default()
//!     })
//!     .await?;
//! println!("{:?}", answer.worktree.map(|worktree| worktree.path));
//! # Ok(())
//! # }
//! ```

mod call;
mod client;
mod endpoint;
mod error;
mod lease;
mod request;
mod retry;
mod stream;
mod watch;

#[cfg(test)]
mod testing;

pub use client::{Client, Deadlines};
pub use endpoint::{ENDPOINT_VARIABLE, Endpoint, EndpointError};
pub use error::{Error, FieldViolation, PreconditionViolation};
pub use lease::{ClockIn, LeaseGuard, LeaseLoss, LeaseState};
pub use retry::RetryPolicy;
pub use stream::Responses;
pub use watch::{Watch, WatchItem};

/// The canonical gRPC codes.
pub use tonic::Code;
/// The messages of the contract.
pub use worktree_proto::v1 as proto;
