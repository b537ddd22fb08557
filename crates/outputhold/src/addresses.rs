//! The guest's addresses, learned from its own announcements.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Of a VLAN's tag (IEEE 802.1Q).
pub(crate) const ETHERTYPE_TAG: [u8; 2] = [0x81, 0x00];
/// Of the two bytes after it, those of the VLAN's number; the others are a priority.
const VLAN_BITS: u16 = 0x0fff;

/// More than any guest of ours has; a guest that claims more makes the oldest go.
const MOST_ADDRESSES: usize = 32;
/// The same of VLANs.
const MOST_VLANS: usize = 32;

#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct HardwareAddress(pub [u8; 6]);

/// A text that is no hardware address of one interface.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0:?} is no hardware address of an interface: write six bytes such as 52:54:00:12:34:56")]
pub struct HardwareAddressError(String);

impl FromStr for HardwareAddress {
    type Err = HardwareAddressError;

    fn from_str(text: &str) -> Result<Self, HardwareAddressError> {
        let wrong = || HardwareAddressError(text.to_owned());
        let mut bytes = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut bytes {
            let part = parts.next().ok_or_else(wrong)?;
            // The parser of numbers would take a sign.
            if part.len() != 2 || !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        // The lowest bit of the first byte marks a group, not an interface (IEEE 802).
        if parts.next().is_some() || bytes[0] & 1 == 1 || bytes == [0; 6] {
            return Err(wrong());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for HardwareAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(formatter, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

impl TryFrom<String> for HardwareAddress {
    type Error = HardwareAddressError;

    fn try_from(text: String) -> Result<Self, HardwareAddressError> {
        text.parse()
    }
}

impl From<HardwareAddress> for String {
    fn from(address: HardwareAddress) -> Self {
        address.to_string()
    }
}

/// IP addresses that the guest claimed by ARP or by neighbour discovery, and the VLANs that it tags frames for.
///
/// Only such claims count: the source of any other packet may be that of a host behind the guest. A standby
/// has seen none of the guest's frames, so the active member sends it what it learned.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub struct LearnedAddresses {
    /// Addresses in the order in which they were first claimed, without a tag.
    pub ipv4: Vec<Ipv4Addr>,
    /// Addresses in the order in which they were first claimed, without a tag.
    pub ipv6: Vec<Ipv6Addr>,
    /// In the order in which the guest first sent to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<VlanAddresses>,
}

/// A VLAN in which the guest is by its own tag (IEEE 802.1Q), and what it claimed there.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub struct VlanAddresses {
    /// The VLAN's number, 1 to 4094.
    pub vlan: u16,
    /// Addresses in the order in which they were first claimed there.
    pub ipv4: Vec<Ipv4Addr>,
    /// Addresses in the order in which they were first claimed there.
    pub ipv6: Vec<Ipv6Addr>,
}

impl LearnedAddresses {
    /// Learn from a frame that the guest with this hardware address sent. Most frames are told by two bytes.
    pub fn learn(&mut self, guest: HardwareAddress, frame: &[u8]) {
        let Some((header, packet)) = frame.split_first_chunk::<14>() else { return };
        if header[6..12] != guest.0 {
            return;
        }
        let kind = [header[12], header[13]];
        if kind != ETHERTYPE_TAG {
            return learn(guest, kind, packet, &mut self.ipv4, &mut self.ipv6);
        }
        let Some(([first, second, kind @ ..], packet)) = packet.split_first_chunk::<4>() else { return };
        match u16::from_be_bytes([*first, *second]) & VLAN_BITS {
            // A priority and no VLAN: as without a tag.
            0 => learn(guest, *kind, packet, &mut self.ipv4, &mut self.ipv6),
            // Reserved.
            VLAN_BITS => {}
            vlan => {
                let VlanAddresses { ipv4, ipv6, .. } = self.of_vlan(vlan);
                learn(guest, *kind, packet, ipv4, ipv6);
            }
        }
    }

    /// Learn what another member has learned.
    pub fn merge(&mut self, others: &Self) {
        remember_all(&mut self.ipv4, &others.ipv4);
        remember_all(&mut self.ipv6, &others.ipv6);
        // What came over a line may hold any number.
        for VlanAddresses { vlan, ipv4, ipv6 } in others.vlans.iter().filter(|one| (1..VLAN_BITS).contains(&one.vlan)) {
            let own = self.of_vlan(*vlan);
            remember_all(&mut own.ipv4, ipv4);
            remember_all(&mut own.ipv6, ipv6);
        }
    }

    fn of_vlan(&mut self, vlan: u16) -> &mut VlanAddresses {
        let known = self.vlans.iter().position(|one| one.vlan == vlan);
        let place = known.unwrap_or_else(|| {
            if self.vlans.len() == MOST_VLANS {
                self.vlans.remove(0);
            }
            self.vlans.push(VlanAddresses { vlan, ..VlanAddresses::default() });
            self.vlans.len() - 1
        });
        &mut self.vlans[place]
    }
}

fn learn(guest: HardwareAddress, kind: [u8; 2], packet: &[u8], ipv4: &mut Vec<Ipv4Addr>, ipv6: &mut Vec<Ipv6Addr>) {
    if kind == ETHERTYPE_ARP {
        if let Some(address) = claimed_by_arp(guest, packet) {
            remember(ipv4, address);
        }
    } else if kind == ETHERTYPE_IPV6
        && let Some(address) = claimed_by_neighbour_discovery(packet)
    {
        remember(ipv6, address);
    }
}

fn remember_all<T: PartialEq + Copy>(addresses: &mut Vec<T>, others: &[T]) {
    for address in others {
        remember(addresses, *address);
    }
}

fn remember<T: PartialEq>(addresses: &mut Vec<T>, address: T) {
    if addresses.contains(&address) {
        return;
    }
    if addresses.len() == MOST_ADDRESSES {
        addresses.remove(0);
    }
    addresses.push(address);
}

/// The sender of an ARP request or reply (RFC 826).
fn claimed_by_arp(guest: HardwareAddress, packet: &[u8]) -> Option<Ipv4Addr> {
    let packet = packet.first_chunk::<28>()?;
    let is_ethernet_and_ipv4 = packet[..6] == [0, 1, 8, 0, 6, 4];
    let is_request_or_reply = matches!(packet[6..8], [0, 1 | 2]);
    if !is_ethernet_and_ipv4 || !is_request_or_reply || packet[8..14] != guest.0 {
        return None;
    }
    let address = Ipv4Addr::new(packet[14], packet[15], packet[16], packet[17]);
    is_own(address.is_unspecified(), address.is_multicast() || address.is_broadcast()).then_some(address)
}

/// The target of a neighbour advertisement, or the source of a solicitation (RFC 4861, sections 4.3 and 4.4).
fn claimed_by_neighbour_discovery(packet: &[u8]) -> Option<Ipv6Addr> {
    const ICMPV6: u8 = 58;
    const SOLICITATION: u8 = 135;
    const ADVERTISEMENT: u8 = 136;
    let packet = packet.first_chunk::<64>()?;
    let from_this_link = packet[7] == 255;
    if packet[6] != ICMPV6 || !from_this_link {
        return None;
    }
    let address_at = match packet[40] {
        ADVERTISEMENT => 48,
        SOLICITATION => 8,
        _ => return None,
    };
    let address = Ipv6Addr::from(*packet[address_at..].first_chunk::<16>()?);
    is_own(address.is_unspecified(), address.is_multicast()).then_some(address)
}

fn is_own(is_unspecified: bool, is_of_a_group: bool) -> bool {
    !is_unspecified && !is_of_a_group
}
