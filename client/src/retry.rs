//! How often and after how long a call is tried again.

use std::time::Duration;

/// How a call that may be repeated is repeated. Which calls those are is not decided here but by the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often a call is tried altogether, at least once.
    pub max_attempts: u32,
    /// The wait before the second try; it doubles from try to try, and part of it is random.
    pub initial_backoff: Duration,
    /// The longest wait, unless the server asks for more.
    pub max_backoff: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            initial_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Returns the policy that tries once.
    pub fn never() -> Self {
        Self {
            max_attempts: 1,
            ..Self::default()
        }
    }

    /// Returns the wait after the failed try of this number, from 1. `asked` is what the server asks for: waiting less
    /// would only be refused again.
    pub(crate) fn backoff(&self, attempt: u32, asked: Option<Duration>) -> Duration {
        self.backoff_with(attempt, asked, random_fraction())
    }

    fn backoff_with(&self, attempt: u32, asked: Option<Duration>, fraction: f64) -> Duration {
        let doublings = attempt.saturating_sub(1).min(20);
        let full = self
            .initial_backoff
            .saturating_mul(1 << doublings)
            .min(self.max_backoff);
        // Between half and all of it: callers that failed together do not come again together.
        let jittered = full.mul_f64(0.5 + fraction / 2.0);
        asked.map_or(jittered, |asked| asked.saturating_add(jittered))
    }
}

/// Returns a random number in 0..1, from the one source of randomness that the crate has anyway.
fn random_fraction() -> f64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    // The version bits of a UUID are low in this half: the upper 32 bits are random throughout.
    f64::from((high >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_limit() {
        let policy = RetryPolicy::default();
        let waits: Vec<_> = (1..=8)
            .map(|attempt| policy.backoff_with(attempt, None, 1.0).as_millis())
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(
            policy.backoff_with(u32::MAX, None, 0.0),
            policy.max_backoff / 2
        );
    }

    #[test]
    fn the_server_s_wait_is_never_cut_short() {
        let asked = Duration::from_secs(30);
        assert!(RetryPolicy::default().backoff(1, Some(asked)) > asked);
    }
}
