//! Paths with known faults, in made-up time: each fault is found as what it is, and to the packet.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;

use proptest::prelude::*;
use stealtime_media::{
    BPL_G711, Basis, Header, Heard, Kind, Listening, Mark, Numbers, PACKET_NS, PACKET_SAMPLES, Receiver, Schedule,
    StreamFigures, Turn, numbers, write,
};

const MS: u64 = 1_000_000;
const CLOCK: u64 = 11;
const START_NS: u64 = 1_000 * MS;

fn listening() -> Listening {
    Listening { clock: CLOCK, buffer_ns: 60 * MS, loss_robustness: BPL_G711 }
}

fn source() -> SocketAddr {
    "127.0.0.1:4000".parse().unwrap()
}

fn header(numbers: &Numbers, index: u64) -> Header {
    let sequence = numbers.sequence.wrapping_add(u16::try_from(index % 65_536).unwrap());
    let elapsed = u32::try_from(index % (1 << 32)).unwrap().wrapping_mul(PACKET_SAMPLES);
    Header { ssrc: numbers.ssrc, sequence, timestamp: numbers.timestamp.wrapping_add(elapsed), marker: index == 0 }
}

fn voice(stream: u32, index: u64, due_ns: u64) -> Mark {
    Mark { kind: Kind::Voice, sender: 7, stream, streams: 1, clock: CLOCK, index, due_ns, sent_ns: due_ns, turn: None }
}

/// A stream of `packets`, of which each arrives as `path` says (by its number: zero, one or several delays), and a
/// closing report.
fn received(packets: u64, path: impl Fn(u64) -> Vec<u64>) -> StreamFigures {
    let schedule = Schedule::new(START_NS, 1);
    let numbers = numbers(3, 1)[0];
    let mut arrivals = Vec::new();
    for index in 0..packets {
        let due_ns = schedule.slot(index).due_ns;
        arrivals.extend(path(index).into_iter().map(|delay_ns| (due_ns + delay_ns, voice(0, index, due_ns))));
    }
    let due_ns = schedule.slot(packets).due_ns;
    let kind = Kind::Closing { stream_sent: packets, sender_sent: packets };
    arrivals.push((due_ns, Mark { kind, ..voice(0, packets, due_ns) }));
    arrivals.sort_by_key(|(arrival_ns, _)| *arrival_ns);
    let mut receiver = Receiver::new(listening());
    for (arrival_ns, mark) in arrivals {
        receiver.datagram(&write(&header(&numbers, mark.index), &mark), arrival_ns, source());
    }
    assert!(receiver.is_complete());
    receiver.figures(due_ns).0.remove(0)
}

#[test]
fn every_hundredth_packet_that_is_dropped_is_lost() {
    let found = received(1_000, |index| if index % 100 == 99 { vec![] } else { vec![MS] });
    assert_eq!((found.counts.sent, found.counts.received, found.counts.lost), (1_000, 990, 10));
    assert!((found.counts.lost_percent - 1.0).abs() < 1e-12);
    assert_eq!((found.counts.late, found.counts.duplicated, found.counts.reordered), (0, 0, 0));
    // Never two together, which is less than chance would have.
    assert_eq!(found.unplayed.longest_packets, 1);
    assert!((found.unplayed.burst_ratio.unwrap() - 0.99).abs() < 1e-12);
    // The very last was one of them: only the closing report tells.
    assert!(found.closed);
}

#[test]
fn a_delay_of_20_ms_is_a_delay_and_no_jitter() {
    let found = received(500, |_| vec![20 * MS]);
    let delay = found.delay_ns.unwrap();
    assert_eq!(found.delay_is, Basis::OneWay);
    assert_eq!((delay.min, delay.median, delay.max), (20 * MS, 20 * MS, 20 * MS));
    let jitter = found.jitter_ns.unwrap();
    assert_eq!((jitter.last, jitter.max, jitter.path_max), (0.0, 0.0, 0.0));
    assert_eq!((found.counts.lost, found.counts.late), (0, 0));
    assert!((found.quality.mouth_to_ear_ms - 100.0).abs() < 1e-9, "20 of the path, 60 of the buffer, 20 of a packet");
    assert!(found.quality.path_delay_known);
}

#[test]
fn copies_and_packets_that_were_overtaken_are_told_apart() {
    // Each 70th comes twice; each 50th comes after the next one.
    let found = received(1_000, |index| match index {
        _ if index % 70 == 69 => vec![MS, 2 * MS],
        _ if index % 50 == 10 => vec![25 * MS],
        _ => vec![MS],
    });
    let counts = found.counts;
    assert_eq!((counts.received, counts.lost, counts.duplicated, counts.reordered), (1_000, 0, 14, 20));
}

