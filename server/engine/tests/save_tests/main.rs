//! Saving, dropping, resuming and measuring, against real git.
#![allow(clippy::unwrap_used)]

mod commits;
mod faithful;
mod left_out;
mod made;
mod measure;
mod races;
mod random;
mod refusals;
mod removal;
mod support;
