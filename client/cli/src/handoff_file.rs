//! Reads a file like `AGENT_HANDOFF.json` into a handoff.

use serde_json::{Map, Value};
use worktreed_client::proto::{Commands, Evidence, Handoff, RoomCursor};

use crate::failure::Failure;

/// Reads a handoff from the JSON of the file. Keys that are not known travel on in `extra_json`.
pub(crate) fn parse(text: &str) -> Result<Handoff, Failure> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("the handoff is not JSON: {error}")))?;
    let Value::Object(mut object) = value else {
        return Err(Failure::usage("the handoff is not a JSON object"));
    };
    let keys = &mut object;
    let mut handoff = Handoff {
        handoff_from: string(keys, "handoffFrom")?.unwrap_or_default(),
        runtime: string(keys, "runtime")?.unwrap_or_default(),
        timestamp: string(keys, "timestamp")?.unwrap_or_default(),
        completed_subtasks: strings(keys, "completedSubtasks")?,
        broken_or_unverified: strings(keys, "brokenOrUnverified")?,
        next_best_step: string(keys, "nextBestStep")?.unwrap_or_default(),
        why_blocked: string(keys, "whyBlocked")?,
        commands: commands(keys)?,
        evidence: evidence(keys)?,
        warnings: strings(keys, "warnings")?,
        native_session_id: string(keys, "nativeSessionId")?,
        room_cursor: room_cursor(keys)?,
        ..Default::default()
    };
    // The service fills these in itself; what an older file says of them is no longer true.
    for stale in ["taskId", "schemaVersion", "origin", "observed"] {
        keys.remove(stale);
    }
    if !keys.is_empty() {
        handoff.extra_json = Value::Object(object).to_string();
    }
    Ok(handoff)
}

fn commands(keys: &mut Map<String, Value>) -> Result<Option<Commands>, Failure> {
    let Some(mut inner) = inner(keys, "commands")? else {
        return Ok(None);
    };
    Ok(Some(Commands {
        init: string(&mut inner, "init")?.unwrap_or_default(),
        verify: string(&mut inner, "verify")?.unwrap_or_default(),
        start: string(&mut inner, "start")?.unwrap_or_default(),
    }))
}

fn evidence(keys: &mut Map<String, Value>) -> Result<Option<Evidence>, Failure> {
    let Some(mut inner) = inner(keys, "evidence")? else {
        return Ok(None);
    };
    Ok(Some(Evidence {
        test_results: string(&mut inner, "testResults")?,
        lint_results: string(&mut inner, "lintResults")?,
    }))
}

fn room_cursor(keys: &mut Map<String, Value>) -> Result<Option<RoomCursor>, Failure> {
    let Some(mut inner) = inner(keys, "roomCursor")? else {
        return Ok(None);
    };
    let last_seen_seq = inner.get("lastSeenSeq").and_then(Value::as_i64);
    Ok(Some(RoomCursor {
        room_id: string(&mut inner, "roomId")?.unwrap_or_default(),
        last_seen_seq: last_seen_seq
            .ok_or_else(|| wrong("roomCursor.lastSeenSeq", "a whole number"))?,
    }))
}

fn string(keys: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Failure> {
    match keys.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(wrong(name, "a string"))
        }
    }
}

fn strings(keys: &mut Map<String, Value>, name: &str) -> Result<Vec<String>, Failure> {
    let entries = match keys.remove(name) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(entries)) => entries,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
            return Err(wrong(name, "an array of strings"));
        }
    };
    entries
        .into_iter()
        .map(|entry| {
            entry
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| wrong(name, "an array of strings"))
        })
        .collect()
}

fn inner(keys: &mut Map<String, Value>, name: &str) -> Result<Option<Map<String, Value>>, Failure> {
    match keys.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(inner)) => Ok(Some(inner)),
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(wrong(name, "an object"))
        }
    }
}

fn wrong(name: &str, expected: &str) -> Failure {
    Failure::usage(format!("{name} in the handoff is not {expected}"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_with_its_own_names_and_unknown_keys_travel_on() {
        let handoff = parse(
            r#"{"handoffFrom":"a","runtime":"codex","completedSubtasks":["x"],"whyBlocked":null,"taskId":"old",
                "commands":{"verify":"make test"},"evidence":{"testResults":"12 passed"},
                "roomCursor":{"roomId":"r","lastSeenSeq":9007199254740993},"mood":"fine"}"#,
        )
        .unwrap();
        assert_eq!(handoff.runtime, "codex");
        assert_eq!(handoff.completed_subtasks, ["x"]);
        assert_eq!(handoff.why_blocked, None);
        assert_eq!(handoff.commands.unwrap().verify, "make test");
        assert_eq!(
            handoff.evidence.unwrap().test_results.as_deref(),
            Some("12 passed")
        );
        assert_eq!(
            handoff.room_cursor.unwrap().last_seen_seq,
            9_007_199_254_740_993
        );
        assert_eq!(handoff.extra_json, r#"{"mood":"fine"}"#);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, name) in [
            ("[]", "object"),
            ("{", "JSON"),
            (r#"{"runtime":1}"#, "runtime"),
            (r#"{"warnings":["a",2]}"#, "warnings"),
            (r#"{"commands":[]}"#, "commands"),
            (r#"{"roomCursor":{"roomId":"r"}}"#, "lastSeenSeq"),
        ] {
            let Err(Failure::Usage(message)) = parse(text) else {
                panic!("{text} was read")
            };
            assert!(message.contains(name), "{message}");
        }
    }
}
