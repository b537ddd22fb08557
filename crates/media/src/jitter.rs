//! Interarrival jitter (RFC 3550 section 6.4.1).

/// What a receiver's report would have as jitter.
///
/// For each packet that arrives, in order of arrival, *D* is by how much its transit time differs from that of the
/// one before; the jitter is a running mean of |*D*| with a gain of 1/16. RFC 3550 counts in units of the RTP clock;
/// here it is nanoseconds, whose truncation does not show.
#[derive(Debug, Clone, Copy, Default)]
pub struct Jitter {
    /// Of the packet before, in ns.
    transit: Option<i64>,
    /// In ns, as the other.
    mean: f64,
    max: f64,
}

impl Jitter {
    /// A packet came; its transit time is its arrival minus its timestamp, on clocks that need not agree.
    pub fn arrived(&mut self, transit_ns: i64) {
        if let Some(before_ns) = self.transit.replace(transit_ns) {
            let difference_ns = transit_ns.abs_diff(before_ns) as f64;
            self.mean += (difference_ns - self.mean) / 16.0;
            self.max = self.max.max(self.mean);
        }
    }

    /// As it is now, and the most it has been, in ns; None before there were two packets to compare.
    pub fn figures(&self) -> Option<(f64, f64)> {
        self.transit.map(|_| (self.mean, self.max))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The integer arithmetic of RFC 3550 appendix A.8, which keeps the jitter 16 times as large.
    #[derive(Default)]
    struct Appendix {
        transit: i64,
        jitter: i64,
    }

    impl Appendix {
        fn arrived(&mut self, transit: i64) {
            let difference = (transit - self.transit).abs();
            self.transit = transit;
            self.jitter += difference - ((self.jitter + 8) >> 4);
        }

        fn figure(&self) -> i64 {
            self.jitter >> 4
        }
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_appendix(transits in prop::collection::vec(0_i64..1_000_000_000, 1..500)) {
            let (mut jitter, mut appendix) = (Jitter::default(), Appendix { transit: transits[0], jitter: 0 });
            for &transit in &transits {
                jitter.arrived(transit);
                appendix.arrived(transit);
            }
            let (last_ns, _) = jitter.figures().unwrap();
            prop_assert!((last_ns - appendix.figure() as f64).abs() <= 2.0, "{last_ns} {}", appendix.figure());
        }
    }

    #[test]
    fn steady_packets_have_none_and_alternating_ones_their_difference() {
        let (mut steady, mut alternating) = (Jitter::default(), Jitter::default());
        assert_eq!(steady.figures(), None);
        for number in 0..1000_i64 {
            steady.arrived(-5_000);
            alternating.arrived(number % 2 * 800);
        }
        assert_eq!(steady.figures(), Some((0.0, 0.0)));
        assert!((alternating.figures().unwrap().0 - 800.0).abs() < 1e-6);
    }
}
