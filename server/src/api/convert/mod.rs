//! Between the contract's messages and the values inside: the generated types stop here.

pub(crate) mod handoff;
pub(crate) mod outcome;
pub(crate) mod save;
pub(crate) mod worktree;

use jiff::Timestamp;

/// The message of a point in time.
pub(crate) fn timestamp(time: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    }
}

/// The message of a time in whole seconds since the epoch.
pub(crate) fn seconds(seconds: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds, nanos: 0 }
}

/// The message of a duration.
pub(crate) fn duration(duration: std::time::Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// A count as the contract has it.
pub(crate) fn count(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
