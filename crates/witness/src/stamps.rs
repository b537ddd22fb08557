//! When a packet came, by `CLOCK_MONOTONIC`: from the kernel's stamp where there is one.

use std::fs;

use stealtime_probe::clock::{SampleClock, realtime_ns};
use xxhash_rust::xxh3::xxh3_64;

/// The real-time clock was set, not steered: the kernel steers it by at most 500 ppm, which is 1 ms in two seconds.
const STEP_NS: u64 = 1_000_000;

/// A reading of both clocks that took longer was interrupted.
const NARROW_NS: u64 = 1_000;

/// On a machine that interrupts all of them the best is taken.
const MOST_READINGS: u32 = 10;

/// A stamp that is older is not believed.
const OLDEST_NS: u64 = 10_000_000_000;

pub fn monotonic_ns() -> u64 {
    SampleClock::Monotonic.now()
}

/// A number that is the same exactly where `CLOCK_MONOTONIC` is the same clock: one boot of one kernel, and one time
/// namespace. None where the kernel does not tell.
pub fn clock_identity() -> Option<u64> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // Kernels without time namespaces have one clock only.
    let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    Some(xxh3_64(format!("{}\n{}", boot.trim(), monotonic_offset(&offsets)).as_bytes()))
}

fn monotonic_offset(offsets: &str) -> String {
    let line = offsets.lines().find(|line| line.starts_with("monotonic"));
    line.map_or("monotonic 0 0".to_owned(), |line| line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Brings the kernel's stamps, which are of `CLOCK_REALTIME`, to `CLOCK_MONOTONIC`.
#[derive(Debug, Default)]
pub struct Bridge {
    /// The one minus the other, modulo 2^64.
    offset_ns: Option<u64>,
    is_steady: bool,
    /// How often the real-time clock was set meanwhile.
    pub steps: u64,
    pub by_kernel: u64,
    pub by_process: u64,
}

/// When something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub monotonic_ns: u64,
    /// How much later the process got it than the kernel, where that is known.
    pub waited_ns: Option<u64>,
}

impl Bridge {
    /// Compares the clocks. To be called shortly before [`Bridge::arrival`]; gives the time.
    pub fn look(&mut self) -> u64 {
        let mut narrowest = (u64::MAX, 0, 0);
        for _ in 0..MOST_READINGS {
            let (before_ns, realtime_ns, after_ns) = (monotonic_ns(), realtime_ns(), monotonic_ns());
            let bracket_ns = after_ns - before_ns;
            narrowest = narrowest.min((bracket_ns, before_ns.midpoint(after_ns), realtime_ns));
            if bracket_ns < NARROW_NS {
                break;
            }
        }
        let (_, middle_ns, realtime_ns) = narrowest;
        self.compared(middle_ns, realtime_ns);
        monotonic_ns()
    }

    fn compared(&mut self, monotonic_ns: u64, realtime_ns: u64) {
        let offset_ns = realtime_ns.wrapping_sub(monotonic_ns);
        let moved_ns = self.offset_ns.map_or(0, |before_ns| offset_ns.wrapping_sub(before_ns).cast_signed());
        // What the kernel stamped before the clock was set cannot be brought over.
        self.is_steady = moved_ns.unsigned_abs() < STEP_NS;
        self.steps += u64::from(!self.is_steady);
        self.offset_ns = Some(offset_ns);
    }

    pub fn arrival(&mut self, stamp_ns: Option<u64>, now_ns: u64) -> Arrival {
        let stamp_ns = stamp_ns.zip(self.offset_ns).filter(|_| self.is_steady);
        let waited_ns = stamp_ns
            .map(|(stamp_ns, offset_ns)| now_ns.wrapping_sub(stamp_ns.wrapping_sub(offset_ns)).cast_signed())
            // The clocks are compared to some hundred nanoseconds, so that a stamp may seem to lie ahead.
            .and_then(|waited_ns| u64::try_from(if waited_ns > -10_000 { waited_ns.max(0) } else { waited_ns }).ok())
            .filter(|waited_ns| *waited_ns < OLDEST_NS);
        self.by_kernel += u64::from(waited_ns.is_some());
        self.by_process += u64::from(waited_ns.is_none());
        Arrival { monotonic_ns: now_ns - waited_ns.unwrap_or(0).min(now_ns), waited_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REALTIME_NS: u64 = 1_700_000_000_000_000_000;

    fn bridge() -> Bridge {
        let mut bridge = Bridge::default();
        bridge.compared(5_000_000_000, REALTIME_NS);
        bridge
    }

    #[test]
    fn a_stamp_of_the_kernel_is_brought_to_the_other_clock() {
        let mut bridge = bridge();
        let arrival = bridge.arrival(Some(REALTIME_NS - 300_000), 5_000_000_100);
        assert_eq!(arrival, Arrival { monotonic_ns: 4_999_700_000, waited_ns: Some(300_100) });
        assert_eq!((bridge.by_kernel, bridge.by_process), (1, 0));
    }

    #[test]
    fn without_a_stamp_or_with_one_that_cannot_be_it_is_the_processes_time() {
        let mut bridge = bridge();
        let stamps = [None, Some(REALTIME_NS + 1_000_000), Some(REALTIME_NS - 11_000_000_000), Some(0), Some(u64::MAX)];
        for stamp_ns in stamps {
            let arrival = bridge.arrival(stamp_ns, 5_000_000_100);
            assert_eq!(arrival, Arrival { monotonic_ns: 5_000_000_100, waited_ns: None }, "{stamp_ns:?}");
        }
        assert_eq!((bridge.by_kernel, bridge.by_process), (0, 5));
    }

    #[test]
    fn when_the_clock_was_set_stamps_are_not_believed_until_it_is_steady() {
        let mut bridge = bridge();
        // Two seconds ahead; a packet that was stamped before seems to have waited as long.
        bridge.compared(5_001_000_000, REALTIME_NS + 2_001_000_000);
        assert_eq!(bridge.arrival(Some(REALTIME_NS + 900_000), 5_001_000_000).waited_ns, None);
        bridge.compared(5_002_000_000, REALTIME_NS + 2_002_000_000);
        let arrival = bridge.arrival(Some(REALTIME_NS + 2_001_900_000), 5_002_000_000);
        assert_eq!((arrival.waited_ns, bridge.steps), (Some(100_000), 1));
    }

    #[test]
    fn one_kernel_is_one_clock_and_another_time_namespace_another() {
        assert!(clock_identity().is_some());
        assert_eq!(clock_identity(), clock_identity());
        let here = "monotonic           0         0\nboottime            0         0\n";
        assert_eq!(monotonic_offset(here), monotonic_offset(""));
        assert_ne!(monotonic_offset("monotonic      86400         0\n"), monotonic_offset(here));
    }
}
