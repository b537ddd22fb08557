//! What is announced and when, and which addresses are learned from what.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use stealtime_outputhold::{Announcement, HardwareAddress, LearnedAddresses, ROUNDS};

const GUEST: HardwareAddress = HardwareAddress([0x52, 0x54, 0, 0x12, 0x34, 0x56]);

fn addresses() -> LearnedAddresses {
    LearnedAddresses {
        ipv4: vec![Ipv4Addr::new(192, 0, 2, 10), Ipv4Addr::new(198, 51, 100, 7)],
        ipv6: vec!["fe80::5054:ff:fe12:3456".parse().unwrap(), "2001:db8::10".parse().unwrap()],
    }
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
    };
    learned.merge(&many);
    assert_eq!((learned.ipv4.len(), learned.ipv6.len()), (32, 32));
    assert_eq!(learned.ipv4.last(), many.ipv4.last(), "the newest stay");
    let text = serde_json::to_string(&addresses()).unwrap();
    assert_eq!(serde_json::from_str::<LearnedAddresses>(&text).unwrap(), addresses());
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
        kind in prop_oneof![Just([0x08, 0x06]), Just([0x86, 0xdd])],
        packet in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let frame = [&[0xff; 6], GUEST.0.as_slice(), &kind, &packet].concat();
        LearnedAddresses::default().learn(GUEST, &frame);
    }
}
