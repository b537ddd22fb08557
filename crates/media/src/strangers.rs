//! What came and is no packet of any stream.

use serde::Serialize;

use crate::packet::Datagram;

/// How many datagrams there were of which kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Strangers {
    pub not_rtp: u64,
    /// RTP of somebody else.
    pub other_rtp: u64,
    pub rtcp: u64,
    /// With our sign, but what they say is not what was written.
    pub corrupted: u64,
    /// Of more streams than a receiver keeps in mind.
    pub of_too_many_streams: u64,
}

impl Strangers {
    pub fn total(&self) -> u64 {
        self.not_rtp + self.other_rtp + self.rtcp + self.corrupted + self.of_too_many_streams
    }

    pub(crate) fn count(&mut self, datagram: &Datagram) {
        match datagram {
            Datagram::NotRtp => self.not_rtp += 1,
            Datagram::OtherRtp => self.other_rtp += 1,
            Datagram::Rtcp => self.rtcp += 1,
            Datagram::Corrupted => self.corrupted += 1,
            Datagram::Ours(..) => {}
        }
    }
}
