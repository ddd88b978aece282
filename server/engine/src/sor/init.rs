//! `init.sh`: written once by provision, then edited by whoever works in the checkout; read, never sourced.

use super::INIT_FILE;
use super::scaffold::ScaffoldCommands;
use crate::ids::SorDir;

/// How a script of this system of record is called from the root of the checkout.
pub fn default_init(sor_dir: &SorDir) -> String {
    format!("./{}", sor_dir.join(INIT_FILE))
}

/// A single-quoted shell word.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The script for these commands.
pub(super) fn script(commands: &ScaffoldCommands, sor_dir: &SorDir) -> String {
    let depth = match sor_dir.as_str() {
        "" => 0,
        path => path.split('/').count(),
    };
    let up = "/..".repeat(depth);
    let install = quote(commands.install.trim());
    let verify = quote(commands.verify.trim());
    let start = quote(commands.start.trim());
    format!(
        r#"#!/usr/bin/env bash
set -euo pipefail
# With CDPATH set, cd could end in another directory of the same name.
unset CDPATH
cd -- "$(dirname -- "$0")"{up}

INSTALL_CMD={install}
VERIFY_CMD={verify}
START_CMD={start}

run() {{
  if [ -z "$2" ]; then
    echo "[init] $1: not configured"
    return 0
  fi
  echo "[init] $1: $2"
  bash -c "$2"
}}

run install "$INSTALL_CMD"
run verify "$VERIFY_CMD"
if [ "${{RUN_START_COMMAND:-}}" = 1 ]; then
  run start "$START_CMD"
fi
"#
    )
}

/// The slots of an `init.sh`; what is not there, not readable as a plain assignment, or a placeholder, is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InitSlots {
    /// `INSTALL_CMD`.
    pub install: String,
    /// `VERIFY_CMD`.
    pub verify: String,
    /// `START_CMD`.
    pub start: String,
}

/// Reads the slots. Quotes of both kinds, `export`, indentation and CRLF are understood; expansions are kept as they are written.
/// As in the shell the last assignment of a name wins.
pub fn parse_init(script: &str) -> InitSlots {
    let mut slots = InitSlots::default();
    let mut rest = script;
    while !rest.is_empty() {
        let assignment = assigned(rest).and_then(|(name, text)| {
            let (value, after) = word(text)?;
            ends_command(after).then_some((name, value, after))
        });
        let Some((name, value, after)) = assignment else {
            rest = next_line(rest);
            continue;
        };
        let slot = match name {
            "INSTALL_CMD" => &mut slots.install,
            "VERIFY_CMD" => &mut slots.verify,
            _ => &mut slots.start,
        };
        *slot = configured(&value);
        rest = next_line(after);
    }
    slots
}

/// An older scaffold fills an empty slot with a command that only says so.
fn configured(value: &str) -> String {
    let value = value.trim();
    if value.starts_with("echo \"[init] configure ") && value.ends_with(" in init.sh\"") {
        return String::new();
    }
    value.to_owned()
}

fn next_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, rest)| rest)
}

/// The slot that the line at the beginning of `text` assigns, and what follows the `=`.
fn assigned(text: &str) -> Option<(&'static str, &str)> {
    let blank = [' ', '\t'];
    let text = text.trim_start_matches(blank);
    let text = text
        .strip_prefix("export")
        .filter(|rest| rest.starts_with(blank))
        .map_or(text, |rest| rest.trim_start_matches(blank));
    ["INSTALL_CMD", "VERIFY_CMD", "START_CMD"]
        .into_iter()
        .find_map(|name| Some((name, text.strip_prefix(name)?.strip_prefix('=')?)))
}

/// Whether the assignment stands alone: in `VERIFY_CMD=make test` the shell runs `test` and the slot stays as it was.
fn ends_command(after: &str) -> bool {
    let line = after.split('\n').next().unwrap_or_default();
    let trimmed = line.trim();
    trimmed.is_empty()
        || trimmed.starts_with([';', '&', '|'])
        || (trimmed.starts_with('#') && line.starts_with([' ', '\t']))
}

/// The shell word at the beginning of `text`, without its quotes, and what follows; `None` if a quote is not closed.
fn word(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        match c {
            '\'' => {
                let (inner, after) = rest[1..].split_once('\'')?;
                value.push_str(inner);
                rest = after;
            }
            '"' => rest = double_quoted(&rest[1..], &mut value)?,
            '\\' => {
                let escaped = rest[1..].chars().next()?;
                if escaped != '\n' {
                    value.push(escaped);
                }
                rest = &rest[1 + escaped.len_utf8()..];
            }
            ' ' | '\t' | '\n' | '\r' | ';' | '&' | '|' => break,
            other => {
                value.push(other);
                rest = &rest[other.len_utf8()..];
            }
        }
    }
    Some((value, rest))
}

/// Takes the inside of a double-quoted string into `value`; gives what follows the closing quote.
fn double_quoted<'a>(text: &'a str, value: &mut String) -> Option<&'a str> {
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some(&text[at + 1..]),
            '\\' => match chars.next()? {
                (_, '\n') => {}
                (_, escaped @ ('"' | '\\' | '$' | '`')) => value.push(escaped),
                (_, other) => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(script: &str) -> String {
        parse_init(script).verify
    }

    #[test]
    fn reads_hand_edited_slots() {
        for (script, expected) in [
            ("VERIFY_CMD='make test'", "make test"),
            ("VERIFY_CMD='make test'\r\n", "make test"),
            (
                "\t export \t VERIFY_CMD=\"say \\\"hi\\\" \\$HOME \\n\" # why\n",
                "say \"hi\" $HOME \\n",
            ),
            (r"VERIFY_CMD='it'\''s'", "it's"),
            (r"VERIFY_CMD=make\ test;", "make test"),
            ("VERIFY_CMD='a'\nVERIFY_CMD='b'\n", "b"),
            ("VERIFY_CMD='a\nb'\n", "a\nb"),
            ("VERIFY_CMD=''", ""),
            ("VERIFY_CMD=make test\n", ""),
            ("# VERIFY_CMD='old'\n", ""),
            ("VERIFY_CMD='open\n", ""),
            ("MY_VERIFY_CMD='x'\nVERIFY_CMD_2='x'\n", ""),
            (
                "VERIFY_CMD='echo \"[init] configure VERIFY_CMD in init.sh\"'\n",
                "",
            ),
            ("echo \"VERIFY_CMD='x'\"", ""),
        ] {
            assert_eq!(verify(script), expected, "{script:?}");
        }
    }

    #[test]
    fn a_slot_inside_another_slots_text_is_text() {
        let slots = parse_init("INSTALL_CMD='a\nVERIFY_CMD=forged\n'\nSTART_CMD='s'\n");
        assert_eq!((slots.verify.as_str(), slots.start.as_str()), ("", "s"));
    }
}
