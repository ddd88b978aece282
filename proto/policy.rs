//! What the contract says of each method and of each error reason, read from the descriptor set: server and client
//! share it, and neither writes it down again.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};

use crate::{
    FILE_DESCRIPTOR_SET,
    v1::{ErrorReason, Scope},
};

/// The prefix of the names of [`ErrorReason`], which is left out on the wire.
pub const ERROR_REASON_PREFIX: &str = "ERROR_REASON_";

/// Says whether a call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// Nothing is said: the call may not be repeated.
    Unknown,
    /// The call changes nothing.
    NoSideEffects,
    /// A repeat has the same outcome as the first call.
    Idempotent,
}

impl Idempotency {
    /// Says whether the call may be repeated when its outcome is not known.
    pub fn is_safe_to_retry(self) -> bool {
        match self {
            Self::Unknown => false,
            Self::NoSideEffects | Self::Idempotent => true,
        }
    }
}

/// What the contract says of one method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodPolicy {
    /// The path that the method is called by: `/worktree.v1.WorktreeService/GetWorktree`.
    pub path: String,
    /// The right that a caller needs.
    pub scope: Scope,
    /// Whether the call may be repeated.
    pub idempotency: Idempotency,
    /// Whether the answer is a stream.
    pub server_streaming: bool,
}

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(FILE_DESCRIPTOR_SET)
        .expect("because the build wrote the descriptor set, and a test decodes it")
});

static METHODS: LazyLock<BTreeMap<String, MethodPolicy>> = LazyLock::new(|| {
    POOL.services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
        .map(|method| method_policy_of(&method))
        .map(|policy| (policy.path.clone(), policy))
        .collect()
});

static REASON_CODES: LazyLock<HashMap<i32, i32>> = LazyLock::new(|| {
    let (Some(reasons), Some(extension)) = (
        POOL.get_enum_by_name("worktree.v1.ErrorReason"),
        POOL.get_extension_by_name("worktree.v1.canonical_code"),
    ) else {
        return HashMap::new();
    };
    reasons
        .values()
        .filter_map(|value| {
            Some((
                value.number(),
                value.options().get_extension(&extension).as_i32()?,
            ))
        })
        .collect()
});

/// Returns the descriptors of the contract.
pub fn descriptor_pool() -> &'static DescriptorPool {
    &POOL
}

/// Returns what the contract says of each method, by its path.
pub fn method_policies() -> &'static BTreeMap<String, MethodPolicy> {
    &METHODS
}

/// Returns what the contract says of the method with this path (`/package.Service/Method`), if it is one of ours.
pub fn method_policy(path: &str) -> Option<&'static MethodPolicy> {
    METHODS.get(path)
}

/// Returns the number of the canonical gRPC code that this reason travels with; `None` for the unspecified one.
pub fn canonical_code(reason: ErrorReason) -> Option<i32> {
    REASON_CODES
        .get(&(reason as i32))
        .copied()
        .filter(|code| *code != 0)
}

/// Returns the name of a reason as it goes over the wire: without its prefix.
pub fn wire_reason(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(ERROR_REASON_PREFIX).unwrap_or(name)
}

/// Reads a reason from its name on the wire; `None` if this version does not know it.
pub fn parse_wire_reason(name: &str) -> Option<ErrorReason> {
    ErrorReason::from_str_name(&format!("{ERROR_REASON_PREFIX}{name}"))
}

fn method_policy_of(method: &MethodDescriptor) -> MethodPolicy {
    let options = method.options();
    MethodPolicy {
        path: format!("/{}/{}", method.parent_service().full_name(), method.name()),
        scope: scope_of(&options),
        idempotency: idempotency_of(&options),
        server_streaming: method.is_server_streaming(),
    }
}

fn scope_of(options: &DynamicMessage) -> Scope {
    POOL.get_extension_by_name("worktree.v1.method_policy")
        .map(|extension| options.get_extension(&extension).into_owned())
        .and_then(|policy| {
            let scope = policy.as_message()?.get_field_by_name("scope")?;
            scope.as_enum_number()
        })
        .and_then(|number| Scope::try_from(number).ok())
        .unwrap_or(Scope::Unspecified)
}

