//! What one sender has to say, from the command line to its last closing report.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use stealtime_console::quantities::nanoseconds;
use stealtime_media::{Numbers, PACKET_NS, numbers};

use crate::placing::place;
use crate::rtp::sending::{Origin, Sending};
use crate::rtp::settings::{Placement, Speaking};
use crate::rtp::sockets::Outgoing;
use crate::stamps::monotonic_ns;

pub struct Speech {
    outgoing: Outgoing,
    numbers: Vec<Numbers>,
    origin: Origin,
    /// Of each stream.
    packets: u64,
    lead_ns: u64,
}

/// A speech that was given, or broken off.
pub struct Said {
    pub sending: Sending,
    started_ns: u64,
    ended_ns: u64,
}

impl Speech {
    /// To begin so long after it is said.
    pub fn new(speaking: &Speaking, outgoing: Outgoing, clock: u64, lead: Duration) -> Result<Self> {
        let number = RandomState::new().hash_one(std::process::id());
        let mut numbers = numbers(number, u32::try_from(outgoing.destinations.len())?);
        if let Some(sequence) = speaking.first_sequence {
            for numbers in &mut numbers {
                numbers.sequence = sequence;
            }
        }
        let origin = Origin { number, clock, grain_ns: nanoseconds(speaking.grain)? };
        let packets = nanoseconds(speaking.duration)?.div_ceil(PACKET_NS).max(1);
        Ok(Self { outgoing, numbers, origin, packets, lead_ns: nanoseconds(lead)? })
    }

    /// Says it in this thread. The first interruption ends the voice, the second one the closing reports too.
    pub fn say(self, placement: &Placement, interruptions: &AtomicU32, show: impl FnMut(&Sending)) -> Result<Said> {
        place(placement.cpu, placement.priority)?;
        let started_ns = monotonic_ns() + self.lead_ns;
        let mut sending = Sending::new(self.outgoing, self.numbers, self.origin, started_ns)?;
        let stop = || interruptions.load(Ordering::Relaxed) > 0;
        let halt = || interruptions.load(Ordering::Relaxed) > 1;
        sending.run(self.packets, &stop, &halt, show);
        Ok(Said { sending, started_ns, ended_ns: monotonic_ns() })
    }
}

impl Said {
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }
}
