//! What a rule looks at: the headers of an unfragmented UDP datagram.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};

/// The facts of a UDP datagram that rules are about.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Datagram {
    pub source_port: u16,
    pub destination_port: u16,
    /// The six upper bits of IPv4's type of service or IPv6's traffic class.
    pub dscp: u8,
    pub is_rtcp: bool,
}

impl Datagram {
    /// The datagram in an Ethernet frame, through up to three VLAN tags.
    ///
    /// `None` for all that is no UDP, for a fragment (the others of its packet have no ports), and for a
    /// frame with a header that cannot be read.
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let packet = SlicedPacket::from_ethernet(frame).ok()?;
        let dscp = match packet.net.as_ref()? {
            NetSlice::Ipv4(ipv4) => ipv4.header().dcp().value(),
            NetSlice::Ipv6(ipv6) => ipv6.header().dscp().value(),
            NetSlice::Arp(_) => return None,
        };
        // The parser gives no transport header of any fragment, not even of the first.
        let Some(TransportSlice::Udp(udp)) = packet.transport else { return None };
        Some(Self {
            source_port: udp.source_port(),
            destination_port: udp.destination_port(),
            dscp,
            is_rtcp: is_rtcp(udp.payload()),
        })
    }
}

/// Whether a payload is RTCP where RTP may share its port (RFC 5761, section 4: version 2 and a packet type
/// of 192 to 223, which RTP leaves free).
fn is_rtcp(payload: &[u8]) -> bool {
    matches!(payload, [first, packet_type, ..] if first >> 6 == 2 && (192..=223).contains(packet_type))
}
