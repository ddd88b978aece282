//! Small pieces of text: durations, times, ids, and what a terminal may be shown.

use std::{fmt::Write as _, time::Duration};

use jiff::{SignedDuration, Timestamp};

/// Reads a duration such as `90s`, `5m`, `1h30m`, `3d` or a plain number of seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration such as 90s, 5m, 1h30m or 3d");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    // A day is no unit of jiff's, because some have 23 hours; here it always has 24.
    if let Some(days) = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u64>().ok())
    {
        return days
            .checked_mul(24 * 60 * 60)
            .map(Duration::from_secs)
            .ok_or_else(wrong);
    }
    let duration: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}

/// Turns a duration into the contract's; one that is too long for it becomes the longest.
pub(crate) fn to_proto_duration(duration: Duration) -> prost_types::Duration {
    const LONGEST: prost_types::Duration = prost_types::Duration {
        seconds: 315_576_000_000,
        nanos: 0,
    };
    prost_types::Duration::try_from(duration).unwrap_or(LONGEST)
}

/// Shows a duration of the contract, in its two largest units.
pub(crate) fn duration(duration: Option<&prost_types::Duration>) -> String {
    duration.map_or_else(String::new, |duration| seconds(duration.seconds))
}

/// Shows a point in time as RFC 3339 in UTC, to the second.
pub(crate) fn time(time: Option<&prost_types::Timestamp>) -> String {
    timestamp(time).map_or_else(String::new, |time| {
        time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    })
}

/// Shows how long ago a point in time is.
pub(crate) fn ago(time: Option<&prost_types::Timestamp>, now: Timestamp) -> String {
    timestamp(time).map_or_else(String::new, |time| {
        format!("{} ago", seconds(now.duration_since(time).as_secs().max(0)))
    })
}

/// Shows how long it is until a point in time.
pub(crate) fn until(time: Option<&prost_types::Timestamp>, now: Timestamp) -> String {
    timestamp(time).map_or_else(String::new, |time| {
        let left = time.duration_since(now).as_secs();
        if left > 0 {
            format!("in {}", seconds(left))
        } else {
            "over".to_owned()
        }
    })
}

fn timestamp(time: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    time.and_then(|time| Timestamp::new(time.seconds, time.nanos).ok())
}

fn seconds(total: i64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let Some(first) = units.iter().position(|(size, _)| total >= *size) else {
        return "0s".to_owned();
    };
    let mut shown = String::new();
    let mut left = total;
    for (size, name) in units.iter().skip(first).take(2) {
        let count = left / size;
        left %= size;
        if count > 0 {
            // Writing into a string does not fail.
            let _ = write!(shown, "{count}{name}");
        }
    }
    shown
}

/// Shows the beginning of an object id.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..12).unwrap_or(id)
}

/// Shows the name of an enum's value without its prefix, in lower case; a number that this version does not know stays
/// a number.
pub(crate) fn enum_name(full: Option<&str>, prefix: &str, number: i32) -> String {
    match full {
        Some(full) => full
            .strip_prefix(prefix)
            .unwrap_or(full)
            .to_ascii_lowercase(),
        None => number.to_string(),
    }
}

/// Shows a size in bytes.
pub(crate) fn size(bytes: i64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes;
    let mut remainder = 0;
    let mut unit = "B";
    for next in UNITS {
        if value < 1024 {
            break;
        }
        remainder = value % 1024;
        value /= 1024;
        unit = next;
    }
    format!("{value}.{} {unit}", remainder * 10 / 1024)
}

/// Makes text from elsewhere fit for one line of a terminal: a title or a file's name could otherwise move the cursor,
/// or paint a line that looks like ours.
pub(crate) fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if is_harmful(c) { '\u{FFFD}' } else { c })
        .collect()
}

/// Like [`plain`], for text of several lines.
pub(crate) fn plain_lines(text: &str) -> String {
    text.chars()
        .map(|c| {
            if is_harmful(c) && c != '\n' && c != '\t' {
                '\u{FFFD}'
            } else {
                c
            }
        })
        .collect()
}

/// Shows a path of a repository, whose bytes may be anything.
pub(crate) fn path(bytes: &[u8]) -> String {
    plain(&String::from_utf8_lossy(bytes))
}

fn is_harmful(c: char) -> bool {
    // The second half: marks that turn the direction of writing.
    c.is_control()
        || matches!(c, '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("90s", 90),
            ("5m", 300),
            ("1h30m", 5400),
            ("3d", 259_200),
            ("0", 0),
            ("45", 45),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for text in ["", "soon", "-5m", "5x", "99999999999999999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_in_two_units() {
        for (total, shown) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m1s"),
            (3600, "1h"),
            (90_061, "1d1h"),
        ] {
            assert_eq!(seconds(total), shown);
        }
    }

    #[test]
    fn sizes_are_shown_with_their_unit() {
        for (bytes, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1536, "1.5 KiB"),
            (5 << 30, "5.0 GiB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
    }

    #[test]
    fn what_could_steer_a_terminal_is_not_shown() {
        assert_eq!(
            plain("a\u{1b}[2Jb\nc\u{202e}d"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d"
        );
        assert_eq!(plain_lines("a\n\tb\r"), "a\n\tb\u{fffd}");
        assert_eq!(path(b"ok \xff"), "ok \u{fffd}");
    }

    #[test]
    fn an_unknown_enum_value_stays_a_number() {
        assert_eq!(
            enum_name(Some("WORKTREE_STATE_HANDED_OFF"), "WORKTREE_STATE_", 4),
            "handed_off"
        );
        assert_eq!(enum_name(None, "WORKTREE_STATE_", 77), "77");
    }
}
