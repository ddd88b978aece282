//! The service as its callers meet it: the built binary, driven through a real socket, on real repositories.
//!
//! One binary for all, so that it is linked once. Nothing here waits by sleeping: what is waited for is an event, the
//! end of a process, or the answer to a question that is asked again.
// A wildcard arm fails on what was not expected, also on what comes later.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

mod events;
mod repo;
mod scene;
mod task;

mod bad_input;
mod bad_paging;
mod bad_repository;
mod branches;
mod concurrency;
mod crash;
mod diff;
mod disk_full;
mod ending;
mod gc;
mod git_processes;
mod handoff;
mod handoff_file;
mod identity;
mod kill;
mod leases;
mod lifecycle;
mod listing;
mod pause;
mod registry_file;
mod repositories;
mod repository_shapes;
mod request_ids;
mod review;
mod server;
mod story;
mod unprivileged;
mod watch;
mod watch_storm;
