//! `AGENT_HANDOFF.json` as text.

use serde_json::{Map, Value};

use super::handoff::{
    Commands, Evidence, Handoff, HandoffObserved, HandoffOrigin, RoomCursor, SCHEMA_VERSION,
};
use crate::model::Warning;

/// Reads the text of a handoff file. The error is a sentence for people that names the key.
pub fn parse_handoff(bytes: &[u8]) -> Result<(Handoff, Vec<Warning>), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    // Through a map first: of a key that is there twice the last counts, as in JavaScript; serde's own structs refuse it.
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let handoff = Handoff::try_from(value)?;
    let warnings = warnings_about(&handoff);
    Ok((handoff, warnings))
}

/// The text of a handoff file: two-space JSON with a line feed at the end.
pub fn render_handoff(handoff: &Handoff) -> Vec<u8> {
    // Serialising maps with string keys into memory has no way to fail; an empty file is refused by every reader.
    let mut bytes = serde_json::to_vec_pretty(handoff).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// What a reader should know about a handoff that is otherwise good.
pub(super) fn warnings_about(handoff: &Handoff) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if handoff.timestamp.is_empty() {
        warnings.push(Warning::new(
            MISSING_TIMESTAMP,
            "the handoff has no timestamp: it is not known how old it is",
        ));
    } else if handoff.timestamp.parse::<jiff::Timestamp>().is_err() {
        warnings.push(Warning::new(
            "TIMESTAMP_ODD",
            format!(
                "the handoff's timestamp {:?} is not ISO 8601 in UTC",
                shorten(&handoff.timestamp)
            ),
        ));
    }
    if handoff.schema_version > SCHEMA_VERSION {
        warnings.push(Warning::new(
            NEWER_SCHEMA,
            format!(
                "the handoff has schema version {}, newer than {SCHEMA_VERSION}: what is not known was kept",
                handoff.schema_version
            ),
        ));
    }
    warnings
}

/// The code of the warning about a handoff without a timestamp.
pub(super) const MISSING_TIMESTAMP: &str = "TIMESTAMP_MISSING";
/// The code of the warning about a handoff of a newer schema.
pub(super) const NEWER_SCHEMA: &str = "HANDOFF_NEWER_SCHEMA";

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The keys of one object, taken out one by one; what is left is not known.
struct Keys<'a> {
    /// The object's name with a dot at the end, for messages; empty for the top level.
    within: &'a str,
    map: Map<String, Value>,
}

impl Keys<'_> {
    fn wrong(&self, key: &str, wanted: &str) -> String {
        format!("{}{key} must be {wanted}", self.within)
    }

    /// A string; `None` if the key is absent.
    fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.map.shift_remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "a string")),
        }
    }

    /// A string that may also be `null`.
    fn optional(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.map.get(key) {
            Some(Value::Null) => {
                self.map.shift_remove(key);
                Ok(None)
            }
            _ => self.text(key),
        }
    }

    fn required(&mut self, key: &str) -> Result<String, String> {
        match self.text(key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            _ => Err(self.wrong(key, "given and not be empty")),
        }
    }

    fn list(&mut self, key: &str) -> Result<Vec<String>, String> {
        let wrong = self.wrong(key, "a list of strings");
        match self.map.shift_remove(key) {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => items
                .into_iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text),
                    _ => Err(wrong.clone()),
                })
                .collect(),
            Some(_) => Err(wrong),
        }
    }

    fn object(&mut self, key: &str) -> Result<Option<Map<String, Value>>, String> {
        match self.map.shift_remove(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(self.wrong(key, "an object")),
        }
    }

    /// A key of ours, which means something else, or nothing, in a file of another program: there it stays among the unknown.
    fn ours<T: serde::de::DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let value = serde_json::from_value(self.map.get(key)?.clone()).ok()?;
        self.map.shift_remove(key);
        Some(value)
    }
}

impl TryFrom<Value> for Handoff {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let Value::Object(map) = value else {
            return Err("it is not a JSON object".to_owned());
        };
        let mut keys = Keys { within: "", map };
        let mut handoff = Self {
            handoff_from: keys.required("handoffFrom")?,
            runtime: keys.required("runtime")?,
            timestamp: keys.text("timestamp")?.unwrap_or_default(),
            completed_subtasks: keys.list("completedSubtasks")?,
            broken_or_unverified: keys.list("brokenOrUnverified")?,
            next_best_step: keys.text("nextBestStep")?.unwrap_or_default(),
            why_blocked: keys.optional("whyBlocked")?,
            commands: commands(keys.object("commands")?.unwrap_or_default())?,
            evidence: evidence(keys.object("evidence")?.unwrap_or_default())?,
            warnings: keys.list("warnings")?,
            native_session_id: keys.optional("nativeSessionId")?,
            room_cursor: room_cursor(&mut keys)?,
            task_id: keys.ours::<String>("taskId"),
            schema_version: keys.ours::<u32>("schemaVersion").unwrap_or_default(),
            origin: keys.ours::<HandoffOrigin>("origin"),
            observed: keys.ours::<HandoffObserved>("observed"),
            extra: Map::new(),
        };
        handoff.extra = keys.map;
        Ok(handoff)
    }
}

fn commands(map: Map<String, Value>) -> Result<Commands, String> {
    let mut keys = Keys {
        within: "commands.",
        map,
    };
    Ok(Commands {
        init: keys.text("init")?.unwrap_or_default(),
        verify: keys.text("verify")?.unwrap_or_default(),
        start: keys.text("start")?.unwrap_or_default(),
        extra: keys.map,
    })
}

fn evidence(map: Map<String, Value>) -> Result<Evidence, String> {
    let mut keys = Keys {
        within: "evidence.",
        map,
    };
    Ok(Evidence {
        test_results: keys.optional("testResults")?,
        lint_results: keys.optional("lintResults")?,
        extra: keys.map,
    })
}

fn room_cursor(keys: &mut Keys<'_>) -> Result<Option<RoomCursor>, String> {
    if keys.map.get("roomCursor").is_some_and(Value::is_null) {
        keys.map.shift_remove("roomCursor");
    }
    let Some(map) = keys.object("roomCursor")? else {
        return Ok(None);
    };
    let mut keys = Keys {
        within: "roomCursor.",
        map,
    };
    let Some(room_id) = keys.text("roomId")? else {
        return Err(keys.wrong("roomId", "given"));
    };
    let last_seen_seq = keys
        .map
        .shift_remove("lastSeenSeq")
        .as_ref()
        .and_then(whole_number)
        .ok_or_else(|| keys.wrong("lastSeenSeq", "a whole number, not negative"))?;
    Ok(Some(RoomCursor {
        room_id,
        last_seen_seq,
        extra: keys.map,
    }))
}

/// JavaScript has one kind of number: `42.0` is the whole number 42 there.
fn whole_number(value: &Value) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let number = match value.as_i64() {
        Some(number) => number,
        #[allow(
            clippy::cast_possible_truncation,
            reason = "checked to be whole and within 2^53"
        )]
        None => value
            .as_f64()
            .filter(|float| float.fract() == 0.0 && float.abs() <= EXACT)? as i64,
    };
    (number >= 0).then_some(number)
}
