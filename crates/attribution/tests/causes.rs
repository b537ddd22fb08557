//! One small trace for each cause, with the exact parts that it must give.

use stealtime_attribution::{
    AttributionError, EventKind, Followed, Labelled, Offsets, Spikes, VirtualCpus, World, attribute,
};

use crate::recording::virtual_world::{AHEAD, IDLE, RUNS, VCPU, said, split_virtual, virtual_host, virtual_machine};
use crate::recording::{PROBE, PROBES, Recording, followed, in_words, parts_of, unlabelled};

use EventKind::{
    InterruptEntry, InterruptExit, Nmi, SoftirqEntry, SoftirqExit, VectorEntry, VectorExit, VmEntry, VmExit,
};

/// A probe of priority 95 that runs on CPU 1 from 10 on.
fn native() -> Recording {
    let mut recording = Recording::until(100_000_000);
    recording.switch(10, 1, 0, 0, RUNS);
    recording
}

fn split_native(recording: &Recording, start: u64, duration: u64) -> Vec<(String, u64)> {
    let trace = recording.trace().unwrap();
    parts_of(&World::Native(unlabelled(&trace), followed(PROBES)), start, duration).unwrap()
}

#[test]
fn a_tick_with_a_softirq_behind_it() {
    let mut recording = native();
    recording.tick(1_000..1_300, 1, PROBE).served(1_350, 1, SoftirqEntry, PROBE, 1, "TIMER").served(
        1_450,
        1,
        SoftirqExit,
        PROBE,
        1,
        "TIMER",
    );
    let expected = [("above unexplained", 600), ("machine timer_tick", 300), ("machine softirq TIMER", 100)];
    assert_eq!(split_native(&recording, 500, 1_000), said(&expected));
}

#[test]
fn the_interrupting_wins_over_the_interrupted() {
    let mut recording = native();
    recording
        .served(1_000, 1, SoftirqEntry, PROBE, 3, "NET_RX")
        .served(1_100, 1, InterruptEntry, PROBE, 24, "virtio0-input")
        .tick(1_150..1_200, 1, PROBE)
        .served(1_290, 1, InterruptExit, PROBE, 24, "virtio0-input")
        .served(1_500, 1, SoftirqExit, PROBE, 3, "NET_RX");
    let expected =
        [("machine softirq NET_RX", 310), ("machine interrupt virtio0-input", 140), ("machine timer_tick", 50)];
    assert_eq!(split_native(&recording, 1_000, 500), said(&expected));
}

#[test]
fn a_non_maskable_interrupt_is_told_when_it_is_over() {
    let mut recording = native();
    recording.event(2_000, 1, Nmi, PROBE, 400, 0, 0, "perf_event_nmi_handler");
    let expected = [("above unexplained", 600), ("machine interrupt NMI", 400)];
    assert_eq!(split_native(&recording, 1_500, 1_000), said(&expected));
}

#[test]
fn another_thread_of_higher_priority_and_workers_under_one_name() {
    let mut recording = native();
    recording
        .switch(1_000, 1, PROBE, 0, (7, 0, "migration/1"))
        .switch(1_400, 1, 7, 1, (8, 3, "kworker/1:2H"))
        .switch(1_500, 1, 8, 1, (9, 3, "kworker/1:0"))
        .switch(1_700, 1, 9, 1, RUNS);
    let expected = [("machine thread migration/1", 400), ("machine thread kworker", 300), ("above unexplained", 300)];
    assert_eq!(split_native(&recording, 900, 1_000), said(&expected));
}

#[test]
fn a_neighbour_is_called_by_its_label() {
    let mut recording = native();
    recording.switch(1_000, 1, PROBE, 0, (50, 2, "st-load")).switch(1_600, 1, 50, 0, RUNS);
    let trace = recording.trace().unwrap();
    let labels = ["neighbour 1".to_owned()];
    let labelled = Labelled { trace: &trace, threads: &[(50, 0)], labels: &labels, cpus: None };
    let parts = parts_of(&World::Native(labelled, followed(PROBES)), 1_000, 600).unwrap();
    assert_eq!(parts, said(&[("machine thread neighbour 1", 600)]));
}

