//! The relay between two sockets: what leaves, when, and what never does.

use std::io::Write;
use std::sync::Arc;

use crate::rig::{CountingGate, GUEST, Rig, frame};
use stealtime_outputhold::{
    BypassRules, FramingError, HoldError, HoldLimits, LearnedAddresses, PortFault, ROUNDS, RelayError, RelayEvent,
    RelaySettings, ReleasedEpoch, VlanAddresses,
};
use stealtime_succession::{Epoch, OutputPolicy, Standing};

/// More than any socket or queue between the guest and the network holds.
const FRAMES: u32 = 20_000;

/// The first bytes of an ARP reply and of a neighbour advertisement of the guest, and one of no known kind.
fn frames_of_all_kinds() -> Vec<Vec<u8>> {
    let mut arp = [[0xff; 6], GUEST.0].concat();
    arp.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 2]);
    arp.extend_from_slice(&GUEST.0);
    arp.extend_from_slice(&[192, 0, 2, 10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 192, 0, 2, 10]);
    let mut advertisement = Vec::new();
    let address = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    etherparse::PacketBuilder::ethernet2(GUEST.0, [0x33, 0x33, 0, 0, 0, 1])
        .ipv6(address, [0xff; 16], 255)
        .icmpv6_raw(136, 0, [0x20, 0, 0, 0])
        .write(&mut advertisement, &address)
        .unwrap();
    vec![arp, advertisement, frame(1), vec![0xee; 20]]
}

fn media(number: u8) -> Vec<u8> {
    let mut media = Vec::new();
    etherparse::PacketBuilder::ethernet2(GUEST.0, [0x52, 0x54, 0, 0, 0, 1])
        .ipv4([192, 0, 2, 10], [192, 0, 2, 20], 64)
        .udp(30_000, 40_000)
        .write(&mut media, &[0x80, 8, number])
        .unwrap();
    media
}

fn bypassing() -> RelaySettings {
    let rule = r#"{"protocol":"udp","source_port":"30000-40000"}"#.parse().unwrap();
    RelaySettings { bypass: BypassRules::new(vec![rule]), ..RelaySettings::new(GUEST) }
}

#[test]
fn everything_is_held_until_its_epoch_is_acknowledged_and_then_leaves_in_order() {
    let mut rig = Rig::start(bypassing(), CountingGate::open());
    let kinds = frames_of_all_kinds();
    for kind in &kinds {
        rig.guest_sends(kind);
    }
    let first = rig.relay.drain_and_cut(Epoch(1)).unwrap();
    assert_eq!((first.cut.frames, first.unfinished_bytes), (kinds.len(), 0), "{first:?}");
    rig.guest_sends(&frame(2));
    // Frames go through the relay in order, so when this one is out, those before it would be, too.
    rig.guest_sends(&media(1));
    assert_eq!(rig.network_receives(), media(1), "only the media may leave");
    let second = rig.relay.drain_and_cut(Epoch(2)).unwrap();
    assert_eq!(second.cut.frames, 1);
    rig.guest_sends(&media(2));
    assert_eq!(rig.network_receives(), media(2), "a cut alone releases nothing");
    rig.relay.acknowledge(Epoch(1)).unwrap();
    for kind in &kinds {
        assert_eq!(rig.network_receives(), *kind);
    }
    let epoch = rig.event(|event| match event {
        RelayEvent::EpochReleased(ReleasedEpoch { epoch, frames, .. }) => Some((*epoch, *frames)),
        _ => None,
    });
    assert_eq!(epoch, (Epoch(1), kinds.len()));
    rig.guest_sends(&media(3));
    assert_eq!(rig.network_receives(), media(3), "the second epoch still waits");
    rig.relay.acknowledge(Epoch(2)).unwrap();
    assert_eq!(rig.network_receives(), frame(2));
    let hold = rig.relay.statistics().unwrap().hold;
    assert_eq!((hold.passed.frames, hold.released.frames, hold.held_frames), (3, 5, 0), "{hold:?}");
}

