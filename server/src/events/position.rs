//! Positions: opaque to callers, of one log, and of one place in it.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use uuid::Uuid;

/// A place in the log: after the event of this sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The log.
    pub log_id: Uuid,
    /// The sequence; 0 before the first event.
    pub sequence: i64,
}

/// Why a watch or a page cannot start at a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    /// It is no position.
    #[error("{field} is not a position of this service")]
    Malformed {
        /// The field.
        field: &'static str,
    },
    /// It is of another log.
    #[error("the position is of another log; start from the beginning or with the initial state")]
    OtherLog,
    /// The log has not got there.
    #[error(
        "the position is ahead of the log (its last sequence is {head}): the log was put back to an older copy; start with the initial state"
    )]
    Ahead {
        /// The last sequence.
        head: i64,
    },
    /// The events after it are no longer kept.
    #[error(
        "the events after the position were compacted (the oldest kept is {oldest}); start with the initial state"
    )]
    Compacted {
        /// The oldest sequence kept, or the next one if none is.
        oldest: i64,
    },
}

impl Position {
    /// The token that callers get.
    pub fn token(self) -> String {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(self.log_id.as_bytes());
        bytes[16..].copy_from_slice(&self.sequence.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position that a token stands for, of whatever log.
    pub fn parse(token: &str) -> Result<Self, PositionError> {
        let malformed = PositionError::Malformed { field: "after" };
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|_| malformed.clone())?;
        let bytes: [u8; 24] = bytes.try_into().map_err(|_| malformed.clone())?;
        let (log_id, sequence) = bytes.split_at(16);
        let log_id = Uuid::from_slice(log_id).map_err(|_| malformed.clone())?;
        let sequence = i64::from_be_bytes(sequence.try_into().map_err(|_| malformed.clone())?);
        if sequence < 0 {
            return Err(malformed);
        }
        Ok(Self { log_id, sequence })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn tokens_round_trip_and_nonsense_is_refused() {
        for sequence in [0, 1, i64::MAX] {
            let position = Position {
                log_id: Uuid::new_v4(),
                sequence,
            };
            assert_eq!(Position::parse(&position.token()), Ok(position));
        }
        let negative = Position {
            log_id: Uuid::nil(),
            sequence: -1,
        };
        for token in ["", "x", "12", "!!!!", &"A".repeat(33), &negative.token()] {
            assert!(Position::parse(token).is_err(), "{token:?}");
        }
    }
}
