//! What rules let pass, and what no rule may let pass.

use etherparse::{Icmpv4Type, IpFragOffset, IpHeaders, IpNumber, Ipv4Header, PacketBuilder, VlanId};
use proptest::prelude::*;
use stealtime_outputhold::{BypassRule, BypassRules};

const GUEST: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const PEER: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];
const RTP: [u8; 12] = [0x80, 0x08, 0, 1, 0, 0, 0, 160, 1, 2, 3, 4];
/// A receiver report.
const RTCP: [u8; 8] = [0x80, 201, 0, 1, 1, 2, 3, 4];
const EXPEDITED: u8 = 46;
/// Of the protocol number, in a frame with IPv4.
const PROTOCOL_AT: usize = 14 + 9;

fn rules(texts: &[&str]) -> BypassRules {
    BypassRules::new(texts.iter().map(|text| text.parse().unwrap()).collect())
}

fn refusal(text: &str) -> String {
    text.parse::<BypassRule>().unwrap_err().to_string()
}

fn ipv4(dscp: u8, protocol: IpNumber) -> Ipv4Header {
    let mut header = Ipv4Header::new(0, 64, protocol, [192, 0, 2, 10], [192, 0, 2, 20]).unwrap();
    header.dscp = dscp.try_into().unwrap();
    header
}

fn with_ip(header: Ipv4Header) -> etherparse::PacketBuilderStep<IpHeaders> {
    PacketBuilder::ethernet2(GUEST, PEER).ip(IpHeaders::Ipv4(header, etherparse::Ipv4Extensions::default()))
}

fn udp(dscp: u8, source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    with_ip(ipv4(dscp, IpNumber::UDP)).udp(source_port, destination_port).write(&mut frame, payload).unwrap();
    frame
}

fn udp_ipv6(source_port: u16, destination_port: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut destination = [0; 16];
    destination[15] = 1;
    PacketBuilder::ethernet2(GUEST, PEER)
        .ipv6([0x20; 16], destination, 64)
        .udp(source_port, destination_port)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

fn udp_in_vlan(source_port: u16, destination_port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(GUEST, PEER)
        .single_vlan(VlanId::try_new(7).unwrap())
        .ipv4([192, 0, 2, 10], [192, 0, 2, 20], 64)
        .udp(source_port, destination_port)
        .write(&mut frame, &RTP)
        .unwrap();
    frame
}

fn fragment(offset: u16, more: bool) -> Vec<u8> {
    let mut header = ipv4(EXPEDITED, IpNumber::UDP);
    header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
    header.more_fragments = more;
    let mut frame = Vec::new();
    with_ip(header).udp(30_000, 40_000).write(&mut frame, &RTP).unwrap();
    frame
}

fn tcp(source_port: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    with_ip(ipv4(EXPEDITED, IpNumber::TCP)).tcp(source_port, 40_000, 1, 1000).write(&mut frame, &RTP).unwrap();
    frame
}

/// SCTP begins with its ports, as UDP does.
fn sctp(source_port: u16) -> Vec<u8> {
    let mut frame = udp(EXPEDITED, source_port, 40_000, &RTP);
    frame[PROTOCOL_AT] = 132;
    frame
}

fn echo_reply() -> Vec<u8> {
    let mut frame = Vec::new();
    with_ip(ipv4(EXPEDITED, IpNumber::ICMP))
        .icmpv4(Icmpv4Type::EchoReply(etherparse::IcmpEchoHeader { id: 1, seq: 1 }))
        .write(&mut frame, &RTP)
        .unwrap();
    frame
}

fn neighbour_advertisement() -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(GUEST, PEER)
        .ipv6([0x20; 16], [0x21; 16], 255)
        .icmpv6_raw(136, 0, [0x60, 0, 0, 0])
        .write(&mut frame, &[0x20; 16])
        .unwrap();
    frame
}

fn arp() -> Vec<u8> {
    let mut frame = [PEER, GUEST].concat();
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
    frame.extend_from_slice(&GUEST);
    frame.extend_from_slice(&[192, 0, 2, 10]);
    frame.extend_from_slice(&PEER);
    frame.extend_from_slice(&[192, 0, 2, 20]);
    frame
}

#[test]
fn without_rules_everything_is_held() {
    assert!(!BypassRules::default().lets_pass(&udp(EXPEDITED, 30_000, 40_000, &RTP)));
}

