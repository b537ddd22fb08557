//! When each packet is due.
//!
//! Everything follows from one start by integer arithmetic, so that the schedule cannot drift: packet *k* of stream
//! *i* of *n* is due 20 ms x (*k* + *i*/*n*) after the start. The streams are spread evenly over the 20 ms: a
//! machine that sends a thousand packets at one moment measures its own queue.

use crate::g711::PACKET_NS;

/// The schedule of all streams of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    start_ns: u64,
    streams: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    pub stream: u32,
    /// Which packet of its stream, from 0.
    pub index: u64,
    pub due_ns: u64,
}

impl Schedule {
    /// From this moment on, for so many streams (at least one).
    pub fn new(start_ns: u64, streams: u32) -> Self {
        Self { start_ns, streams: streams.max(1) }
    }

    /// The packet that is the `number`th of all, in the order in which they are due.
    pub fn slot(&self, number: u64) -> Slot {
        let streams = u64::from(self.streams);
        let (index, stream) = (number / streams, number % streams);
        let due_ns = self.start_ns + index * PACKET_NS + stream * PACKET_NS / streams;
        // It is below the number of streams.
        Slot { stream: u32::try_from(stream).unwrap_or(u32::MAX), index, due_ns }
    }

    /// How many packets all streams have in so many rounds.
    pub fn slots(&self, rounds: u64) -> u64 {
        rounds * u64::from(self.streams)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_stream_has_exactly_one_packet_each_20_ms(streams in 1_u32..5000, round in 0_u64..100_000_000) {
            let schedule = Schedule::new(7, streams);
            let first = schedule.slots(round);
            for stream in [0, streams / 2, streams - 1] {
                let slot = schedule.slot(first + u64::from(stream));
                prop_assert_eq!((slot.stream, slot.index), (stream, round));
                let next = schedule.slot(schedule.slots(round + 1) + u64::from(stream));
                prop_assert_eq!(next.due_ns - slot.due_ns, PACKET_NS);
            }
        }

        #[test]
        fn streams_are_spread_evenly(streams in 2_u32..5000, number in 0_u64..1_000_000) {
            let schedule = Schedule::new(0, streams);
            let step = schedule.slot(number + 1).due_ns - schedule.slot(number).due_ns;
            let even = PACKET_NS / u64::from(streams);
            prop_assert!((even..=even + 1).contains(&step), "{step} of {even}");
        }
    }

    #[test]
    fn a_hundred_days_later_it_is_still_to_the_nanosecond() {
        let schedule = Schedule::new(123, 3);
        let slot = schedule.slot(schedule.slots(100 * 86_400 * 50));
        assert_eq!(slot.due_ns - 123, 100 * 86_400 * 1_000_000_000);
    }
}