#[test]
fn a_cut_takes_all_that_was_written_before_it() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    // The guest writes as much as the socket takes; the relay reads meanwhile, so each cut finds another
    // part.
    let mut sent = 0;
    for epoch in 1..=50_u32 {
        for _ in 0..epoch {
            sent += 1;
            rig.guest_sends(&frame(sent));
        }
        let cut = rig.relay.drain_and_cut(Epoch(u64::from(epoch))).unwrap();
        assert_eq!(cut.cut.frames, epoch as usize, "epoch {epoch}: {cut:?}");
    }
    rig.relay.acknowledge(Epoch(50)).unwrap();
    for number in 1..=sent {
        assert_eq!(rig.network_receives(), frame(number));
    }
}

#[test]
fn a_frame_that_is_not_finished_counts_to_the_next_epoch() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.guest_sends(&frame(1));
    let second = [60_u32.to_be_bytes().as_slice(), &frame(2)].concat();
    rig.qemu.write_all(&second[..30]).unwrap();
    let cut = rig.relay.drain_and_cut(Epoch(1)).unwrap();
    assert_eq!((cut.cut.frames, cut.unfinished_bytes), (1, 30));
    rig.qemu.write_all(&second[30..]).unwrap();
    let cut = rig.relay.drain_and_cut(Epoch(2)).unwrap();
    assert_eq!((cut.cut.frames, cut.unfinished_bytes), (1, 0));
    rig.relay.acknowledge(Epoch(2)).unwrap();
    assert_eq!(rig.network_receives(), frame(1));
    assert_eq!(rig.network_receives(), frame(2));
}

#[test]
fn a_gate_that_shuts_in_the_middle_of_an_epoch_stops_it_there() {
    let gate = CountingGate::for_frames(3);
    let mut rig = Rig::start(RelaySettings::new(GUEST), Arc::<CountingGate>::clone(&gate));
    for number in 1..=6 {
        rig.guest_sends(&frame(number));
    }
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    rig.relay.acknowledge(Epoch(1)).unwrap();
    for number in 1..=3 {
        assert_eq!(rig.network_receives(), frame(number));
    }
    // It was asked again, and refused, before and after: nothing more came.
    rig.wait_until("the gate is asked on", |statistics| statistics.gate_refusals >= 3);
    assert!(rig.network_is_silent());
    assert_eq!(rig.relay.statistics().unwrap().hold.held_frames, 3, "the rest is held, not lost");
    gate.set(i64::MAX);
    for number in 4..=6 {
        assert_eq!(rig.network_receives(), frame(number));
    }
}

#[test]
fn closing_drops_what_is_held_and_what_comes_and_an_acknowledgement_brings_nothing_back() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.guest_sends(&frame(1));
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    rig.guest_sends(&frame(2));
    rig.relay.set_policy(OutputPolicy::Discard).unwrap();
    rig.guest_sends(&frame(3));
    rig.wait_until("all is dropped", |statistics| statistics.hold.dropped.frames == 3);
    rig.relay.acknowledge(Epoch(1)).unwrap();
    rig.relay.announce(&LearnedAddresses::default()).unwrap();
    rig.relay.set_policy(OutputPolicy::Free).unwrap();
    rig.guest_sends(&frame(4));
    assert_eq!(rig.network_receives(), frame(4), "only what came after");
}

#[test]
fn a_free_guest_sends_at_once_and_one_that_becomes_free_sends_what_was_held() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.guest_sends(&frame(1));
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    rig.guest_sends(&frame(2));
    rig.wait_until("both are held", |statistics| statistics.hold.held_frames == 2);
    rig.relay.set_policy(OutputPolicy::Free).unwrap();
    rig.guest_sends(&frame(3));
    for number in 1..=3 {
        assert_eq!(rig.network_receives(), frame(number));
    }
    rig.relay.set_policy(OutputPolicy::Hold).unwrap();
    rig.guest_sends(&frame(4));
    rig.relay.drain_and_cut(Epoch(2)).unwrap();
    assert!(rig.network_is_silent());
    rig.relay.acknowledge(Epoch(2)).unwrap();
    assert_eq!(rig.network_receives(), frame(4));
}

