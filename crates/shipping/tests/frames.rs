//! Messages and frames against everything that can come over a line.

use proptest::collection::vec;
use proptest::prelude::*;
use stealtime_disk::BlockDigest;
use stealtime_shipping::frame::{FrameKind, HEADER_BYTES, PAYLOAD_LIMIT_BYTES};
use stealtime_shipping::{
    Acknowledge, Addresses, AddressesInVlan, Comparison, Confirmed, CopyHeld, DevicePiece, DiskDigests, DiskPiece,
    DiskWanted, EncodedFrame, EpochBegin, EpochEnd, FrameDecoder, FrameError, Heartbeat, Hello, Image, Inquire,
    Leaving, Living, Message, MessageError, Offer, PageBatch, Protected, ProtocolVersion, RamBlock, Refusal, Resign,
    Told, Verdict, Welcome,
};
use stealtime_succession::{Epoch, MemberId, Term};

use crate::streams::{bytes_of, messages_of, two_epochs};

fn hello(term: Term, vm: &str, memory_bytes: u64) -> Hello {
    Hello {
        term,
        host: "a".to_owned(),
        member: MemberId::new("a", 1),
        renewals: memory_bytes / 3,
        qemu_version: "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)".to_owned(),
        firmware: Some(Image { path: "bios-256k.bin".to_owned(), sha256: "00ff".to_owned() }),
        ram_blocks: vec![RamBlock { name: "pc.ram".to_owned(), bytes: memory_bytes }],
        wants_delta: true,
        specification: serde_json::json!({"version": 1, "vm": vm}),
    }
}

