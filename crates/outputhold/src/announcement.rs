//! Telling the network that the guest is now behind this port.
//!
//! A reverse ARP request makes bridges and switches learn the way, as QEMU (`net/announce.c`) does after a
//! migration; a gratuitous ARP request (RFC 5227, section 2.3) and an unsolicited neighbour advertisement
//! (RFC 4861, section 7.2.6) tell hosts. They are sent without a tag, and with that of each VLAN which the guest tags
//! frames for: a switch learns the way in each of them by itself. They are output like any other: a member
//! whose standby may already have taken the machine must not call the network to itself, so they wait in the
//! hold too.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use etherparse::PacketBuilder;

use crate::addresses::{ETHERTYPE_TAG, HardwareAddress, LearnedAddresses, VlanAddresses};

/// When the rounds are sent, after the beginning: a frame may be lost, and a bridge may learn back from the
/// last frames of the old port. The first five are about QEMU's own. The later ones are for a bridge that
/// drops all frames of a port until its kernel has noticed that the port is up: on a busy host that takes
/// longer than a second, and a guest that waits to be asked would be out of reach until its clients ask for
/// its address anew, after half a minute.
pub const ROUNDS: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(150),
    Duration::from_millis(300),
    Duration::from_millis(550),
    Duration::from_millis(1_200),
    Duration::from_secs(3),
];

const BROADCAST: [u8; 6] = [0xff; 6];
/// The least Ethernet frame without its checksum.
const LEAST_FRAME_BYTES: usize = 60;

/// An announcement on its way: what to send, and when. It knows no clock, no hold and no device.
#[derive(Clone, Debug)]
pub struct Announcement {
    frames: Vec<Vec<u8>>,
    began: Duration,
    round: usize,
}

impl Announcement {
    /// Announce `guest` and its addresses; the first round is due at `now`.
    pub fn new(guest: HardwareAddress, addresses: &LearnedAddresses, now: Duration) -> Self {
        let LearnedAddresses { ipv4, ipv6, vlans } = addresses;
        let mut frames = told(guest, ipv4, ipv6);
        for VlanAddresses { vlan, ipv4, ipv6 } in vlans {
            frames.extend(told(guest, ipv4, ipv6).into_iter().map(|frame| tagged(*vlan, frame)));
        }
        Self { frames, began: now, round: 0 }
    }

    /// When the next round is due; `None` after the last one.
    pub fn deadline(&self) -> Option<Duration> {
        ROUNDS.get(self.round).map(|after| self.began + *after)
    }

    /// Take the frames of a round that is due at `now`; `None` if none is.
    pub fn take_round(&mut self, now: Duration) -> Option<&[Vec<u8>]> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.round += 1;
        Some(&self.frames)
    }
}

fn told(guest: HardwareAddress, ipv4: &[Ipv4Addr], ipv6: &[Ipv6Addr]) -> Vec<Vec<u8>> {
    let mut frames = vec![reverse_arp(guest)];
    frames.extend(ipv4.iter().map(|address| gratuitous_arp(guest, *address)));
    frames.extend(ipv6.iter().filter_map(|address| neighbour_advertisement(guest, *address)));
    frames
}

/// The frame with a VLAN's tag behind both addresses (IEEE 802.1Q).
fn tagged(vlan: u16, mut frame: Vec<u8>) -> Vec<u8> {
    let [tag, number] = [ETHERTYPE_TAG, vlan.to_be_bytes()];
    frame.splice(12..12, tag.into_iter().chain(number));
    frame
}

fn ethernet(destination: [u8; 6], source: HardwareAddress, ether_type: u16) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LEAST_FRAME_BYTES);
    frame.extend_from_slice(&destination);
    frame.extend_from_slice(&source.0);
    frame.extend_from_slice(&ether_type.to_be_bytes());
    frame
}

/// The packet of RFC 826 and RFC 903, for Ethernet and IPv4.
fn address_resolution(
    ether_type: u16,
    operation: u16,
    sender: (HardwareAddress, Ipv4Addr),
    target: ([u8; 6], Ipv4Addr),
) -> Vec<u8> {
    let mut frame = ethernet(BROADCAST, sender.0, ether_type);
    frame.extend_from_slice(&[0, 1, 8, 0, 6, 4]);
    frame.extend_from_slice(&operation.to_be_bytes());
    frame.extend_from_slice(&sender.0.0);
    frame.extend_from_slice(&sender.1.octets());
    frame.extend_from_slice(&target.0);
    frame.extend_from_slice(&target.1.octets());
    frame.resize(LEAST_FRAME_BYTES, 0);
    frame
}

fn reverse_arp(guest: HardwareAddress) -> Vec<u8> {
    address_resolution(0x8035, 3, (guest, Ipv4Addr::UNSPECIFIED), (guest.0, Ipv4Addr::UNSPECIFIED))
}

fn gratuitous_arp(guest: HardwareAddress, address: Ipv4Addr) -> Vec<u8> {
    address_resolution(0x0806, 1, (guest, address), ([0; 6], address))
}

/// `None` if the packet cannot be built, which its fixed size rules out.
fn neighbour_advertisement(guest: HardwareAddress, address: Ipv6Addr) -> Option<Vec<u8>> {
    const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    const ALL_NODES_ETHERNET: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
    const ADVERTISEMENT: u8 = 136;
    const OVERRIDE: [u8; 4] = [0x20, 0, 0, 0];
    const TARGET_LINK_LAYER_ADDRESS: [u8; 2] = [2, 1];
    let mut payload = address.octets().to_vec();
    payload.extend_from_slice(&TARGET_LINK_LAYER_ADDRESS);
    payload.extend_from_slice(&guest.0);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(guest.0, ALL_NODES_ETHERNET)
        .ipv6(address.octets(), ALL_NODES.octets(), 255)
        .icmpv6_raw(ADVERTISEMENT, 0, OVERRIDE)
        .write_to_vec(&mut frame, &payload)
        .ok()?;
    Some(frame)
}