#[test]
fn a_real_time_probe_that_idleness_displaces_is_throttled_whatever_interrupts_that() {
    let mut recording = native();
    recording.switch(1_000, 1, PROBE, 0, IDLE).tick(20_000..21_000, 1, 0).switch(50_001_000, 1, 0, 0, RUNS);
    let expected = [("machine rt_throttling limit of real-time runtime", 50_000_000)];
    assert_eq!(split_native(&recording, 1_000, 50_000_000), said(&expected));
}

#[test]
fn an_ordinary_thread_before_a_real_time_one_is_the_limit_or_the_fair_server() {
    let mut recording = native();
    recording.switch(1_000, 1, PROBE, 0, (70, 120, "stress")).switch(3_000, 1, 70, 0, RUNS);
    let expected = [("machine rt_throttling limit of real-time runtime", 2_000)];
    assert_eq!(split_native(&recording, 1_000, 2_000), said(&expected));
    let trace = recording.trace().unwrap();
    let probe = Followed { limit_lifted: true, ..followed(PROBES) };
    let parts = parts_of(&World::Native(unlabelled(&trace), probe), 1_000, 2_000).unwrap();
    assert_eq!(parts, said(&[("machine rt_throttling fair server", 2_000)]));
}

#[test]
fn an_ordinary_probe_is_throttled_by_its_quota_until_the_cpu_was_idle_for_the_last_time() {
    let mut recording = Recording::until(100_000);
    recording
        .switch(10, 1, 0, 0, (PROBE, 120, "st-tick"))
        .switch(1_000, 1, PROBE, 0, (70, 120, "bash"))
        .switch(2_000, 1, 70, 1, IDLE)
        .switch(5_000, 1, 0, 0, (71, 120, "ls"))
        .switch(5_200, 1, 71, 1, (PROBE, 120, "st-tick"));
    let expected = [("machine quota_throttling", 4_000), ("machine thread ls", 200)];
    let trace = recording.trace().unwrap();
    let probe = Followed { real_time: false, ..followed(PROBES) };
    let parts = parts_of(&World::Native(unlabelled(&trace), probe), 1_000, 4_200).unwrap();
    assert_eq!(parts, said(&expected));
}

#[test]
fn a_woken_probe_waits_for_its_cpu_to_leave_idleness() {
    let mut recording = native();
    recording
        .switch(1_000, 1, PROBE, 1, IDLE)
        .served(9_000, 1, VectorEntry, 0, 236, "local_timer")
        .waking(9_100, 1, 0, 1, RUNS)
        .served(9_300, 1, VectorExit, 0, 236, "local_timer")
        .switch(9_800, 1, 0, 0, RUNS);
    let expected = [("above unexplained", 700), ("machine thread idle", 500), ("machine timer_tick", 200)];
    // Expired at 8_400, first instruction of its job at 9_800. Before the wake-up there was nobody to
    // interrupt.
    assert_eq!(split_native(&recording, 8_400, 1_400), said(&expected));
}

#[test]
fn a_woken_probe_that_an_idle_cpu_does_not_run_for_long_is_throttled() {
    let mut recording = native();
    recording.switch(1_000, 1, PROBE, 1, IDLE).waking(9_000, 1, 0, 1, RUNS).switch(30_009_000, 1, 0, 0, RUNS);
    let expected = [("machine rt_throttling limit of real-time runtime", 30_000_000)];
    assert_eq!(split_native(&recording, 9_000, 30_000_000), said(&expected));
}

