//! The gRPC contract of worktreed: generated types, service stubs, the descriptor set, and what it says of each method.

pub mod policy;

/// The types, servers and clients of package `worktree.v1`.
#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    missing_debug_implementations
)]
pub mod v1 {
    tonic::include_proto!("worktree.v1");
}

/// The encoded `FileDescriptorSet` of the contract with all that it imports, our options and the comments included.
pub const FILE_DESCRIPTOR_SET: &[u8] =
    include_bytes!(concat!(env!("OUT_DIR"), "/worktree_descriptor.bin"));

/// The name of each message, by which its descriptor is found.
pub use prost::Name;

/// The `domain` of every `google.rpc.ErrorInfo` of the service.
pub const ERROR_DOMAIN: &str = "worktree.v1";
