//! The deadlines that succession rests on.
//!
//! With clocks of equal rate, the active member stops releasing before the standby may claim: a heartbeat
//! sent at `s` arrives at `r >= s`; the active's lease ends at `s + active_deadline`, the standby claims from
//! `r + standby_timeout` on, and `active_deadline < standby_timeout`. No clock is compared with that of
//! another host.
//!
//! What leaves without an acknowledgement is all that a claim must wait for, and it has a shorter lease, of
//! which a claim waits with the same room for clocks of other rates. So a standby that knows by its closed
//! connection that nothing more will come need not wait for the rest of `standby_timeout`, which is patience
//! with a slow network.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Deadlines of both members; they must be the same on both sides.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// How often the active member sends a heartbeat.
    #[serde(rename = "heartbeat_interval_ns", with = "nanoseconds")]
    #[schemars(with = "u64")]
    pub heartbeat_interval: Duration,
    /// How long after sending the last heartbeat that was echoed the active member may release output.
    #[serde(rename = "active_deadline_ns", with = "nanoseconds")]
    #[schemars(with = "u64")]
    pub active_deadline: Duration,
    /// After how much silence the standby claims.
    #[serde(rename = "standby_timeout_ns", with = "nanoseconds")]
    #[schemars(with = "u64")]
    pub standby_timeout: Duration,
    /// How long a member without a standby may go on after it last looked into the register and found itself, and
    /// how long one that lost its standby waits for the register before it stops the guest.
    #[serde(rename = "register_deadline_ns", with = "nanoseconds")]
    #[schemars(with = "u64")]
    pub register_deadline: Duration,
}

/// Deadlines under which two members could be active, or none.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TimingError {
    #[error("{shorter} is {shorter_value:?}, which must be less than {longer}, {longer_value:?}")]
    Order {
        /// Name of the one that must be the shorter.
        shorter: &'static str,
        shorter_value: Duration,
        /// Name of the one that must be the longer.
        longer: &'static str,
        longer_value: Duration,
    },
    #[error("heartbeat_interval is 0, which leaves no time between heartbeats")]
    NoInterval,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_millis(25),
            active_deadline: Duration::from_millis(120),
            standby_timeout: Duration::from_millis(200),
            register_deadline: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Check that the deadlines are ordered as safety needs it.
    pub fn validate(&self) -> Result<(), TimingError> {
        if self.heartbeat_interval.is_zero() {
            return Err(TimingError::NoInterval);
        }
        let ordered = [
            ("heartbeat_interval", self.heartbeat_interval),
            ("active_deadline", self.active_deadline),
            ("standby_timeout", self.standby_timeout),
            ("register_deadline", self.register_deadline),
        ];
        for pair in ordered.windows(2) {
            let ((shorter, shorter_value), (longer, longer_value)) = (pair[0], pair[1]);
            if shorter_value >= longer_value {
                return Err(TimingError::Order { shorter, shorter_value, longer, longer_value });
            }
        }
        Ok(())
    }

    /// How often a holder without a standby looks into the register: several attempts fit into its lease.
    pub(crate) fn look_interval(&self) -> Duration {
        self.register_deadline / 4
    }

    /// How often a holder writes its record again without a reason: so rarely that a register which keeps a history, as
    /// etcd does, is not filled by it (100 machines, the default of 2 s, some 200 bytes each: 29 MB a day).
    pub(crate) fn renewal_interval(&self) -> Duration {
        self.register_deadline * 30
    }

    /// How often a standby looks whether its register answers.
    #[must_use]
    pub fn standby_look_interval(&self) -> Duration {
        self.register_deadline * 5
    }

    /// When to ask a register again that did not answer.
    pub(crate) fn retry_interval(&self) -> Duration {
        self.register_deadline / 20
    }

    /// How long a challenge must stand before the holder is taken for dead: longer than its lease.
    pub(crate) fn observation(&self) -> Duration {
        self.register_deadline * 3 / 2
    }

    /// How long after sending the last heartbeat that was echoed the active member may let out what was not
    /// acknowledged. Two heartbeats at least, so that one that is late holds nothing up.
    pub(crate) fn unacknowledged_deadline(&self) -> Duration {
        (self.active_deadline / 2).max(self.heartbeat_interval * 2).min(self.active_deadline)
    }

    /// After how long without a heartbeat nothing leaves the active member any more that was not acknowledged.
    pub(crate) fn unacknowledged_timeout(&self) -> Duration {
        let [deadline, lease, timeout] =
            [self.unacknowledged_deadline(), self.active_deadline, self.standby_timeout].map(|it| it.as_nanos());
        // No more than `standby_timeout`, since the deadline is no more than the lease.
        Duration::from_nanos(u64::try_from((deadline * timeout).div_ceil(lease)).unwrap_or(u64::MAX))
    }

    /// How long a standby leaves the register to an active member whose connection has closed: of two that
    /// live, the one with the newer state shall win.
    pub(crate) fn closed_grace(&self) -> Duration {
        self.heartbeat_interval * 2
    }
}

mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_ordered() {
        assert_eq!(Timing::default().validate(), Ok(()));
    }

    #[test]
    fn a_standby_that_may_claim_too_early_is_refused() {
        let timing = Timing { standby_timeout: Duration::from_millis(120), ..Timing::default() };
        let refusal = timing.validate().unwrap_err().to_string();
        assert_eq!(refusal, "active_deadline is 120ms, which must be less than standby_timeout, 120ms");
        let timing = Timing { heartbeat_interval: Duration::ZERO, ..Timing::default() };
        assert_eq!(timing.validate(), Err(TimingError::NoInterval));
    }

    #[test]
    fn what_was_not_acknowledged_has_a_shorter_lease_and_the_same_room_for_other_clocks() {
        let ms = Duration::from_millis;
        let leases = |timing: Timing| (timing.unacknowledged_deadline(), timing.unacknowledged_timeout());
        assert_eq!(leases(Timing::default()), (ms(60), ms(100)));
        let few_heartbeats = Timing { heartbeat_interval: ms(50), ..Timing::default() };
        assert_eq!(leases(few_heartbeats), (ms(100), Duration::from_nanos(166_666_667)), "never too short");
        let hardly_any = Timing { heartbeat_interval: ms(100), ..Timing::default() };
        assert_eq!(leases(hardly_any), (ms(120), ms(200)), "never longer than the lease of all output");
    }

    #[test]
    fn it_is_written_in_nanoseconds() {
        let text = serde_json::to_string(&Timing::default()).unwrap();
        assert!(text.contains("\"standby_timeout_ns\":200000000"), "{text}");
        assert_eq!(serde_json::from_str::<Timing>(&text).unwrap(), Timing::default());
    }
}