#[test]
fn a_ring_of_threads_runs_while_one_of_them_does_also_where_their_switches_are_hidden() {
    let ring = [100, 101, 102];
    let mut recording = native();
    recording
        .switch(1_000, 1, 100, 0, (101, 4, "st-ring"))
        // 101 to 102 is hidden.
        .switch(1_200, 1, 102, 0, (7, 0, "migration/1"))
        .switch(1_250, 1, 7, 1, (100, 4, "st-ring"));
    let trace = recording.trace().unwrap();
    let parts = parts_of(&World::Native(unlabelled(&trace), followed(&ring)), 900, 400).unwrap();
    assert_eq!(parts, said(&[("above unexplained", 350), ("machine thread migration/1", 50)]));
}

#[test]
fn a_softirq_that_a_displaced_thread_left_unfinished_is_not_the_probes() {
    // PREEMPT_RT: ksoftirqd serves a softirq, the probe wakes up and displaces it.
    let mut recording = native();
    recording
        .switch(500, 1, PROBE, 1, (12, 120, "ksoftirqd/1"))
        .served(600, 1, SoftirqEntry, 12, 3, "NET_RX")
        .waking(900, 1, 12, 1, RUNS)
        .switch(1_000, 1, 12, 0, RUNS)
        .switch(3_000, 1, PROBE, 0, (7, 0, "migration/1"))
        .switch(3_100, 1, 7, 1, RUNS);
    assert_eq!(
        split_native(&recording, 1_000, 2_100),
        said(&[("above unexplained", 2_000), ("machine thread migration/1", 100)])
    );
}

#[test]
fn exits_without_entries_and_entries_without_exits_do_no_harm() {
    let mut recording = native();
    recording
        .served(900, 1, VectorExit, PROBE, 236, "local_timer")
        .served(1_000, 1, InterruptEntry, PROBE, 9, "acpi")
        .served(1_100, 1, SoftirqEntry, PROBE, 1, "TIMER")
        // The exit of the softirq is missing; that of the interrupt below it ends both.
        .served(1_300, 1, InterruptExit, PROBE, 9, "acpi")
        .served(2_000, 1, VectorEntry, PROBE, 236, "local_timer")
        // Its exit is missing, but a switch cannot happen inside of it.
        .switch(2_200, 1, PROBE, 0, (7, 0, "migration/1"))
        .switch(2_300, 1, 7, 1, RUNS);
    let expected = [
        ("above unexplained", 1_400),
        ("machine softirq TIMER", 200),
        ("machine timer_tick", 200),
        ("machine interrupt acpi", 100),
        ("machine thread migration/1", 100),
    ];
    assert_eq!(split_native(&recording, 1_000, 2_000), said(&expected));
}

#[test]
fn causes_that_take_more_than_the_excess_are_scaled_down_together() {
    let mut recording = native();
    recording.tick(1_000..1_600, 1, PROBE).served(1_600, 1, SoftirqEntry, PROBE, 1, "TIMER").served(
        1_900,
        1,
        SoftirqExit,
        PROBE,
        1,
        "TIMER",
    );
    let trace = recording.trace().unwrap();
    let spikes = Spikes { start: &[1_000], duration: &[1_000], floor: 899 };
    let found = attribute(&World::Native(unlabelled(&trace), followed(PROBES)), spikes, &[]).unwrap();
    assert_eq!(in_words(&found, 0), said(&[("machine timer_tick", 68), ("machine softirq TIMER", 33)]));
    assert_eq!(found.parts.scaled, 1);
}