fn messages() -> impl Strategy<Value = Message> {
    let body = || vec(any::<u8>(), 0..200);
    let numbers = || (any::<u64>().prop_map(Term), any::<u64>().prop_map(Epoch));
    prop_oneof![
        (numbers(), ".{0,40}", any::<u64>())
            .prop_map(|((term, _), vm, bytes)| Message::Hello(Box::new(hello(term, &vm, bytes)))),
        (numbers(), ".{0,40}", any::<bool>()).prop_map(|((term, _), host, delta)| {
            let qemu_version = delta.then(|| "7.2.22".to_owned());
            Message::Welcome(Welcome { term, member: MemberId::new(&host, 7), host, delta, qemu_version })
        }),
        (numbers(), ".{0,40}").prop_map(|((term, _), reason)| {
            let refusal = Refusal::Other { reason, hint: "try again".to_owned() };
            Message::Refuse { term, refusal }
        }),
        (numbers(), any::<u64>(), any::<Option<u64>>())
            .prop_map(|((term, _), sent_ns, echo_ns)| { Message::Heartbeat(Heartbeat { term, sent_ns, echo_ns }) }),
        (numbers(), any::<bool>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |((term, epoch), full, pages, device_bytes, disk_bytes)| {
                Message::EpochBegin(EpochBegin { term, epoch, full, pages, device_bytes, disk_bytes })
            }
        ),
        (numbers(), body()).prop_map(|((term, epoch), body)| Message::Pages(PageBatch { term, epoch, body })),
        (numbers(), body()).prop_map(|((term, epoch), content)| Message::Devices(DevicePiece { term, epoch, content })),
        (numbers(), body()).prop_map(|((term, epoch), content)| Message::DiskWrites(DiskPiece {
            term,
            epoch,
            content
        })),
        (numbers(), any::<u8>(), any::<u64>(), vec(any::<[u8; 16]>(), 0..4)).prop_map(
            |((term, _), disk, first, digests)| {
                let digests = digests.into_iter().map(BlockDigest).collect();
                Message::DiskDigests(DiskDigests { term, disk, first, digests })
            }
        ),
        (numbers(), any::<u8>(), vec(any::<u64>(), 0..4))
            .prop_map(|((term, _), disk, blocks)| Message::DiskWanted(DiskWanted { term, disk, blocks })),
        (numbers(), vec(any::<(u64, u64)>(), 0..4), vec(any::<(u8, u64, [u8; 16])>(), 0..4)).prop_map(
            |((term, epoch), pages, blocks)| {
                let blocks = blocks.into_iter().map(|(disk, block, digest)| (disk, block, BlockDigest(digest)));
                Message::Comparison(Comparison { term, epoch, pages, blocks: blocks.collect() })
            }
        ),
        (numbers(), any::<u64>()).prop_map(|((term, epoch), digest)| Message::EpochEnd(EpochEnd {
            term,
            epoch,
            digest
        })),
        numbers().prop_map(|(term, epoch)| Message::Acknowledge(Acknowledge { term, epoch })),
        (numbers(), vec(any::<[u8; 4]>(), 0..4), vec(any::<[u8; 16]>(), 0..4), vec(1..4095_u16, 0..3)).prop_map(
            |((term, _), ipv4, ipv6, vlans)| {
                let ipv4: Vec<_> = ipv4.into_iter().map(Into::into).collect();
                let ipv6: Vec<_> = ipv6.into_iter().map(Into::into).collect();
                let in_vlan = |vlan| AddressesInVlan { vlan, ipv4: ipv4.clone(), ipv6: ipv6.clone() };
                let vlans = vlans.into_iter().map(in_vlan).collect();
                Message::Addresses(Addresses { term, ipv4, ipv6, vlans })
            }
        ),
        numbers().prop_map(|(term, _)| Message::CopyHeld(CopyHeld { term })),
        numbers().prop_map(|(term, _)| Message::Protected(Protected { term })),
        (numbers(), any::<Option<String>>())
            .prop_map(|((term, _), port_fault)| { Message::Confirmed(Confirmed { term, port_fault }) }),
        (numbers(), ".{0,40}", any::<bool>()).prop_map(|((term, _), vm, wants_living)| {
            let (host, member) = ("a".to_owned(), MemberId::new("b", 7));
            let offer =
                Offer { qemu_version: vm.clone(), firmware: None, specification: serde_json::json!({"memory": 7}) };
            Message::Inquire(Inquire { term, host, vm, member, wants_living, offer: (!wants_living).then_some(offer) })
        }),
        (numbers(), any::<bool>()).prop_map(|((term, known), is_over)| {
            let living = Living { member: MemberId::new("b", 9), term: Term(known.0), role: "standby".to_owned() };
            let refusal = Refusal::Leaving { host: "b".to_owned() };
            let verdict = if is_over { Verdict::Takes } else { Verdict::Refuses(refusal) };
            Message::Told(Told { term, is_over, living: (!is_over).then_some(living), verdict: Some(verdict) })
        }),
        (numbers(), any::<bool>()).prop_map(|((term, _), is_leaving)| Message::Leaving(Leaving { term, is_leaving })),
        numbers().prop_map(|(term, last)| Message::Resign(Resign { term, last })),
        numbers().prop_map(|(term, _)| Message::Call { term }),
        numbers().prop_map(|(term, _)| Message::Bye { term }),
    ]
}

