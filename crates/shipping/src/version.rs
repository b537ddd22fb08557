//! Which version of the protocol two hosts speak: the newest that both know, of two that follow each other, so that
//! one host may be updated after the other while their machines stay protected.
//!
//! Over TLS it is agreed upon in the handshake (ALPN, RFC 7301). Both ends of a socket file are of one installation.

/// A version of everything in this crate that goes over the line. Any change of it is a new version, and so is any
/// change of what one member may infer from the silence of the other.
///
/// | version | since then |
/// | -- | -- |
/// | 5 | the last that two hosts do not agree upon |
/// | 6 | ALPN; [`Refusal::Busy`](crate::Refusal::Busy), [`Message::Call`](crate::Message::Call) |
/// |   | a machine has a longest hold and an order of copies |
/// |   | [`Refusal::Leaving`](crate::Refusal::Leaving), [`Message::Leaving`](crate::Message::Leaving) |
/// |   | a machine has disks ([`Message::DiskWrites`](crate::Message::DiskWrites)), or is refused |
/// |   | [`Message::Comparison`](crate::Message::Comparison) |
/// |   | [`Message::Addresses`](crate::Message::Addresses) tells of VLANs |
/// |   | [`Inquire`](crate::Inquire) asks who lives, or on an offer, and [`Told`](crate::Told) says it |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProtocolVersion(u16);

impl ProtocolVersion {
    pub const NEWEST: Self = Self(6);
    pub const PREVIOUS: Self = Self(5);

    /// What a host speaks that names none.
    const UNNAMED: Self = Self(5);

    /// The best one first.
    const SPOKEN: [Self; 2] = [Self::NEWEST, Self::PREVIOUS];

    pub const fn number(self) -> u16 {
        self.0
    }

    /// The names of all that this host speaks, for both sides of a handshake.
    pub(crate) fn alpn_names() -> Vec<Vec<u8>> {
        Self::SPOKEN.iter().map(|version| version.alpn_name()).collect()
    }

    /// What a handshake has agreed upon; None if this host does not speak it.
    pub(crate) fn agreed(alpn_name: Option<&[u8]>) -> Option<Self> {
        Self::SPOKEN.into_iter().find(|version| match alpn_name {
            Some(name) => name == version.alpn_name(),
            None => *version == Self::UNNAMED,
        })
    }

    fn alpn_name(self) -> Vec<u8> {
        format!("stealtime-replicator/{}", self.0).into_bytes()
    }
}

impl Default for ProtocolVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_agreed_upon_is_one_of_the_two() {
        assert_eq!(ProtocolVersion::agreed(Some(b"stealtime-replicator/6")), Some(ProtocolVersion::NEWEST));
        assert_eq!(ProtocolVersion::agreed(Some(b"stealtime-replicator/5")), Some(ProtocolVersion::PREVIOUS));
        assert_eq!(ProtocolVersion::agreed(None), Some(ProtocolVersion::PREVIOUS));
        assert_eq!(ProtocolVersion::agreed(Some(b"stealtime-replicator/4")), None);
        assert_eq!(ProtocolVersion::agreed(Some(b"h2")), None);
    }

    #[test]
    fn the_two_follow_each_other() {
        assert_eq!(ProtocolVersion::PREVIOUS.number() + 1, ProtocolVersion::NEWEST.number());
        assert_eq!(ProtocolVersion::alpn_names()[0], b"stealtime-replicator/6");
    }
}