#[test]
fn a_gap_of_250_ms_is_found_where_it_was() {
    // Packets 100 to 112 are 13 x 20 ms: from the one before to the one after it is silent for 280 ms.
    let found = received(400, |index| if (100..113).contains(&index) { vec![] } else { vec![5 * MS] });
    let silence = found.longest_silence.unwrap();
    assert_eq!(silence.start_monotonic_ns, START_NS + 99 * PACKET_NS + 5 * MS);
    assert_eq!((silence.length_ns, silence.ended), (280 * MS, true));
    assert_eq!((found.counts.lost, found.unplayed.longest_packets), (13, 13));
    assert!((found.unplayed.burst_ratio.unwrap() - 13.0 * (1.0 - 13.0 / 400.0)).abs() < 1e-9);
}

#[test]
fn packets_held_and_released_together_are_late_beyond_the_buffer() {
    // Held until the next full 100 ms: delays of 100, 80, 60, 40 and 20 ms in turn. The fastest takes 20 ms, so that
    // those of 100 ms are 80 later, which a buffer of 60 ms does not bridge. The very first packet comes before any
    // faster one is known.
    let found = received(500, |index| vec![100 * MS - index % 5 * PACKET_NS]);
    assert_eq!((found.counts.lost, found.counts.late), (0, 99));
    let delay = found.delay_ns.unwrap();
    assert_eq!((delay.min, delay.max), (20 * MS, 100 * MS));
    assert!(delay.q1.abs_diff(40 * MS) < MS && delay.q3.abs_diff(80 * MS) < MS, "{delay:?}");
    assert!(found.quality.mos < 2.0, "a fifth cannot be played: {:?}", found.quality);
}

#[test]
fn sequence_numbers_that_begin_anew_are_no_loss() {
    for first in [65_530, 65_535, 0] {
        let mut receiver = Receiver::new(listening());
        let numbers = Numbers { ssrc: 1, sequence: first, timestamp: u32::MAX - 100 };
        for index in 0..70_000 {
            let due_ns = START_NS + index * PACKET_NS;
            receiver.datagram(&write(&header(&numbers, index), &voice(0, index, due_ns)), due_ns, source());
        }
        let found = receiver.figures(0).0.remove(0);
        assert_eq!((found.counts.received, found.counts.lost, found.counts.reordered), (70_000, 0, 0));
        assert_eq!((found.renumbered, found.ssrc_changes), (0, 0));
    }
}

#[test]
fn a_relay_that_renumbers_in_the_middle_is_told() {
    let mut receiver = Receiver::new(listening());
    let other = "127.0.0.2:4000".parse().unwrap();
    for index in 0..20 {
        let after = index >= 10;
        let numbers = Numbers { ssrc: if after { 2 } else { 1 }, sequence: if after { 900 } else { 4 }, timestamp: 0 };
        let mark = voice(0, index, START_NS);
        receiver.datagram(&write(&header(&numbers, index), &mark), START_NS, if after { other } else { source() });
    }
    let found = receiver.figures(0).0.remove(0);
    assert_eq!((found.renumbered, found.ssrc_changes, found.source_changes), (1, 1, 1));
    assert_eq!((found.counts.received, found.counts.lost), (20, 0));
}

#[test]
fn two_streams_of_one_source_number_stay_two() {
    let mut receiver = Receiver::new(listening());
    let numbers = Numbers { ssrc: 5, sequence: 0, timestamp: 0 };
    for index in 0..100 {
        for stream in [0, 1] {
            let mark = Mark { streams: 2, ..voice(stream, index, START_NS + index * PACKET_NS) };
            receiver.datagram(&write(&header(&numbers, index), &mark), mark.due_ns, source());
        }
    }
    let (streams, total) = receiver.figures(0);
    assert_eq!((streams.len(), total.ssrc_collisions), (2, 1));
    assert_eq!((total.counts.received, total.counts.lost, total.counts.duplicated), (200, 0, 0));
}

#[test]
fn a_stream_that_was_never_heard_is_lost_all_the_same() {
    let mut receiver = Receiver::new(listening());
    let numbers = numbers(1, 3);
    let mark = Mark { streams: 3, ..voice(0, 0, START_NS) };
    receiver.datagram(&write(&header(&numbers[0], 0), &mark), START_NS, source());
    let kind = Kind::Closing { stream_sent: 1, sender_sent: 3 };
    receiver.datagram(&write(&header(&numbers[0], 1), &Mark { kind, index: 1, ..mark }), START_NS, source());
    assert!(!receiver.is_complete());
    let (_, total) = receiver.figures(START_NS);
    assert_eq!((total.streams_announced, total.streams_heard, total.streams_closed), (3, 1, 1));
    assert_eq!((total.counts.sent, total.counts.received, total.counts.lost), (3, 1, 2));
}