proptest! {
    #[test]
    fn messages_come_back_however_the_stream_is_cut(
        sent in vec(messages(), 0..8),
        sizes in vec(1..200_usize, 1..8),
    ) {
        let frames: Vec<_> = sent.iter().map(|message| message.encode().unwrap()).collect();
        let bytes = bytes_of(&frames);
        let mut decoder = FrameDecoder::default();
        let mut came = Vec::new();
        let mut rest = bytes.as_slice();
        for &size in sizes.iter().cycle() {
            let (piece, after) = rest.split_at(size.min(rest.len()));
            decoder.feed(piece);
            while let Some(frame) = decoder.next_frame().unwrap() {
                came.push(Message::decode(frame).unwrap());
            }
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(came, sent);
        prop_assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn any_bytes_are_messages_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let (messages, end) = messages_of(&bytes);
        prop_assert!(messages.is_empty(), "nobody guesses a checksum");
        prop_assert_eq!(end.is_ok(), bytes.is_empty());
    }
}

#[test]
fn a_stream_cut_at_any_byte_gives_whole_messages_and_says_that_it_was_cut() {
    let epochs = two_epochs();
    let bytes = bytes_of(&epochs.second);
    let (whole, end) = messages_of(&bytes);
    end.unwrap();
    let mut ends = vec![0];
    for frame in &epochs.second {
        ends.push(ends.last().unwrap() + frame.as_bytes().len());
    }
    for cut in 0..bytes.len() {
        let (messages, end) = messages_of(&bytes[..cut]);
        assert_eq!(messages, whole[..messages.len()], "cut at {cut}");
        if ends.contains(&cut) {
            end.unwrap();
        } else {
            let error = end.unwrap_err();
            assert!(matches!(error, MessageError::Frame(FrameError::Truncated { .. })), "cut at {cut}: {error}");
        }
    }
}

#[test]
fn every_flipped_bit_is_refused() {
    let bytes = bytes_of(&two_epochs().second);
    let (whole, _) = messages_of(&bytes);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let (messages, end) = messages_of(&damaged);
        end.expect_err(&format!("bit {bit} was flipped"));
        assert_eq!(messages, whole[..messages.len()], "bit {bit} was flipped");
    }
}

#[test]
fn a_peer_of_another_version_is_named_before_anything_else_is_judged() {
    let frame = Message::Bye { term: Term(1) }.encode().unwrap();
    let mut bytes = frame.as_bytes().to_vec();
    bytes[4] = 9;
    let (_, end) = messages_of(&bytes);
    let error = end.unwrap_err();
    let ours = ProtocolVersion::NEWEST.number();
    assert_eq!(error.to_string(), format!("the peer speaks version 9 of the protocol, and this host version {ours}"));
    let MessageError::Frame(error) = error else { panic!("{error}") };
    assert_eq!(error.hint(), "install the same version of stealtime on both hosts, or two that follow each other");
}

#[test]
fn a_peer_of_another_protocol_is_named() {
    let (_, end) = messages_of(b"GET / HTTP/1.1\r\nHost: standby.example\r\n\r\n");
    let error = end.unwrap_err();
    assert!(matches!(error, MessageError::Frame(FrameError::Magic { found: [b'G', b'E', b'T', b' '] })), "{error}");
}

#[test]
fn a_payload_is_at_most_as_long_as_the_limit() {
    let (term, epoch) = (Term(1), Epoch(1));
    let longest = EncodedFrame::new(FrameKind::Pages, term, epoch, &vec![0; PAYLOAD_LIMIT_BYTES]).unwrap();
    assert_eq!(longest.as_bytes().len(), HEADER_BYTES + PAYLOAD_LIMIT_BYTES);
    let error = EncodedFrame::new(FrameKind::Pages, term, epoch, &vec![0; PAYLOAD_LIMIT_BYTES + 1]).unwrap_err();
    assert_eq!(error, FrameError::Oversized { kind: FrameKind::Pages, length: PAYLOAD_LIMIT_BYTES + 1 });
}

#[test]
fn a_control_message_with_other_content_is_refused() {
    for (kind, payload) in [
        (FrameKind::Hello, b"{}".as_slice()),
        (FrameKind::EpochBegin, br#"{"full":true,"pages":1,"device_bytes":0,"more":1}"#),
        (FrameKind::EpochBegin, br#"{"full":true,"pages":-1,"device_bytes":0}"#),
        (FrameKind::EpochEnd, b""),
        (FrameKind::Acknowledge, b"{}"),
        (FrameKind::Bye, b"\0"),
    ] {
        let frame = EncodedFrame::new(kind, Term(1), Epoch(1), payload).unwrap();
        let (messages, end) = messages_of(frame.as_bytes());
        assert!(messages.is_empty());
        assert!(matches!(end, Err(MessageError::Malformed { kind: refused, .. }) if refused == kind), "{kind:?}");
    }
}