#[test]
fn spikes_where_events_were_lost_are_not_judged_and_what_is_known_afterwards_is_used() {
    let mut recording = native();
    recording.served(1_000, 1, VectorEntry, PROBE, 236, "local_timer").lost(5_000, 1, 17).lost(5_500, 0, 1).tick(
        6_000..6_200,
        1,
        PROBE,
    );
    let trace = recording.trace().unwrap();
    let cpus = [1];
    let labelled = Labelled { cpus: Some(&cpus), ..unlabelled(&trace) };
    let spikes = Spikes { start: &[500, 900, 4_999, 5_000, 5_900], duration: &[400; 5], floor: 0 };
    let found = attribute(&World::Native(labelled, followed(PROBES)), spikes, &[]).unwrap();
    assert_eq!(found.parts.judged, [true, false, false, true, true]);
    assert_eq!(in_words(&found, 1), said(&[]));
    assert_eq!(in_words(&found, 3), said(&[("above unexplained", 400)]));
    assert_eq!(in_words(&found, 4), said(&[("machine timer_tick", 200), ("above unexplained", 200)]));
    assert_eq!(trace.lost_events(), 18);
}

#[test]
fn spikes_outside_of_the_recording_are_not_judged() {
    let mut recording = native();
    recording.covered = (1_000, 9_000);
    let trace = recording.trace().unwrap();
    let spikes = Spikes { start: &[900, 1_000, 8_900, 9_000], duration: &[100, 100, 101, 5], floor: 0 };
    let found = attribute(&World::Native(unlabelled(&trace), followed(PROBES)), spikes, &[]).unwrap();
    assert_eq!(found.parts.judged, [false, true, false, false]);
}

#[test]
fn the_host_preempts_a_virtual_cpu() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 0, (201, 120, "qemu-system-x86"))
        .switch(1_300, 1, 201, 1, (300, 120, "CPU 0/TCG"))
        .switch(1_900, 1, 300, 0, (15, 120, "ksoftirqd/1"))
        .switch(2_000, 1, 15, 1, VCPU);
    let expected = [
        ("host host_preempted neighbour 1", 600),
        ("host host_preempted emulator", 300),
        ("host host_preempted ksoftirqd/1", 100),
    ];
    assert_eq!(split_virtual(&host, None, AHEAD + 1_000, 1_000), said(&expected));
}

#[test]
fn a_virtual_cpu_is_followed_to_another_cpu() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 0, (300, 120, "CPU 0/TCG"))
        .switch(1_500, 0, 0, 0, VCPU)
        .served(1_600, 0, InterruptEntry, 200, 24, "virtio1-req.0")
        .switch(1_650, 1, 300, 1, IDLE)
        .served(1_700, 0, InterruptExit, 200, 24, "virtio1-req.0");
    let expected = [
        ("host host_preempted neighbour 1", 500),
        ("above unexplained", 400),
        ("host host_interrupt virtio1-req.0", 100),
    ];
    assert_eq!(split_virtual(&host, None, AHEAD + 1_000, 1_000), said(&expected));
}

#[test]
fn the_outer_layer_wins_over_the_inner() {
    let mut host = virtual_host();
    host.tick(1_100..1_200, 1, 200).switch(1_400, 1, 200, 0, (300, 120, "CPU 0/TCG")).switch(1_900, 1, 300, 0, VCPU);
    let mut machine = virtual_machine();
    machine.served(AHEAD + 1_000, 0, VectorEntry, PROBE, 236, "local_timer").served(
        AHEAD + 1_950,
        0,
        VectorExit,
        PROBE,
        236,
        "local_timer",
    );
    let expected = [
        ("host host_preempted neighbour 1", 500),
        ("machine timer_tick", 350),
        ("host host_interrupt local_timer", 100),
        ("above unexplained", 50),
    ];
    assert_eq!(split_virtual(&host, Some(&machine), AHEAD + 1_000, 1_000), said(&expected));
}

#[test]
fn the_reason_of_a_vm_exit_and_an_interrupt_inside_of_it() {
    let mut host = virtual_host();
    host.event(1_000, 1, VmExit, 200, 48, 0, 0, "EPT_VIOLATION")
        .tick(1_100..1_150, 1, 200)
        .event(1_400, 1, VmEntry, 200, 0, 0, 0, "");
    let expected =
        [("above unexplained", 600), ("host vm_exit EPT_VIOLATION", 350), ("host host_interrupt local_timer", 50)];
    assert_eq!(split_virtual(&host, None, AHEAD + 900, 1_000), said(&expected));
}

