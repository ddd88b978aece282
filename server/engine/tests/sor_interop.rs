//! What a Clawboo v0.3 installation reads from 43 directories, and what we read: the same, or different exactly as the case's note says.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use serde_json::{Value, json};
use worktree_engine::ids::SorDir;
use worktree_engine::sor::{HandoffRead, ResumeState, read_handoff, resume_state};

/// Our values in the form of the table; `null` and absent are the same there.
fn resume_json(state: &ResumeState) -> Value {
    json!({
        "hasHandoff": state.has_handoff,
        "done": state.done,
        "broken": state.broken,
        "next": state.next,
        "whyBlocked": state.why_blocked,
        "commands": {
            "init": state.commands.init,
            "verify": state.commands.verify,
            "start": state.commands.start,
        },
        "warnings": state.warnings,
        "lastRuntime": state.last_runtime,
        "nativeSessionId": state.native_session_id,
    })
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
        for inner in map.values_mut() {
            *inner = without_nulls(inner.take());
        }
    }
    value
}

fn read(case: &Value) -> (HandoffRead, ResumeState) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in case["files"].as_object().unwrap() {
        std::fs::write(directory.path().join(name), text.as_str().unwrap()).unwrap();
    }
    let root = SorDir::try_from(String::new()).unwrap();
    (
        read_handoff(directory.path(), &root),
        resume_state(directory.path(), &root, None),
    )
}

/// The expectation of a case with a note: what the note says, written out.
fn apply_note(name: &str, handoff: &mut Value, resume: &mut Value) -> bool {
    match name {
        "handoff_unknown_keys" => {
            handoff["futureField"] = json!({"a": [1, 2]});
            handoff["commands"]["bench"] = json!("x");
        }
        "handoff_missing_timestamp" => {
            *handoff = json!({
                "handoffFrom": "a", "runtime": "b", "timestamp": "", "completedSubtasks": [], "brokenOrUnverified": [],
                "nextBestStep": "", "commands": {"init": "./init.sh", "verify": "", "start": ""}, "evidence": {}, "warnings": [],
            });
            resume["hasHandoff"] = json!(true);
            resume["lastRuntime"] = json!("b");
            resume["warnings"] =
                json!(["the handoff has no timestamp: it is not known how old it is"]);
        }
        // An empty box says that it is not done.
        "progress_checkboxes" => resume["done"] = json!(["one"]),
        "progress_stars" => resume["done"] = json!(["one"]),
        "progress_crlf" => {
            resume["done"] = json!(["one"]);
            resume["broken"] = json!(["b"]);
        }
        "init_unconfigured" => {
            resume["commands"]["verify"] = json!("");
            resume["commands"]["start"] = json!("");
        }
        "init_double_quotes" | "init_export_indented" => {
            resume["commands"]["verify"] = json!("make test")
        }
        _ => return false,
    }
    true
}

#[test]
fn reads_what_clawboo_reads_or_differs_as_noted() {
    let table: Value = serde_json::from_str(include_str!("data/clawboo-v0.3.json")).unwrap();
    let cases = table["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 43);
    let mut names = BTreeSet::new();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        assert!(names.insert(name), "{name} is there twice");
        let (read, state) = read(case);
        let mut handoff = case["reads"]["handoff"].clone();
        let mut resume = case["reads"]["resumeState"].clone();
        let noted = apply_note(name, &mut handoff, &mut resume);
        assert_eq!(
            noted,
            case.get("note").is_some(),
            "{name}: a note and its expectation belong together"
        );
        // A file that is there and is no handoff is never passed over in silence: the one difference that needs no note.
        let unreadable = handoff.is_null() && case["files"].get("AGENT_HANDOFF.json").is_some();
        assert_eq!(
            read.problem.is_some(),
            unreadable,
            "{name}: {:?}",
            read.problem
        );
        if unreadable {
            resume["warnings"] = json!([read.problem]);
        }
        let ours = serde_json::to_value(&read.handoff).unwrap();
        assert_eq!(
            without_nulls(ours),
            without_nulls(handoff),
            "{name}: handoff"
        );
        assert_eq!(
            without_nulls(resume_json(&state)),
            without_nulls(resume),
            "{name}: resume state"
        );
        let by_file = read
            .handoff
            .map(|handoff| (handoff.handoff_from, handoff.timestamp));
        let in_state = state
            .handoff_from
            .map(|from| (from, state.handoff_time.unwrap_or_default()));
        assert_eq!(in_state, by_file, "{name}: who and when");
    }
}

#[test]
fn unknown_keys_come_back_as_extra_json() {
    let table: Value = serde_json::from_str(include_str!("data/clawboo-v0.3.json")).unwrap();
    let cases = table["cases"].as_array().unwrap();
    let case = cases
        .iter()
        .find(|case| case["name"] == "handoff_unknown_keys")
        .unwrap();
    let mut handoff = read(case).0.handoff.unwrap();
    let extra = handoff.extra_json();
    assert_eq!(
        serde_json::from_str::<Value>(&extra).unwrap(),
        json!({"futureField": {"a": [1, 2]}, "commands": {"bench": "x"}})
    );
    let before = handoff.clone();
    handoff.set_extra_json("").unwrap();
    assert_eq!(handoff.extra_json(), "");
    handoff.set_extra_json(&extra).unwrap();
    assert_eq!(handoff, before);
    for forged in [
        r#"{"runtime":"x"}"#,
        r#"{"commands":{"verify":"x"}}"#,
        r#"{"commands":1}"#,
        "[]",
        "{",
    ] {
        handoff.set_extra_json(forged).unwrap_err();
    }
}