fn idempotency_of(options: &DynamicMessage) -> Idempotency {
    let level = options
        .get_field_by_name("idempotency_level")
        .and_then(|level| level.as_enum_number());
    match level {
        Some(1) => Idempotency::NoSideEffects,
        Some(2) => Idempotency::Idempotent,
        Some(_) | None => Idempotency::Unknown,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_method_has_a_scope_and_an_idempotency_level() {
        let policies = method_policies();
        assert_eq!(policies.len(), 26, "{:?}", policies.keys());
        for policy in policies.values() {
            assert_ne!(policy.scope, Scope::Unspecified, "{}", policy.path);
            assert_ne!(policy.idempotency, Idempotency::Unknown, "{}", policy.path);
        }
    }

    #[test]
    fn reads_change_nothing_and_only_reads() {
        for policy in method_policies().values() {
            let reads = policy.scope == Scope::Read;
            assert_eq!(
                reads,
                policy.idempotency == Idempotency::NoSideEffects,
                "{}",
                policy.path
            );
        }
    }

    #[test]
    fn a_method_is_found_by_the_path_it_is_called_by() {
        let policy = method_policy("/worktree.v1.MaintenanceService/CollectGarbage").unwrap();
        assert_eq!(policy.scope, Scope::Admin);
        assert!(policy.server_streaming);
        assert!(method_policy("/grpc.health.v1.Health/Check").is_none());
    }

    #[test]
    fn every_reason_has_a_code_and_survives_the_wire() {
        let reasons = descriptor_pool()
            .get_enum_by_name("worktree.v1.ErrorReason")
            .unwrap();
        for value in reasons.values().filter(|value| value.number() != 0) {
            let reason = ErrorReason::try_from(value.number()).unwrap();
            assert!(
                matches!(canonical_code(reason), Some(1..=16)),
                "{}",
                value.name()
            );
            assert_eq!(parse_wire_reason(wire_reason(reason)), Some(reason));
        }
        assert_eq!(canonical_code(ErrorReason::LeaseHeld), Some(9));
        assert_eq!(wire_reason(ErrorReason::LeaseHeld), "LEASE_HELD");
        assert_eq!(canonical_code(ErrorReason::Unspecified), None);
    }

    #[test]
    fn states_and_event_kinds_leave_their_number_blocks_free() {
        let states = descriptor_pool()
            .get_enum_by_name("worktree.v1.WorktreeState")
            .unwrap();
        assert!(
            states
                .values()
                .all(|state| !(13..30).contains(&state.number()))
        );
        let kinds = descriptor_pool()
            .get_enum_by_name("worktree.v1.EventKind")
            .unwrap();
        assert_eq!(kinds.values().len(), 28);
    }

    /// Reads the names in backticks that look like a reason from the comments of the services.
    fn reasons_in_comments() -> Vec<(String, String)> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/worktree/v1");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if !path.to_str().unwrap().ends_with("_service.proto") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let quoted = text.split('`').skip(1).step_by(2);
            let is_reason = |name: &&str| {
                name.contains('_') && name.bytes().all(|b| b == b'_' || b.is_ascii_uppercase())
            };
            found.extend(
                quoted
                    .filter(is_reason)
                    .map(|name| (path.display().to_string(), name.to_owned())),
            );
        }
        found
    }

    #[test]
    fn comments_name_only_reasons_that_there_are_and_leave_none_out() {
        let named = reasons_in_comments();
        for (file, name) in &named {
            assert!(parse_wire_reason(name).is_some(), "{file}: {name}");
        }
        let reasons = descriptor_pool()
            .get_enum_by_name("worktree.v1.ErrorReason")
            .unwrap();
        for value in reasons.values().filter(|value| value.number() != 0) {
            let name = value.name().trim_start_matches(ERROR_REASON_PREFIX);
            // The one whose name has no second word, by which the others are told from other things in backticks.
            assert!(
                name == "INTERNAL" || named.iter().any(|(_, known)| known == name),
                "{name} is answered by no RPC"
            );
        }
    }
}
