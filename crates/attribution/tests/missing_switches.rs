//! Switches that the kernel left out: where its accounts of runtime put them, and what stays not judged.

use stealtime_attribution::{EventKind, Followed, Offsets, Spikes, VirtualCpus, World, attribute};

use crate::recording::virtual_world::{AHEAD, IDLE, VCPU, said, split_virtual, virtual_host, virtual_machine};
use crate::recording::{PROBE, PROBES, Recording, followed, parts_of, unlabelled};

use EventKind::{VectorEntry, VectorExit};

#[test]
fn a_woken_thread_that_left_idleness_unrecorded_ran_since_its_cpu_was_interrupted() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 1, IDLE)
        .waking(1_500, 0, 201, 1, VCPU)
        .served(1_520, 1, VectorEntry, 0, 251, "call_function_single")
        .served(1_530, 1, VectorExit, 0, 251, "call_function_single")
        // No switch to the virtual CPU, but it is what the next interrupt finds there.
        .tick(1_900..1_950, 1, 200);
    let expected = [
        ("host vm_exit waiting in the emulator", 530),
        ("above unexplained", 420),
        ("host host_interrupt local_timer", 50),
    ];
    assert_eq!(split_virtual(&host, None, AHEAD + 1_000, 1_000), said(&expected));
}

fn split_ordinary(recording: &Recording, start: u64, duration: u64) -> Vec<(String, u64)> {
    let trace = recording.trace().unwrap();
    let probe = Followed { real_time: false, ..followed(PROBES) };
    parts_of(&World::Native(unlabelled(&trace), probe), start, duration).unwrap()
}

const ORDINARY: (i32, i16, &str) = (PROBE, 120, "st-tick");

#[test]
fn a_quota_ends_when_the_throttled_thread_began_though_no_switch_out_of_idleness_says_so() {
    let mut recording = Recording::until(100_000_000);
    recording
        .switch(10, 1, 0, 0, ORDINARY)
        .switch(1_000, 1, PROBE, 0, IDLE)
        .tick(50_000_000..50_000_900, 1, 0)
        // Idleness to the probe is missing: at 50_001_000.
        .served(52_000_000, 1, VectorEntry, PROBE, 236, "local_timer")
        .runtime(52_000_400, 1, PROBE, PROBE, 1_999_400)
        .served(52_000_500, 1, VectorExit, PROBE, 236, "local_timer")
        // Later accounts say nothing about that.
        .runtime(56_000_400, 1, PROBE, PROBE, 4_000_000);
    let expected =
        [("machine quota_throttling", 50_000_000), ("above unexplained", 2_498_500), ("machine timer_tick", 500)];
    assert_eq!(split_ordinary(&recording, 1_000, 52_499_000), said(&expected));
}

#[test]
fn a_virtual_cpu_comes_back_when_its_account_says() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 0, (300, 120, "CPU 0/TCG"))
        .tick(1_400..1_450, 1, 300)
        // The neighbour to the virtual CPU is missing: at 1_600. Another CPU that has work for this one adds
        // it up.
        .runtime(1_700, 0, 0, 200, 100)
        .served(1_800, 1, VectorEntry, 200, 251, "call_function")
        .served(1_850, 1, VectorExit, 200, 251, "call_function")
        .runtime(1_900, 1, 200, 200, 200);
    let expected = [
        ("host host_preempted neighbour 1", 600),
        ("above unexplained", 350),
        ("host host_interrupt call_function", 50),
    ];
    assert_eq!(split_virtual(&host, None, AHEAD + 1_000, 1_000), said(&expected));
}

#[test]
fn a_virtual_cpu_was_displaced_when_the_others_account_says() {
    let mut host = virtual_host();
    host.switch(500, 0, 0, 0, (300, 120, "CPU 0/TCG"))
        .switch(600, 0, 300, 0, (0, 120, "swapper/0"))
        .tick(900..950, 1, 200)
        // The virtual CPU to the neighbour is missing: at 1_000. Nobody wakes it before it runs again.
        .runtime(1_700, 1, 300, 300, 700)
        .switch(1_700, 1, 300, 1, VCPU);
    let expected =
        [("host host_preempted neighbour 1", 700), ("above unexplained", 250), ("host host_interrupt local_timer", 50)];
    assert_eq!(split_virtual(&host, None, AHEAD + 900, 1_000), said(&expected));
}

