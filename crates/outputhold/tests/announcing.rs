//! What is announced and when, and which addresses are learned from what.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use stealtime_outputhold::{Announcement, HardwareAddress, LearnedAddresses, ROUNDS, VlanAddresses};

const GUEST: HardwareAddress = HardwareAddress([0x52, 0x54, 0, 0x12, 0x34, 0x56]);

fn addresses() -> LearnedAddresses {
    LearnedAddresses {
        ipv4: vec![Ipv4Addr::new(192, 0, 2, 10), Ipv4Addr::new(198, 51, 100, 7)],
        ipv6: vec!["fe80::5054:ff:fe12:3456".parse().unwrap(), "2001:db8::10".parse().unwrap()],
        vlans: Vec::new(),
    }
}

fn addresses_in_vlans() -> LearnedAddresses {
    let silent = VlanAddresses { vlan: 4094, ..VlanAddresses::default() };
    let addressed = VlanAddresses {
        vlan: 20,
        ipv4: vec![Ipv4Addr::new(203, 0, 113, 5)],
        ipv6: vec!["2001:db8:20::10".parse().unwrap()],
    };
    LearnedAddresses { vlans: vec![silent, addressed], ..addresses() }
}

#[test]
fn who_hears_an_announcement_learns_the_addresses_in_it() {
    let mut announcement = Announcement::new(GUEST, &addresses(), Duration::ZERO);
    let frames = announcement.take_round(Duration::ZERO).unwrap().to_vec();
    assert_eq!(frames.len(), 5, "one for bridges, and one an address");
    let mut heard = LearnedAddresses::default();
    for frame in &frames {
        assert!(frame.len() >= 60, "no frame is shorter than Ethernet's least");
        heard.learn(GUEST, frame);
    }
    assert_eq!(heard, addresses());
}

#[test]
fn each_vlan_that_the_guest_tags_frames_for_is_told_by_a_tag() {
    let mut announcement = Announcement::new(GUEST, &addresses_in_vlans(), Duration::ZERO);
    let frames = announcement.take_round(Duration::ZERO).unwrap().to_vec();
    let tag_of = |frame: &Vec<u8>| SlicedPacket::from_ethernet(frame).unwrap().vlan_ids().first().map(|id| id.value());
    let tags: Vec<_> = frames.iter().map(tag_of).collect();
    assert_eq!(tags[..5], [None; 5], "what is without a tag stays so");
    assert_eq!(tags[5..], [Some(4094), Some(20), Some(20), Some(20)], "one for switches in each, and one an address");
    let mut heard = LearnedAddresses::default();
    for frame in &frames {
        assert!(frame.len() >= if tag_of(frame).is_some() { 64 } else { 60 });
        heard.learn(GUEST, frame);
    }
    assert_eq!(heard, addresses_in_vlans());
}

#[test]
fn a_tag_without_a_vlan_is_none_and_a_reserved_one_is_not_learned() {
    let mut announcement = Announcement::new(GUEST, &addresses_in_vlans(), Duration::ZERO);
    let frame = announcement.take_round(Duration::ZERO).unwrap()[7].clone();
    let heard_of = |tag: u16| {
        let mut changed = frame.clone();
        changed[14..16].copy_from_slice(&tag.to_be_bytes());
        let mut heard = LearnedAddresses::default();
        heard.learn(GUEST, &changed);
        heard
    };
    let only_a_priority = heard_of(0xe000);
    assert_eq!((only_a_priority.ipv4.len(), only_a_priority.vlans.len()), (1, 0));
    assert_eq!(heard_of(0x0fff), LearnedAddresses::default());
    assert_eq!(heard_of(0xe014).vlans[0].vlan, 20, "with a priority before it");
}

