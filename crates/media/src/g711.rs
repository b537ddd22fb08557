//! G.711 as RTP carries it (RFC 3551, table 4 and section 4.5.14).

/// PCMU, the mu-law of G.711.
pub const PAYLOAD_TYPE: u8 = 0;

/// Samples a second, which is also the rate of the RTP clock.
pub const CLOCK_HZ: u32 = 8_000;

/// 20 ms, the default of RFC 3551 section 4.2, as samples.
pub const PACKET_SAMPLES: u32 = 160;

/// A sample is a byte.
pub const PAYLOAD_BYTES: usize = 160;

/// How long one packet speaks.
pub const PACKET_NS: u64 = 20_000_000;

/// Silence in mu-law: the positive zero of G.711 table 2a.
pub(crate) const SILENCE: u8 = 0xff;