#[test]
fn a_bypassing_frame_before_a_shut_gate_is_held_with_its_epoch() {
    let gate = CountingGate::for_frames(0);
    let mut rig = Rig::start(bypassing(), Arc::<CountingGate>::clone(&gate));
    rig.guest_sends(&media(1));
    rig.wait_until("it is held", |statistics| statistics.hold.held_frames == 1);
    gate.set(i64::MAX);
    rig.guest_sends(&media(2));
    assert_eq!(rig.network_receives(), media(2));
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    rig.relay.acknowledge(Epoch(1)).unwrap();
    assert_eq!(rig.network_receives(), media(1));
}

/// A gate that is shut for what nobody has acknowledged.
struct AcknowledgedGate;

impl stealtime_outputhold::Gate for AcknowledgedGate {
    fn may_release(&self, standing: Standing) -> bool {
        standing == Standing::Acknowledged
    }
}

#[test]
fn what_passes_and_what_leaves_freely_has_a_lease_of_its_own() {
    let mut rig = Rig::start(bypassing(), Arc::new(AcknowledgedGate));
    rig.guest_sends(&media(1));
    rig.guest_sends(&frame(1));
    rig.wait_until("both are held", |statistics| statistics.hold.held_frames == 2);
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    assert!(rig.network_is_silent());
    rig.relay.acknowledge(Epoch(1)).unwrap();
    assert_eq!([rig.network_receives(), rig.network_receives()], [media(1), frame(1)]);
    rig.relay.set_policy(OutputPolicy::Free).unwrap();
    rig.guest_sends(&frame(2));
    rig.wait_until("the gate is asked on", |statistics| statistics.gate_refusals >= 4);
    assert!(rig.network_is_silent());
}

#[test]
fn the_first_frame_that_waits_behind_a_cut_is_told_and_no_other_and_none_that_may_leave() {
    let mut rig = Rig::start(bypassing(), CountingGate::open());
    let told = |event: &RelayEvent| match event {
        RelayEvent::AwaitsCut { after } => Some(*after),
        _ => None,
    };
    let awaited = |rig: &Rig| rig.events.try_iter().find_map(|event| told(&event));
    let pass = |rig: &mut Rig, number| {
        rig.guest_sends(&media(number));
        assert_eq!(rig.network_receives(), media(number));
        // All before it was looked at by then, and told.
        rig.wait_until("it was counted", |it| it.hold.passed.frames == u64::from(number));
    };
    pass(&mut rig, 1);
    assert_eq!(awaited(&rig), None, "it did not wait");
    for number in 1..=3 {
        rig.guest_sends(&frame(number));
    }
    assert_eq!(rig.event(told), Epoch(0));
    pass(&mut rig, 2);
    assert_eq!(awaited(&rig), None, "once");
    rig.relay.drain_and_cut(Epoch(7)).unwrap();
    pass(&mut rig, 3);
    assert_eq!(awaited(&rig), None, "nothing waits behind this cut");
    rig.guest_sends(&frame(4));
    assert_eq!(rig.event(told), Epoch(7));
    rig.relay.set_policy(OutputPolicy::Free).unwrap();
    rig.guest_sends(&frame(5));
    for number in 1..=5 {
        assert_eq!(rig.network_receives(), frame(number));
    }
    assert_eq!(awaited(&rig), None, "it leaves freely");
}

#[test]
fn a_full_hold_stops_reading_and_loses_nothing() {
    let limits = HoldLimits { bytes: usize::MAX, frames: 10 };
    let mut rig = Rig::start(RelaySettings { limits, ..RelaySettings::new(GUEST) }, CountingGate::open());
    // As a stopped reader would block this thread for ever, another one is the guest.
    let mut qemu = rig.qemu.try_clone().unwrap();
    let guest = std::thread::spawn(move || {
        for number in 1..=FRAMES {
            qemu.write_all(&[60_u32.to_be_bytes().as_slice(), &frame(number)].concat()).unwrap();
        }
    });
    let full = rig.event(|event| match event {
        RelayEvent::HoldFull { frames, .. } => Some(*frames),
        _ => None,
    });
    assert_eq!(full, 10);
    let mut received = 0;
    let mut epoch = Epoch(0);
    while received < FRAMES {
        epoch = epoch.next();
        let cut = rig.relay.drain_and_cut(epoch).unwrap();
        rig.relay.acknowledge(epoch).unwrap();
        for _ in 0..cut.cut.frames {
            received += 1;
            assert_eq!(rig.network_receives(), frame(received));
        }
    }
    guest.join().unwrap();
    rig.guest_sends(&frame(FRAMES + 1));
    assert!(rig.network_is_silent());
}

