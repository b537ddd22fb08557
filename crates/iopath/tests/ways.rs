//! The ways of requests whose every moment is known.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod world;

use proptest::prelude::*;
use stealtime_iopath::{Emulator, Found, Guest, Part, PathError, Requests, Traces, split};
use stealtime_wire::{EventKind, TraceColumns};
use world::{MAIN, Recording, THIEF, VIRTUAL_CPU, WORKER, Way};

const ISSUE: [u64; 7] = [110, 130, 160, 200, 250, 310, 380];

fn found(way: &mut Way, requests: &[(u64, u64, u64)], offsets: (i64, i64)) -> Found {
    let submitted: Vec<u64> = requests.iter().map(|one| one.0).collect();
    let returned: Vec<u64> = requests.iter().map(|one| one.1).collect();
    let offset_bytes: Vec<u64> = requests.iter().map(|one| one.2).collect();
    let requests = Requests { submitted: &submitted, returned: &returned, offset_bytes: &offset_bytes };
    let raised = way.raised.clone();
    let traces = Traces {
        guest: Some(Guest { trace: way.guest.columns() }),
        host: Some((way.host.columns(), Emulator { virtual_cpus: &[VIRTUAL_CPU], raised: &raised, raised_error: 1 })),
    };
    split(&requests, &traces, offsets).unwrap()
}

fn parts(found: &Found, row: usize) -> Vec<(&'static str, u64)> {
    let all = Part::NAMES.iter().zip(&found.parts).map(|(&name, column)| (name, column[row]));
    all.filter(|&(_, cycles)| cycles > 0).collect()
}

fn way(offset: u64) -> Way {
    let mut way = Way::new(offset);
    way.request(8, ISSUE);
    way
}

#[test]
fn each_part_lies_between_its_moments() {
    let found = found(&mut way(40), &[(100, 450, 4096)], (40, 40));
    let expected = [
        ("submit", 10),
        ("notify", 20),
        ("take", 30),
        ("host_io", 40),
        ("complete", 50),
        ("deliver", 60),
        ("handle", 70),
        ("wake", 70),
    ];
    assert_eq!(parts(&found, 0), expected);
    assert_eq!(found.seen, [0x1ff]);
}

#[test]
fn a_virtual_cpu_that_is_off_while_the_interrupt_waits_makes_it_pending_and_nothing_else() {
    let undisturbed = found(&mut way(40), &[(100, 450, 4096)], (40, 40));
    let mut disturbed = way(40);
    disturbed.preempt(255, 305);
    let found = found(&mut disturbed, &[(100, 450, 4096)], (40, 40));
    for (part, name) in Part::NAMES.iter().enumerate() {
        let expected = match *name {
            "pending" => 50,
            "deliver" => undisturbed.parts[part][0] - 50,
            _ => undisturbed.parts[part][0],
        };
        assert_eq!(found.parts[part][0], expected, "{name}");
    }
}

#[test]
fn a_virtual_cpu_that_is_off_elsewhere_is_preempted() {
    let mut disturbed = way(40);
    disturbed.preempt(112, 122);
    disturbed.preempt(320, 335);
    // While the disk is at work nobody waits for the virtual CPU.
    disturbed.preempt(170, 190);
    let found = found(&mut disturbed, &[(100, 450, 4096)], (40, 40));
    let all = parts(&found, 0);
    assert!(
        all.contains(&("preempted", 25)) && all.contains(&("notify", 10)) && all.contains(&("handle", 55)),
        "{all:?}"
    );
    assert!(all.contains(&("host_io", 40)), "{all:?}");
}

#[test]
fn an_emulator_that_waits_for_a_cpu_or_for_the_virtual_cpu_is_told_apart() {
    let mut waiting = way(40);
    waiting.host.tell(135 - 40, 0, EventKind::Waking, (VIRTUAL_CPU, 0, MAIN));
    waiting.host.tell(150 - 40, 0, EventKind::Switch, (THIEF, 0, MAIN));
    waiting.host.tell(158 - 40, 0, EventKind::CallEntry, (MAIN, 202, 0));
    waiting.host.tell(159 - 40, 0, EventKind::Switch, (MAIN, 1, THIEF));
    let all = parts(&found(&mut waiting, &[(100, 450, 4096)], (40, 40)), 0);
    assert!(all.contains(&("emulator_off", 15)) && all.contains(&("take", 15)), "{all:?}");
    let mut held_up = way(40);
    held_up.host.tell(131 - 40, 0, EventKind::CallEntry, (MAIN, 202, 0));
    held_up.preempt(135, 145);
    let all = parts(&found(&mut held_up, &[(100, 450, 4096)], (40, 40)), 0);
    assert!(all.contains(&("preempted", 10)) && all.contains(&("take", 20)), "{all:?}");
}

#[test]
fn what_was_not_seen_is_unexplained_and_never_zero() {
    let mut unseen = Way::new(40);
    unseen.guest.tell(110, 0, EventKind::BlockIssue, (5, 8, 8));
    unseen.guest.tell(380, 0, EventKind::BlockComplete, (5, 8, 8));
    let found = found(&mut unseen, &[(100, 450, 4096)], (40, 40));
    assert_eq!(parts(&found, 0), [("submit", 10), ("wake", 70), ("unexplained", 270)]);
}

