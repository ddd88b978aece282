//! What is checked of every request at the door, with the field named as the contract spells it.

use std::time::Duration;

use prost::Message;
use sha2::{Digest as _, Sha256};
use tonic::{Extensions, transport::server::UdsConnectInfo};
use worktree_engine::ids::TaskId;
use worktree_proto::v1;

use crate::{
    config::Limits,
    lifecycle::{Call, Error, Key, Result},
};

/// The most characters of names that clients give.
pub(crate) const NAME_CHARS: usize = 200;
/// The most characters of a text.
pub(crate) const TEXT_CHARS: usize = 65_536;

/// Reads the key of a worktree.
pub(crate) fn key(key: Option<v1::WorktreeKey>) -> Result<Key> {
    let key = key.ok_or_else(|| Error::invalid("key", "is required"))?;
    super::trace::name_worktree(&key.repo, &key.task_id);
    Ok(Key {
        repo: repo("key.repo", key.repo)?,
        task: task("key.task_id", &key.task_id)?,
    })
}

/// Reads the id of a task.
pub(crate) fn task(field: &str, value: &str) -> Result<TaskId> {
    value
        .parse()
        .map_err(|invalid| Error::invalid_id(field, &invalid))
}

/// Reads the name or path of a repository.
pub(crate) fn repo(field: &str, value: String) -> Result<String> {
    if value.is_empty() {
        return Err(Error::invalid(field, "is required"));
    }
    if value.len() > 4096 || value.contains('\0') {
        return Err(Error::invalid(
            field,
            "must have at most 4,096 bytes and no NUL",
        ));
    }
    Ok(value)
}

/// Refuses a text that is too long.
pub(crate) fn at_most(field: &str, value: &str, limit: usize) -> Result<()> {
    if value.chars().count() > limit {
        return Err(Error::invalid(
            field,
            format!("must have at most {limit} characters"),
        ));
    }
    Ok(())
}

/// Reads an epoch; 0 is none.
pub(crate) fn epoch(epoch: i64) -> Result<u64> {
    u64::try_from(epoch).map_err(|_| Error::invalid("lease_epoch", "must not be negative"))
}

/// Reads an epoch that has to be there.
pub(crate) fn required_epoch(given: i64) -> Result<u64> {
    match epoch(given)? {
        0 => Err(Error::invalid("lease_epoch", "is required, and at least 1")),
        epoch => Ok(epoch),
    }
}

/// Reads a duration between two others.
pub(crate) fn duration(
    field: &str,
    value: Option<prost_types::Duration>,
    least: Duration,
    most: Duration,
) -> Result<Option<Duration>> {
    let Some(value) = value else {
        return Ok(None);
    };
    let problem = || Error::invalid(field, format!("must be between {least:?} and {most:?}"));
    let duration = Duration::try_from(value).map_err(|_| problem())?;
    if duration < least || duration > most {
        return Err(problem());
    }
    Ok(Some(duration))
}

/// Reads the length of a lease.
pub(crate) fn ttl(
    value: Option<prost_types::Duration>,
    limits: &Limits,
) -> Result<Option<Duration>> {
    duration("ttl", value, limits.lease_ttl_min, limits.lease_ttl_max)
}

/// The number of items on a page.
pub(crate) fn page_size(value: i32, limits: &Limits) -> Result<usize> {
    match value {
        0 => Ok(limits.page_size_default),
        1.. => Ok(usize::try_from(value)
            .map_or(limits.page_size_max, |size| size.min(limits.page_size_max))),
        _ => Err(Error::invalid("page_size", "must not be negative")),
    }
}

/// Reads what identifies a call: who asks, and the id it may be repeated by.
pub(crate) fn call<T>(
    extensions: &Extensions,
    method: &'static str,
    request_id: &str,
    request: &impl Message,
    encode: fn(&T) -> Vec<u8>,
) -> Result<Call<T>> {
    let request_id = match request_id {
        "" => None,
        text => Some(
            uuid::Uuid::parse_str(text)
                .map_err(|_| Error::invalid("request_id", "must be a UUID"))?,
        ),
    };
    Ok(Call {
        principal: principal(extensions),
        method,
        request_id,
        digest: Sha256::digest(request.encode_to_vec()).to_vec(),
        trace_id: super::trace::trace_id(extensions),
        encode,
    })
}

/// Who calls: the uid of the peer on a Unix socket; on TCP, which is loopback only, nothing is known.
pub(crate) fn principal(extensions: &Extensions) -> String {
    extensions
        .get::<UdsConnectInfo>()
        .and_then(|info| info.peer_cred.as_ref())
        .map_or_else(
            || "loopback".to_owned(),
            |credentials| format!("uid:{}", credentials.uid()),
        )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_the_field_that_is_wrong() {
        let bad = key(Some(v1::WorktreeKey {
            repo: "/r".into(),
            task_id: "a..b".into(),
        }));
        assert!(matches!(bad, Err(Error::Invalid { field, .. }) if field == "key.task_id"));
        assert!(matches!(key(None), Err(Error::Invalid { field, .. }) if field == "key"));
    }

    #[test]
    fn durations_and_pages_are_bounded() {
        let long = prost_types::Duration {
            seconds: 100,
            nanos: 0,
        };
        assert!(duration("ttl", Some(long), Duration::ZERO, Duration::from_secs(99)).is_err());
    }
}