#[test]
fn a_neighbour_advertisement_is_one_that_hosts_accept() {
    let mut announcement = Announcement::new(GUEST, &addresses(), Duration::ZERO);
    let frames = announcement.take_round(Duration::ZERO).unwrap().to_vec();
    let packet = SlicedPacket::from_ethernet(&frames[3]).unwrap();
    let Some(NetSlice::Ipv6(ipv6)) = &packet.net else { panic!("{packet:?}") };
    let (source, destination) = (ipv6.header().source(), ipv6.header().destination());
    assert_eq!(ipv6.header().hop_limit(), 255, "a host drops others (RFC 4861, section 7.1.2)");
    let Some(TransportSlice::Icmpv6(message)) = &packet.transport else { panic!("{packet:?}") };
    assert!(message.is_checksum_valid(source, destination));
    assert_eq!((message.type_u8(), message.bytes5to8()), (136, [0x20, 0, 0, 0]), "unsolicited, overrides");
    assert_eq!(message.payload()[16..], [2, 1, 0x52, 0x54, 0, 0x12, 0x34, 0x56]);
}

#[test]
fn rounds_are_due_at_their_times_and_end() {
    let began = Duration::from_secs(100);
    let mut announcement = Announcement::new(GUEST, &addresses(), began);
    for after in ROUNDS {
        assert_eq!(announcement.deadline(), Some(began + after));
        let just_before = (began + after).saturating_sub(Duration::from_nanos(1));
        assert_eq!(announcement.take_round(just_before), None, "not before its time");
        assert_eq!(announcement.take_round(began + after).unwrap().len(), 5);
    }
    assert_eq!(announcement.deadline(), None);
    assert_eq!(announcement.take_round(began + Duration::from_secs(60)), None);
}

#[test]
fn only_what_the_guest_claims_for_itself_is_learned() {
    let mut announcement = Announcement::new(GUEST, &addresses(), Duration::ZERO);
    let frames = announcement.take_round(Duration::ZERO).unwrap().to_vec();
    let other = HardwareAddress([0x52, 0x54, 0, 0, 0, 9]);
    let mut learned = LearnedAddresses::default();
    for frame in &frames {
        learned.learn(other, frame);
        let mut forwarded = frame.clone();
        // The sender within the packet is another host.
        forwarded[22..28].copy_from_slice(&other.0);
        if frame[12..14] == [0x08, 0x06] {
            learned.learn(GUEST, &forwarded);
        }
    }
    assert_eq!(learned, LearnedAddresses::default());
    let mut probe = frames[1].clone();
    probe[28..32].fill(0);
    learned.learn(GUEST, &probe);
    assert_eq!(learned, LearnedAddresses::default(), "a probe claims nothing yet (RFC 5227)");
}

#[test]
fn a_guest_that_claims_the_whole_network_is_not_followed_without_end() {
    let mut learned = LearnedAddresses::default();
    let many = LearnedAddresses {
        ipv4: (0..200).map(|number| Ipv4Addr::new(192, 0, 2, number)).collect(),
        ipv6: (0..200).map(|number| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number)).collect(),
        vlans: (1..200).map(|vlan| VlanAddresses { vlan, ..VlanAddresses::default() }).collect(),
    };
    learned.merge(&many);
    assert_eq!((learned.ipv4.len(), learned.ipv6.len(), learned.vlans.len()), (32, 32, 32));
    assert_eq!(learned.ipv4.last(), many.ipv4.last(), "the newest stay");
    for known in [addresses(), addresses_in_vlans()] {
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(serde_json::from_str::<LearnedAddresses>(&text).unwrap(), known);
    }
}

#[test]
fn hardware_addresses_are_read_as_they_are_written() {
    assert_eq!("52:54:00:12:34:56".parse(), Ok(GUEST));
    assert_eq!(GUEST.to_string(), "52:54:00:12:34:56");
    for wrong in
        ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "5:54:00:12:34:56", "52:54:00:12:34:5g", "+4:54:00:12:34:56"]
    {
        let error = wrong.parse::<HardwareAddress>().unwrap_err();
        assert!(error.to_string().starts_with(&format!("{wrong:?} is no hardware address")), "{error}");
    }
    assert!("53:54:00:12:34:56".parse::<HardwareAddress>().is_err(), "a group");
    assert!("00:00:00:00:00:00".parse::<HardwareAddress>().is_err());
}

proptest! {
    #[test]
    fn any_bytes_are_learned_from_without_a_panic(
        kind in prop_oneof![Just([0x08, 0x06]), Just([0x86, 0xdd]), Just([0x81, 0x00])],
        packet in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let frame = [&[0xff; 6], GUEST.0.as_slice(), &kind, &packet].concat();
        LearnedAddresses::default().learn(GUEST, &frame);
    }
}