#[test]
fn without_any_trace_all_is_unexplained() {
    let requests = Requests { submitted: &[100], returned: &[450], offset_bytes: &[0] };
    let found = split(&requests, &Traces { guest: None, host: None }, (0, 0)).unwrap();
    assert_eq!(parts(&found, 0), [("unexplained", 350)]);
}

#[test]
fn a_request_to_a_server_is_followed_by_what_is_sent_and_received_while_it_is_alone() {
    let mut way = Way::new(40);
    way.guest.tell(110, 0, EventKind::BlockIssue, (5, 8, 8));
    way.guest.tell(310, 0, EventKind::InterruptEntry, (5, 32, 0));
    way.guest.tell(380, 0, EventKind::BlockComplete, (5, 8, 8));
    way.host.tell(120, 0, EventKind::CallEntry, (MAIN, 46, 0));
    way.host.tell(122, 0, EventKind::CallExit, (MAIN, 46, 0));
    way.host.tell(150, 0, EventKind::CallExit, (MAIN, 47, 0));
    way.host.tell(160, 0, EventKind::CallExit, (MAIN, 47, 0));
    way.raised.push(210);
    let alone = found(&mut way.clone_of(), &[(100, 450, 4096)], (40, 40));
    assert!(parts(&alone, 0).contains(&("host_io", 40)), "{:?}", parts(&alone, 0));
    let beside = found(&mut way, &[(100, 450, 4096), (105, 460, 8192)], (40, 40));
    assert!(!parts(&beside, 0).iter().any(|&(name, _)| name == "host_io"), "{:?}", parts(&beside, 0));
}

#[test]
fn the_offset_of_the_clocks_is_narrowed_by_what_must_follow_what() {
    let found = found(&mut way(40), &[(100, 450, 4096)], (-1000, 1000));
    // Issued (110) before the virtual CPU leaves (90); raised (210, give or take 1) before it is handled (310).
    assert_eq!(found.offsets, (20, 101));
}

#[test]
fn columns_that_do_not_fit_are_refused() {
    let traces = Traces { guest: None, host: None };
    let uneven = Requests { submitted: &[1, 2], returned: &[1], offset_bytes: &[0, 0] };
    let error = split(&uneven, &traces, (0, 0)).unwrap_err();
    assert_eq!(error, PathError::Length { table: "the requests", column: "returned", rows: 1, expected: 2 });
    let backwards = Requests { submitted: &[5], returned: &[4], offset_bytes: &[0] };
    assert_eq!(split(&backwards, &traces, (0, 0)).unwrap_err(), PathError::Backwards { row: 0, start: 5, end: 4 });
    let columns = TraceColumns { time: &[1], ..TraceColumns::default() };
    let requests = Requests { submitted: &[], returned: &[], offset_bytes: &[] };
    let error = split(&requests, &Traces { guest: Some(Guest { trace: columns }), host: None }, (0, 0)).unwrap_err();
    assert_eq!(error, PathError::Length { table: "the guest's trace", column: "cpu", rows: 0, expected: 1 });
}

fn any_recording() -> impl Strategy<Value = Recording> {
    let kinds = [
        EventKind::BlockIssue,
        EventKind::BlockComplete,
        EventKind::InterruptEntry,
        EventKind::FileCall,
        EventKind::CallEntry,
        EventKind::CallExit,
        EventKind::Switch,
        EventKind::Waking,
        EventKind::VmExit,
    ];
    let threads = prop::sample::select(vec![VIRTUAL_CPU, MAIN, WORKER, THIEF, 0]);
    let values = prop::sample::select(vec![0_i64, 8, 16, 46, 47, 4096, -1]);
    let row = (0_u64..2000, 0_u16..3, prop::sample::select(kinds.to_vec()), threads.clone(), values, threads);
    prop::collection::vec(row, 0..60).prop_map(|rows| {
        let mut recording = Recording::default();
        for (time, cpu, kind, thread, value, other) in rows {
            recording.tell(time, cpu, kind, (thread, value, other));
        }
        recording
    })
}

proptest! {
    #[test]
    fn parts_add_up_to_the_whole_whatever_the_traces_hold(
        guest in any_recording(),
        host in any_recording(),
        mut raised in prop::collection::vec(0_u64..2000, 0..10),
        requests in prop::collection::vec((0_u64..1500, 0_u64..800, prop::sample::select(vec![0_u64, 4096, 8192])), 0..12),
        offsets in (-300_i64..300, 0_i64..100),
    ) {
        raised.sort_unstable();
        let mut way = Way { guest, host, raised, offset: 0 };
        let requests: Vec<_> = requests.into_iter().map(|(start, length, place)| (start, start + length, place)).collect();
        let found = found(&mut way, &requests, (offsets.0, offsets.0 + offsets.1));
        for (row, &(start, end, _)) in requests.iter().enumerate() {
            let whole: u64 = found.parts.iter().map(|column| column[row]).sum();
            prop_assert_eq!(whole, end - start, "{:?}", parts(&found, row));
        }
    }
}
