//! Messages of the contract as JSON, with their own field names.

use anyhow::Context as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, SerializeOptions};
use serde_json::Value;
use worktree_proto::{Name, policy::descriptor_pool};

use crate::failure::Failure;

/// Turns a message into JSON: field names as in the contract, all fields there whether set or not, enums by name, 64-bit
/// numbers as numbers, bytes in base64, times in RFC 3339.
pub(crate) fn to_json<M: Name>(message: &M) -> Result<Value, Failure> {
    let name = M::full_name();
    let descriptor = descriptor_pool()
        .get_message_by_name(&name)
        .with_context(|| format!("the contract has no message {name}"))?;
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic
        .transcode_from(message)
        .context("the message does not fit its own descriptor")?;
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .stringify_64_bit_integers(false)
        .skip_default_fields(false);
    debug_assert_eq!(dynamic.descriptor().full_name(), name);
    Ok(dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .context("not to be written as JSON")?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;
    use worktree_proto::v1::{
        Event, EventKind, Handoff, NotSaved, NotSavedReason, WatchEventsResponse, WorktreeKey,
        watch_events_response::Item,
    };

    use super::*;

    #[test]
    fn names_are_those_of_the_contract_and_fields_that_are_not_set_are_there() {
        let not_saved = NotSaved {
            path: b"a\xff".to_vec(),
            reason: NotSavedReason::IgnoredKept.into(),
            file_count: 1,
            size_bytes: 1 << 40,
        };
        let expected = json!({
            "path": "Yf8=", "reason": "NOT_SAVED_REASON_IGNORED_KEPT", "file_count": 1, "size_bytes": 1_u64 << 40
        });
        assert_eq!(to_json(&not_saved).unwrap(), expected);

        let handoff = to_json(&Handoff {
            runtime: "human".into(),
            ..Default::default()
        })
        .unwrap();
        assert_eq!(handoff["completed_subtasks"], json!([]));
        assert_eq!(handoff["next_best_step"], "");
        assert_eq!(handoff["schema_version"], 0);
    }

    #[test]
    fn an_item_of_a_stream_names_what_it_is() {
        let event = Event {
            position: "p1".into(),
            sequence: 1,
            time: Some(prost_types::Timestamp {
                seconds: 0,
                nanos: 0,
            }),
            kind: EventKind::HandedOff.into(),
            key: Some(WorktreeKey {
                repo: "/r".into(),
                task_id: "t".into(),
            }),
            ..Default::default()
        };
        let json = to_json(&WatchEventsResponse {
            item: Some(Item::Event(event)),
        })
        .unwrap();
        assert_eq!(json["event"]["kind"], "EVENT_KIND_HANDED_OFF");
        assert_eq!(json["event"]["key"]["task_id"], "t");
        assert_eq!(json["event"]["time"], "1970-01-01T00:00:00Z");
        assert_eq!(json.as_object().unwrap().len(), 1, "{json}");
    }

    #[test]
    fn an_enum_value_of_a_newer_server_stays_a_number() {
        let json = to_json(&NotSaved {
            reason: 99,
            ..Default::default()
        })
        .unwrap();
        assert_eq!(json["reason"], 99);
    }
}