#[test]
fn media_pass_by_port_and_mark_and_all_fields_must_match() {
    let by_both = rules(&[r#"{"protocol":"udp","source_port":"30000-40000","dscp":46}"#]);
    assert!(by_both.lets_pass(&udp(EXPEDITED, 30_000, 1, &RTP)));
    assert!(by_both.lets_pass(&udp(EXPEDITED, 40_000, 1, &RTP)));
    assert!(!by_both.lets_pass(&udp(EXPEDITED, 29_999, 1, &RTP)), "a port beside the range");
    assert!(!by_both.lets_pass(&udp(0, 30_000, 1, &RTP)), "no mark");
    let by_either = rules(&[r#"{"protocol":"udp","dscp":46}"#, r#"{"protocol":"UDP","destination_port":7777}"#]);
    assert!(by_either.lets_pass(&udp(0, 1, 7777, &RTP)));
    assert!(by_either.lets_pass(&udp(EXPEDITED, 1, 7778, &RTP)));
    assert!(!by_either.lets_pass(&udp(0, 7777, 7778, &RTP)));
    assert!(by_either.lets_pass(&udp_ipv6(1, 7777, &RTP)), "IPv6");
    assert!(by_either.lets_pass(&udp_in_vlan(1, 7777)), "in a VLAN");
}

#[test]
fn what_a_peer_may_take_for_proof_is_held_whatever_the_rules_say() {
    let widest = rules(&[
        r#"{"protocol":"udp","source_port":"5062-65535"}"#,
        r#"{"protocol":"udp","destination_port":"5062-65535"}"#,
        r#"{"protocol":"udp","dscp":46}"#,
    ]);
    assert!(widest.lets_pass(&udp(EXPEDITED, 30_000, 40_000, &RTP)), "the rules are wide");
    let held = [
        ("SIP from its port", udp(EXPEDITED, 5060, 40_000, b"SIP/2.0 200 OK")),
        ("SIP to its port", udp(EXPEDITED, 40_000, 5060, b"SIP/2.0 200 OK")),
        ("SIP over TLS", udp(EXPEDITED, 5061, 40_000, &RTP)),
        ("DHCP", udp(EXPEDITED, 67, 40_000, &RTP)),
        ("DNS", udp(EXPEDITED, 53, 40_000, &RTP)),
        ("RTCP", udp(EXPEDITED, 30_001, 40_001, &RTCP)),
        ("TCP", tcp(30_000)),
        ("SCTP", sctp(30_000)),
        ("ICMP", echo_reply()),
        ("a neighbour advertisement", neighbour_advertisement()),
        ("ARP", arp()),
        ("the first fragment", fragment(0, true)),
        ("the last fragment", fragment(100, false)),
        ("an empty frame", Vec::new()),
        ("an unknown EtherType", vec![0xee; 60]),
    ];
    for (name, frame) in held {
        assert!(!widest.lets_pass(&frame), "{name} must be held");
    }
    let whole = udp(EXPEDITED, 30_000, 40_000, &RTP);
    for length in 0..whole.len() {
        assert!(!widest.lets_pass(&whole[..length]), "cut off after {length} bytes");
    }
}

#[test]
fn rules_that_would_let_state_leak_are_refused_in_a_sentence() {
    for protocol in ["tcp", "icmp", "icmpv6", "arp", "sctp", "any", ""] {
        let sentence = refusal(&format!(r#"{{"protocol":"{protocol}","dscp":46}}"#));
        assert!(sentence.starts_with(&format!("a bypass rule names protocol {protocol:?}, but only")), "{sentence}");
    }
    assert_eq!(
        refusal(r#"{"protocol":"udp","source_port":"5000-6000"}"#),
        "a bypass rule has source_port 5000-6000, which contains port 5060 (SIP): its packets tell a peer of a state \
         that could still be lost, so they are always held"
    );
    assert!(refusal(r#"{"protocol":"udp","destination_port":5061}"#).contains("port 5061 (SIP over TLS)"));
    assert!(refusal(r#"{"protocol":"udp"}"#).contains("all UDP would bypass"));
    assert!(refusal(r#"{"protocol":"udp","dscp":0}"#).contains("what unmarked packets have"));
    assert!(refusal(r#"{"protocol":"udp","dscp":64}"#).starts_with("dscp 64 is above 63"));
    assert!(refusal(r#"{"protocol":"udp","source_port":"9-8"}"#).contains("\"9-8\" is no port range"));
    assert!(refusal(r#"{"protocol":"udp","source_port":"0-8"}"#).contains("\"0-8\" is no port range"));
    assert!(refusal(r#"{"protocol":"udp","source_port":"70000"}"#).contains("\"70000\" is no port range"));
    assert!(refusal(r#"{"protocol":"udp","dscp":46,"port":1}"#).contains("unknown field `port`"));
    assert!(refusal(r#"{"dscp":46}"#).contains("missing field `protocol`"));
}

#[test]
fn rules_are_written_as_they_are_read_and_checked_within_a_document() {
    let text = r#"[{"protocol":"udp","source_port":"30000-40000","dscp":46}]"#;
    let rules: BypassRules = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&rules).unwrap(), text);
    let refused = serde_json::from_str::<BypassRules>(r#"[{"protocol":"tcp","source_port":"80"}]"#).unwrap_err();
    assert!(refused.to_string().contains("only \"udp\" may bypass"), "{refused}");
}

proptest! {
    #[test]
    fn no_rule_that_can_be_made_lets_connections_or_signalling_pass(
        first in 1_u16..,
        last in 1_u16..,
        dscp in prop::option::of(0_u8..64),
        is_source in any::<bool>(),
        port in any::<u16>(),
    ) {
        let field = if is_source { "source_port" } else { "destination_port" };
        let dscp_field = dscp.map_or(String::new(), |dscp| format!(r#","dscp":{dscp}"#));
        let text = format!(r#"{{"protocol":"udp","{field}":"{first}-{last}"{dscp_field}}}"#);
        let Ok(rule) = text.parse::<BypassRule>() else { return Ok(()) };
        let rules = BypassRules::new(vec![rule]);
        let dscp = dscp.unwrap_or(0);
        for held in [5060, 5061] {
            prop_assert!(!rules.lets_pass(&udp(dscp, held, port, &RTP)));
            prop_assert!(!rules.lets_pass(&udp(dscp, port, held, &RTP)));
        }
        for frame in [tcp(first), sctp(first), echo_reply(), neighbour_advertisement(), arp()] {
            prop_assert!(!rules.lets_pass(&frame));
        }
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(frame in prop::collection::vec(any::<u8>(), 0..200)) {
        rules(&[r#"{"protocol":"udp","dscp":46}"#]).lets_pass(&frame);
    }
}
