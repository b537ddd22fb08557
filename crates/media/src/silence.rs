//! The longest time in which nothing came.

use serde::Serialize;

/// From one packet to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Silence {
    /// When the last packet before it came, by the receiver's `CLOCK_MONOTONIC`.
    pub start_monotonic_ns: u64,
    pub length_ns: u64,
    /// Whether a packet ended it; if not, it was still silent when the receiver stopped.
    pub ended: bool,
}

/// Watches for the longest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Longest {
    last_ns: Option<u64>,
    longest: Option<Silence>,
}

impl Longest {
    pub fn arrived(&mut self, now_ns: u64) {
        self.longest = self.with(now_ns, true);
        // Kernels of several CPUs may stamp two packets a little out of order.
        self.last_ns = Some(self.last_ns.map_or(now_ns, |last_ns| last_ns.max(now_ns)));
    }

    /// The longest, with the one that may be going on.
    pub fn until(&self, now_ns: u64) -> Option<Silence> {
        self.with(now_ns, false)
    }

    /// The longest of those that have ended.
    pub fn ended(&self) -> Option<Silence> {
        self.longest
    }

    fn with(&self, now_ns: u64, ended: bool) -> Option<Silence> {
        let Some(start_monotonic_ns) = self.last_ns else { return self.longest };
        let silence = Silence { start_monotonic_ns, length_ns: now_ns.saturating_sub(start_monotonic_ns), ended };
        Some(self.longest.filter(|longest| longest.length_ns >= silence.length_ns).unwrap_or(silence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_is_kept_with_its_start() {
        let mut longest = Longest::default();
        assert_eq!(longest.until(9), None);
        for now_ns in [100, 120, 370, 390, 395] {
            longest.arrived(now_ns);
        }
        let kept = Silence { start_monotonic_ns: 120, length_ns: 250, ended: true };
        assert_eq!(longest.until(400), Some(kept));
        assert_eq!(longest.until(700), Some(Silence { start_monotonic_ns: 395, length_ns: 305, ended: false }));
        assert_eq!(longest.ended(), Some(kept));
    }

    #[test]
    fn stamps_that_are_out_of_order_make_no_silence() {
        let mut longest = Longest::default();
        for now_ns in [100, 90, 101] {
            longest.arrived(now_ns);
        }
        assert_eq!(longest.ended().map(|silence| silence.length_ns), Some(1));
    }
}