#[test]
fn how_a_virtual_cpu_left_is_also_known_if_it_is_back_before_the_others_account() {
    let parts = |slept: bool| {
        let mut host = virtual_host();
        host.switch(500, 0, 0, 0, (300, 120, "CPU 0/TCG"))
            .switch(600, 0, 300, 0, (0, 120, "swapper/0"))
            .tick(900..950, 1, 200)
            // The virtual CPU to the neighbour is missing: at 1_000.
            .tick(1_100..1_150, 1, 300);
        if slept {
            host.waking(1_390, 0, 0, 0, VCPU);
        }
        host.switch(1_400, 0, 0, 0, VCPU).runtime(1_500, 1, 300, 300, 500);
        split_virtual(&host, None, AHEAD + 1_000, 400)
    };
    assert_eq!(parts(false), said(&[("host host_preempted neighbour 1", 400)]));
    assert_eq!(parts(true), said(&[("host vm_exit waiting in the emulator", 400)]));
}

#[test]
fn a_virtual_cpu_that_is_woken_later_had_gone_to_sleep() {
    let mut host = virtual_host();
    host.switch(500, 0, 0, 0, (300, 120, "CPU 0/TCG"))
        .switch(600, 0, 300, 0, (0, 120, "swapper/0"))
        .tick(900..950, 1, 200)
        // The virtual CPU to the neighbour is missing: at 1_000.
        .runtime(1_500, 1, 300, 300, 500)
        .waking(1_600, 0, 0, 1, VCPU)
        .switch(1_700, 1, 300, 0, VCPU);
    let expected = [
        ("host vm_exit waiting in the emulator", 600),
        ("above unexplained", 250),
        ("host host_preempted neighbour 1", 100),
        ("host host_interrupt local_timer", 50),
    ];
    assert_eq!(split_virtual(&host, None, AHEAD + 900, 1_000), said(&expected));
}

#[test]
fn clocks_are_compared_by_when_threads_were_seen_not_by_their_accounts() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 1, IDLE)
        .waking(1_450, 1, 0, 1, VCPU)
        // Idleness to the virtual CPU is missing: at 1_500 by its account, but not before 1_450 in any case.
        .runtime(1_700, 1, 200, 200, 200)
        // And so is the virtual CPU to the neighbour: at 2_000, but not after 2_100.
        .served(2_100, 1, VectorEntry, 300, 236, "local_timer")
        .runtime(2_600, 1, 300, 300, 600)
        .switch(2_600, 1, 300, 0, VCPU);
    let mut machine = virtual_machine();
    machine.served(AHEAD + 1_480, 0, VectorEntry, PROBE, 236, "local_timer").served(
        AHEAD + 2_050,
        0,
        VectorExit,
        PROBE,
        236,
        "local_timer",
    );
    let (host, machine) = (host.trace().unwrap(), machine.trace().unwrap());
    let vcpus = [followed(&[200])];
    let ahead = i64::try_from(AHEAD).unwrap();
    let offsets = Offsets { low: ahead - 100, high: ahead + 100 };
    let cpus = VirtualCpus { host: unlabelled(&host), threads: &vcpus, offsets };
    let world = World::Virtual(cpus, Some((unlabelled(&machine), followed(PROBES))));
    let found = attribute(&world, Spikes { start: &[], duration: &[], floor: 0 }, &[]).unwrap().offsets;
    assert_eq!((found.low, found.high), (ahead - 50, ahead + 30));
}

#[test]
fn a_throttled_probe_left_for_idleness_when_its_time_was_added_up_for_the_last_time() {
    let mut recording = Recording::until(100_000_000);
    recording
        .switch(10, 1, 0, 0, ORDINARY)
        .runtime(1_000, 1, PROBE, PROBE, 990)
        // The probe to idleness is missing.
        .tick(50_000_000..50_000_900, 1, 0)
        .switch(50_001_000, 1, 0, 0, ORDINARY);
    let expected = [("machine quota_throttling", 50_000_000), ("above unexplained", 500)];
    assert_eq!(split_ordinary(&recording, 500, 50_000_500), said(&expected));
}

#[test]
fn an_account_that_cannot_be_of_the_missing_switch_leaves_the_stretch_not_judged() {
    let mut recording = Recording::until(100_000_000);
    recording
        .switch(10, 1, 0, 0, ORDINARY)
        .switch(1_000, 1, PROBE, 0, IDLE)
        .tick(50_000_000..50_000_900, 1, 0)
        // It began before idleness was last seen, which cannot be.
        .served(52_000_000, 1, VectorEntry, PROBE, 236, "local_timer")
        .runtime(52_000_400, 1, PROBE, PROBE, 3_000_000);
    assert_eq!(split_ordinary(&recording, 1_000, 52_499_000), said(&[]));
    // And one whose first account was left out too: the second is not taken for it.
    recording.runtime(56_000_400, 1, PROBE, PROBE, 5_000_000);
    assert_eq!(split_ordinary(&recording, 1_000, 52_499_000), said(&[]));
}
