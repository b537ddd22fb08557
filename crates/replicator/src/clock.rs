//! The one clock of a member: from the start of the machine, so that the members of one machine agree, and
//! also while the machine sleeps, so that a lease ends meanwhile.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine started.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Both are never negative on this clock.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Nanoseconds, for columns and counters.
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The wall clock, for people: nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanoseconds)
}
