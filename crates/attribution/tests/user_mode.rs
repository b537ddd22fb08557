//! A User-Mode Linux guest observed from its host: the causes of its visits to the kernel and of its waits.

use stealtime_attribution::{EventKind, Labelled, Spikes, UserMode, World, attribute};

use crate::recording::virtual_world::{IDLE, said};
use crate::recording::{Recording, parts_of, unlabelled};

use EventKind::{GuestSwitch, Signal};

const KERNEL: (i32, i16, &str) = (400, 120, "linux.uml");
const STUB: (i32, i16, &str) = (401, 120, "linux.uml");
const PROBE_POINTER: u64 = 0x40a0_0000;
const THIEF_POINTER: u64 = 0x40b0_0000;
const TRACED: i64 = 8;
const SIGALRM: i64 = 14;

/// A visit to the guest's kernel: stop, kernel process, and on with a thread of the guest.
fn visit(recording: &mut Recording, start: u64, end: u64, signal: bool, pointer: u64) {
    recording.waking(start - 2, 1, STUB.0, 1, KERNEL).switch(start, 1, STUB.0, TRACED, KERNEL);
    if signal {
        recording.event(start + 5, 1, Signal, KERNEL.0, SIGALRM, 0, 0, "");
    }
    recording
        .event(end - 4, 1, GuestSwitch, KERNEL.0, pointer.cast_signed(), 3, 0, "")
        .waking(end - 2, 1, KERNEL.0, 1, STUB)
        .switch(end, 1, KERNEL.0, 1, STUB);
}

fn split_user_mode(recording: &Recording, start: u64, duration: u64) -> Vec<(String, u64)> {
    let trace = recording.trace().unwrap();
    let pointers = [(PROBE_POINTER, None), (THIEF_POINTER, Some("injection".to_owned()))];
    let guest = UserMode { kernel_threads: &[400], pointers: &pointers, probe_never_sleeps: true, real_time: false };
    let labels = ["neighbour 1".to_owned()];
    let labelled = Labelled { trace: &trace, threads: &[(500, 0)], labels: &labels, cpus: None };
    parts_of(&World::UserMode(labelled, guest), start, duration).unwrap()
}

fn user_mode() -> Recording {
    let mut recording = Recording::until(100_000_000);
    recording.switch(10, 1, 0, 0, STUB);
    visit(&mut recording, 100, 200, false, PROBE_POINTER);
    recording
}

#[test]
fn visits_to_a_user_mode_kernel_are_ticks_if_the_timers_signal_came() {
    let mut recording = user_mode();
    visit(&mut recording, 200_000, 200_300, false, PROBE_POINTER);
    visit(&mut recording, 400_000, 400_500, true, PROBE_POINTER);
    // The stub stops at once for the signal that is passed on to it.
    visit(&mut recording, 402_000, 402_100, false, PROBE_POINTER);
    let expected =
        [("above unexplained", 299_100), ("machine timer_tick", 600), ("machine vm_exit guest kernel entered", 300)];
    assert_eq!(split_user_mode(&recording, 150_000, 300_000), said(&expected));
}

#[test]
fn another_thread_of_the_user_mode_guest_runs_in_the_same_stub() {
    let mut recording = user_mode();
    visit(&mut recording, 200_000, 200_300, false, THIEF_POINTER);
    visit(&mut recording, 700_000, 700_400, false, PROBE_POINTER);
    let expected = [("machine thread injection", 499_700), ("machine vm_exit guest kernel entered", 700)];
    assert_eq!(split_user_mode(&recording, 200_000, 500_400), said(&expected));
}

#[test]
fn a_user_mode_guest_that_idles_beside_its_probe_throttles_it() {
    let mut recording = user_mode();
    recording
        .waking(999, 1, STUB.0, 1, KERNEL)
        .switch(1_000, 1, STUB.0, TRACED, KERNEL)
        .switch(1_200, 1, KERNEL.0, 1, IDLE)
        .waking(40_000_000, 1, 0, 1, KERNEL)
        .switch(40_000_100, 1, 0, 0, KERNEL)
        .event(40_000_200, 1, Signal, KERNEL.0, SIGALRM, 0, 0, "")
        .waking(40_000_690, 1, KERNEL.0, 1, STUB)
        .switch(40_000_700, 1, KERNEL.0, 1, STUB);
    let expected = [
        ("machine rt_throttling limit of real-time runtime", 39_998_800),
        ("machine timer_tick", 700),
        ("machine vm_exit guest kernel entered", 200),
    ];
    assert_eq!(split_user_mode(&recording, 1_000, 39_999_700), said(&expected));
}

#[test]
fn the_host_preempts_a_user_mode_guest_in_its_code_and_in_its_kernel() {
    let mut recording = user_mode();
    recording
        .switch(1_000, 1, STUB.0, 0, (500, 120, "linux.uml"))
        .switch(1_600, 1, 500, 0, STUB)
        .tick(1_700..1_750, 1, STUB.0)
        .waking(1_990, 1, STUB.0, 1, KERNEL)
        .switch(2_000, 1, STUB.0, TRACED, KERNEL)
        .switch(2_100, 1, KERNEL.0, 0, (33, 120, "kworker/1:1"))
        .switch(2_250, 1, 33, 1, KERNEL)
        .waking(2_290, 1, KERNEL.0, 1, STUB)
        .switch(2_300, 1, KERNEL.0, 1, STUB);
    let expected = [
        ("host host_preempted neighbour 1", 600),
        ("above unexplained", 350),
        ("machine vm_exit guest kernel entered", 150),
        ("host host_preempted kworker", 150),
        ("host host_interrupt local_timer", 50),
    ];
    assert_eq!(split_user_mode(&recording, 1_000, 1_300), said(&expected));
}

#[test]
fn a_neighbours_stub_is_named_after_who_drives_it() {
    let mut recording = user_mode();
    recording
        .switch(300, 0, 501, TRACED, (500, 120, "linux.uml"))
        .waking(310, 0, 500, 0, (501, 120, "linux.uml"))
        .switch(1_000, 1, STUB.0, 0, (501, 120, "linux.uml"))
        .switch(1_600, 1, 501, 0, STUB);
    assert_eq!(split_user_mode(&recording, 1_000, 600), said(&[("host host_preempted neighbour 1", 600)]));
}

#[test]
fn a_time_line_tiles_its_spike_on_each_track() {
    let mut recording = user_mode();
    recording.switch(1_000, 1, STUB.0, 0, (500, 120, "linux.uml")).switch(1_600, 1, 500, 0, STUB);
    visit(&mut recording, 1_700, 1_800, true, PROBE_POINTER);
    let trace = recording.trace().unwrap();
    let pointers = [(PROBE_POINTER, None)];
    let guest = UserMode { kernel_threads: &[400], pointers: &pointers, probe_never_sleeps: true, real_time: false };
    let spikes = Spikes { start: &[5, 900], duration: &[5, 1_000], floor: 0 };
    let found = attribute(&World::UserMode(unlabelled(&trace), guest), spikes, &[1]).unwrap();
    for layer in ["machine", "host"] {
        let track: Vec<_> = found.segments.iter().filter(|it| it.layer.name() == layer).collect();
        let mut time = 0;
        for segment in &track {
            assert_eq!((segment.spike, segment.start), (1, time));
            time += segment.duration;
        }
        assert_eq!((time, track.len()), (1_000, 3), "{layer}");
    }
}