#[test]
fn a_sleeping_virtual_cpu_is_in_its_emulator() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 1, IDLE).waking(1_500, 0, 201, 1, VCPU).switch(1_520, 1, 0, 0, VCPU);
    let expected = [("host vm_exit waiting in the emulator", 520), ("above unexplained", 480)];
    assert_eq!(split_virtual(&host, None, AHEAD + 1_000, 1_000), said(&expected));
}

#[test]
fn a_virtual_cpu_that_sleeps_because_its_probe_is_throttled_takes_nothing() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 1, IDLE).waking(9_000, 1, 0, 1, VCPU).switch(9_100, 1, 0, 0, VCPU);
    let mut machine = virtual_machine();
    machine.switch(AHEAD + 900, 0, PROBE, 0, IDLE).switch(AHEAD + 9_200, 0, 0, 0, RUNS);
    let expected = [("machine rt_throttling limit of real-time runtime", 8_300)];
    assert_eq!(split_virtual(&host, Some(&machine), AHEAD + 900, 8_300), said(&expected));
}

#[test]
fn a_quota_of_the_machines_group() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 0, IDLE).switch(51_000, 1, 0, 0, VCPU);
    assert_eq!(split_virtual(&host, None, AHEAD + 1_000, 50_000), said(&[("host quota_throttling", 50_000)]));
}

#[test]
fn an_event_of_a_machine_that_was_off_the_cpu_means_that_the_clocks_are_wrong() {
    let mut host = virtual_host();
    host.switch(1_400, 1, 200, 0, (300, 120, "CPU 0/TCG")).switch(1_900, 1, 300, 0, VCPU);
    let mut machine = virtual_machine();
    machine.served(AHEAD + 1_500, 0, VectorExit, PROBE, 236, "local_timer");
    let (host, machine) = (host.trace().unwrap(), machine.trace().unwrap());
    let vcpus = [followed(&[200])];
    let ahead = i64::try_from(AHEAD).unwrap();
    let offsets = Offsets { low: ahead - 99, high: ahead + 99 };
    let cpus = VirtualCpus { host: unlabelled(&host), threads: &vcpus, offsets };
    let world = World::Virtual(cpus, Some((unlabelled(&machine), followed(PROBES))));
    assert_eq!(parts_of(&world, AHEAD, 100), Err(AttributionError::ClocksApart { cpu: 0 }));
}

#[test]
fn a_sleep_of_the_virtual_cpu_narrows_the_offset_and_moves_what_the_host_did() {
    let mut host = virtual_host();
    host.switch(1_000, 1, 200, 1, IDLE).switch(1_500, 1, 0, 0, VCPU);
    let mut machine = virtual_machine();
    machine.tick(AHEAD + 980..AHEAD + 990, 0, PROBE).tick(AHEAD + 1_510..AHEAD + 1_530, 0, PROBE);
    let (host, machine) = (host.trace().unwrap(), machine.trace().unwrap());
    let vcpus = [followed(&[200])];
    let ahead = i64::try_from(AHEAD).unwrap();
    let cpus = VirtualCpus {
        host: unlabelled(&host),
        threads: &vcpus,
        offsets: Offsets { low: ahead - 400, high: ahead + 400 },
    };
    let world = World::Virtual(cpus, Some((unlabelled(&machine), followed(PROBES))));
    let spikes = Spikes { start: &[AHEAD + 900], duration: &[1_000], floor: 0 };
    let found = attribute(&world, spikes, &[]).unwrap();
    assert_eq!((found.offsets.low, found.offsets.high), (ahead - 10, ahead + 10));
    assert_eq!(found.narrowed_by, 1);
}