#[test]
fn a_port_without_room_delays_and_loses_nothing() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    for number in 1..=FRAMES {
        rig.guest_sends(&frame(number));
        if number.is_multiple_of(100) {
            rig.relay.drain_and_cut(Epoch(u64::from(number))).unwrap();
        }
    }
    rig.relay.acknowledge(Epoch(u64::from(FRAMES))).unwrap();
    rig.wait_until("the port is full", |statistics| statistics.port_refusals > 0);
    for number in 1..=FRAMES {
        assert_eq!(rig.network_receives(), frame(number));
    }
}

#[test]
fn input_reaches_the_guest_in_order_also_when_qemu_does_not_read_for_a_while() {
    let mut rig = Rig::start(RelaySettings { input_bytes: 2000, ..RelaySettings::new(GUEST) }, CountingGate::open());
    let network = rig.network.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        for number in 1..=FRAMES {
            network.send(&frame(number)).unwrap();
        }
    });
    rig.wait_until("the queue is full", |statistics| statistics.input_queued_bytes >= 2000);
    for number in 1..=FRAMES {
        assert_eq!(rig.guest_receives(), frame(number));
    }
    sender.join().unwrap();
    assert_eq!(rig.relay.statistics().unwrap().input.frames, u64::from(FRAMES));
}

#[test]
fn a_guest_that_is_free_until_the_cut_is_held_from_there_on() {
    let settings = RelaySettings { policy: OutputPolicy::HoldFromCut, ..RelaySettings::new(GUEST) };
    let mut rig = Rig::start(settings, CountingGate::open());
    rig.guest_sends(&frame(1));
    assert_eq!(rig.network_receives(), frame(1));
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    rig.guest_sends(&frame(2));
    assert!(rig.network_is_silent(), "what it sends after the cut is not in the epoch");
    rig.relay.acknowledge(Epoch(1)).unwrap();
    assert!(rig.network_is_silent());
    rig.relay.drain_and_cut(Epoch(2)).unwrap();
    rig.relay.acknowledge(Epoch(2)).unwrap();
    assert_eq!(rig.network_receives(), frame(2));
}

#[test]
fn a_relay_that_discards_forgets_input() {
    let mut rig =
        Rig::start(RelaySettings { policy: OutputPolicy::Discard, ..RelaySettings::new(GUEST) }, CountingGate::open());
    for number in 1..=500 {
        // Blocks unless the relay takes them away.
        rig.network.send(&frame(number)).unwrap();
    }
    rig.wait_until("all is forgotten", |statistics| statistics.input_dropped.frames == 500);
    rig.relay.set_policy(OutputPolicy::Free).unwrap();
    rig.network.send(&frame(501)).unwrap();
    assert_eq!(rig.guest_receives(), frame(501), "only what came after");
}

#[test]
fn learned_addresses_are_announced_in_every_round_and_given_to_others() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    let kinds = frames_of_all_kinds();
    for kind in &kinds {
        rig.guest_sends(kind);
    }
    // The same claim with the tag of VLAN 20.
    rig.guest_sends(&[&kinds[0][..12], &[0x81, 0, 0, 20], &kinds[0][12..]].concat());
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    let learned = rig.relay.learned_addresses().unwrap();
    let address = "192.0.2.10".parse::<std::net::Ipv4Addr>().unwrap();
    assert_eq!(learned.ipv4, [address]);
    assert_eq!(learned.ipv6, ["fe80::7".parse::<std::net::Ipv6Addr>().unwrap()]);
    assert_eq!(learned.vlans, [VlanAddresses { vlan: 20, ipv4: vec![address], ipv6: vec![] }]);
    let free = RelaySettings { policy: OutputPolicy::Free, ..RelaySettings::new(GUEST) };
    let other = Rig::start(free, CountingGate::open());
    other.relay.announce(&learned).unwrap();
    for _ in ROUNDS {
        let kinds: Vec<_> = (0..3).map(|_| other.network_receives()[12..14].to_vec()).collect();
        assert_eq!(kinds, [[0x80, 0x35], [0x08, 0x06], [0x86, 0xdd]], "reverse ARP, ARP, IPv6");
        let tagged: Vec<_> = (0..2).map(|_| other.network_receives()[12..18].to_vec()).collect();
        assert_eq!(tagged, [[0x81, 0, 0, 20, 0x80, 0x35], [0x81, 0, 0, 20, 0x08, 0x06]], "the same in the VLAN");
    }
    other.wait_until("all is counted", |statistics| statistics.announced.frames == 5 * ROUNDS.len() as u64);
    assert!(rig.network_is_silent(), "what is held is not released by an announcement elsewhere");
}