#[test]
fn voice_that_comes_after_the_closing_report_counts() {
    let mut receiver = Receiver::new(listening());
    let numbers = numbers(1, 1)[0];
    let kind = Kind::Closing { stream_sent: 3, sender_sent: 3 };
    let closing = Mark { kind, ..voice(0, 3, START_NS) };
    for mark in [voice(0, 0, START_NS), closing, closing, voice(0, 2, START_NS), voice(0, 1, START_NS), closing] {
        receiver.datagram(&write(&header(&numbers, mark.index), &mark), START_NS, source());
    }
    let (streams, total) = receiver.figures(START_NS);
    let counts = streams[0].counts;
    assert_eq!((counts.sent, counts.received, counts.lost, counts.duplicated, counts.reordered), (3, 3, 0, 0, 1));
    assert_eq!(total.streams_closed, 1);
}

#[test]
fn between_two_clocks_only_the_variation_is_told() {
    let mut receiver = Receiver::new(Listening { clock: 12, ..listening() });
    let numbers = numbers(1, 1)[0];
    for index in 0..100 {
        let mark = voice(0, index, START_NS + index * PACKET_NS);
        // The receiver's clock is a second behind: the packets seem to come before they were sent.
        let arrival_ns = mark.due_ns - 1_000 * MS + if index % 10 == 9 { 7 * MS } else { 2 * MS };
        receiver.datagram(&write(&header(&numbers, index), &mark), arrival_ns, source());
    }
    let found = receiver.figures(0).0.remove(0);
    let delay = found.delay_ns.unwrap();
    assert_eq!((found.delay_is, delay.min, delay.median, delay.max), (Basis::Variation, 0, 0, 5 * MS));
    assert!(!found.quality.path_delay_known);
    assert_eq!(found.impossible_delays, 0);
}

#[test]
fn a_round_trip_is_without_the_reflectors_time() {
    let mut receiver = Receiver::new(listening());
    let numbers = numbers(1, 1)[0];
    // The reflector's clock is another one, and it took a millisecond.
    let turn = Some(Turn { received_ns: 999 * MS, sent_ns: 1_000 * MS });
    let mark = Mark { turn, ..voice(0, 0, START_NS) };
    receiver.datagram(&write(&header(&numbers, 0), &mark), START_NS + 31 * MS, source());
    let found = receiver.figures(0).0.remove(0);
    assert_eq!((found.delay_is, found.delay_ns.unwrap().max), (Basis::RoundTrip, 30 * MS));
}

#[test]
fn strangers_are_counted_by_kind() {
    let mut receiver = Receiver::new(listening());
    let mut corrupted = write(&header(&numbers(1, 1)[0], 0), &voice(0, 0, START_NS));
    corrupted[60] ^= 1;
    let others: [&[u8]; 4] = [&corrupted, b"hello", &[0x80; 40], &[0x80, 201, 0, 1, 0, 0, 0, 0]];
    for bytes in others {
        assert_eq!(receiver.datagram(bytes, 1, source()), Heard::Stranger);
    }
    let strangers = receiver.strangers();
    assert_eq!((strangers.corrupted, strangers.not_rtp, strangers.other_rtp, strangers.rtcp), (1, 1, 1, 1));
    assert_eq!(receiver.figures(1).1.streams_heard, 0);
}

fn any_datagram() -> impl Strategy<Value = Vec<u8>> {
    let mark = (any::<[u64; 5]>(), any::<(u32, u32)>(), any::<Option<(u64, u64)>>(), any::<Option<(u64, u64)>>());
    let ours = (mark, any::<(u32, u16, u32, bool)>()).prop_map(|((numbers, streams, closing, turn), header)| {
        let [sender, clock, index, due_ns, sent_ns] = numbers;
        // Few senders and streams, so that they meet.
        let kind = closing.map_or(Kind::Voice, |(stream_sent, sender_sent)| Kind::Closing { stream_sent, sender_sent });
        let turn = turn.map(|(received_ns, sent_ns)| Turn { received_ns, sent_ns });
        let (stream, streams) = (streams.0 % 3, streams.1);
        let mark = Mark { kind, sender: sender % 2, stream, streams, clock: clock % 20, index, due_ns, sent_ns, turn };
        let (ssrc, sequence, timestamp, marker) = header;
        write(&Header { ssrc: ssrc % 4, sequence, timestamp, marker }, &mark).to_vec()
    });
    prop_oneof![ours, prop::collection::vec(any::<u8>(), 0..200)]
}

proptest! {
    #[test]
    fn whatever_comes_is_counted(datagrams in prop::collection::vec((any_datagram(), any::<u64>()), 0..60)) {
        let mut receiver = Receiver::new(listening());
        for (bytes, arrival_ns) in &datagrams {
            receiver.datagram(bytes, *arrival_ns, source());
        }
        prop_assert_eq!(receiver.packets() + receiver.strangers().total(), datagrams.len() as u64);
        let (streams, total) = receiver.figures(u64::MAX);
        prop_assert!(streams.iter().all(|stream| (1.0..=4.5).contains(&stream.quality.mos)));
        prop_assert!(total.counts.received <= receiver.packets());
    }
}
