//! Saving: a walk of our own, raw bytes in a recovery point, and git's own filtered content on the branch.

pub(crate) mod admin;
pub(crate) mod attributes;
pub(crate) mod commit;
pub(crate) mod dir;
pub(crate) mod ignore;
pub(crate) mod index;
pub(crate) mod lock;
pub(crate) mod manifest;
pub(crate) mod put;
pub(crate) mod raw;
pub(crate) mod run;
pub(crate) mod subject;
pub(crate) mod tree;
pub(crate) mod walk;