#[test]
fn an_announcement_waits_for_its_epoch_like_any_output() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.relay.announce(&LearnedAddresses::default()).unwrap();
    rig.wait_until("it is announced", |statistics| statistics.announced.frames >= 1);
    rig.guest_sends(&frame(1));
    rig.relay.drain_and_cut(Epoch(1)).unwrap();
    assert!(rig.network_is_silent(), "the standby may have taken the machine");
    rig.relay.acknowledge(Epoch(1)).unwrap();
    assert_eq!(rig.network_receives()[12..14], [0x80, 0x35]);
    let mut next = rig.network_receives();
    while next[12..14] == [0x80, 0x35] {
        next = rig.network_receives();
    }
    assert_eq!(next, frame(1));

    rig.wait_until("another round is held", |statistics| statistics.hold.held_frames >= 1);
    rig.relay.set_policy(OutputPolicy::Discard).unwrap();
    rig.relay.set_policy(OutputPolicy::Free).unwrap();
    rig.guest_sends(&frame(2));
    assert_eq!(rig.network_receives(), frame(2), "what was held is gone, and no round follows");
}

#[test]
fn an_announcement_before_a_shut_gate_leaves_when_it_opens() {
    let gate = CountingGate::for_frames(0);
    let free = RelaySettings { policy: OutputPolicy::Free, ..RelaySettings::new(GUEST) };
    let rig = Rig::start(free, Arc::<CountingGate>::clone(&gate));
    rig.relay.announce(&LearnedAddresses::default()).unwrap();
    rig.wait_until("it waits", |statistics| statistics.gate_refusals > 1);
    assert!(rig.network_is_silent());
    gate.set(i64::MAX);
    assert_eq!(rig.network_receives()[12..14], [0x80, 0x35]);
}

#[test]
fn the_order_of_epochs_cannot_be_broken() {
    let rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.relay.drain_and_cut(Epoch(5)).unwrap();
    let again = rig.relay.drain_and_cut(Epoch(5)).unwrap_err();
    assert!(matches!(again, RelayError::Hold(HoldError::CutOutOfOrder { .. })), "{again}");
    let early = rig.relay.acknowledge(Epoch(6)).unwrap_err();
    assert!(matches!(early, RelayError::Hold(HoldError::AcknowledgedBeforeCut { .. })), "{early}");
}

#[test]
fn the_end_of_qemu_is_told_and_what_it_wrote_before_is_kept() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.guest_sends(&frame(1));
    rig.qemu.shutdown(std::net::Shutdown::Both).unwrap();
    rig.event(|event| matches!(event, RelayEvent::OutputClosed).then_some(()));
    assert_eq!(rig.relay.drain_and_cut(Epoch(1)).unwrap().cut.frames, 1);
    assert_eq!(rig.relay.fault(), None, "that its QEMU is gone is seen elsewhere");
    rig.relay.acknowledge(Epoch(1)).unwrap();
    assert_eq!(rig.network_receives(), frame(1));
}

#[test]
fn a_stream_out_of_step_is_told_and_closed() {
    let mut rig = Rig::start(RelaySettings::new(GUEST), CountingGate::open());
    rig.qemu.write_all(&[0xff; 100]).unwrap();
    let error = rig.event(|event| match event {
        RelayEvent::OutputBroken(error) => Some(*error),
        _ => None,
    });
    assert_eq!(error, FramingError::Oversize { length: u32::MAX });
    assert_eq!(rig.relay.fault(), Some(PortFault::OutputBroken));
    assert!(std::io::Read::read(&mut rig.qemu, &mut [0; 1]).is_ok_and(|count| count == 0), "QEMU sees the end");
}
