//! A thread that is woken on its way to sleep does not sleep, whatever its switch says.

use stealtime_attribution::{Followed, Labelled, Offsets, VirtualCpus, World};

use crate::recording::{Recording, followed, parts_of};

const VCPU: (i32, i16, &str) = (200, 120, "CPU 0/TCG");
const NEIGHBOUR: (i32, i16, &str) = (300, 120, "CPU 0/TCG");

fn split(host: &Recording, start: u64, duration: u64) -> Vec<(String, u64)> {
    let trace = host.trace().unwrap();
    let labels = ["neighbour 1".to_owned()];
    let threads = [Followed { real_time: false, ..followed(&[200]) }];
    let host = Labelled { trace: &trace, threads: &[(300, 0)], labels: &labels, cpus: None };
    let cpus = VirtualCpus { host, threads: &threads, offsets: Offsets { low: 0, high: 0 } };
    parts_of(&World::Virtual(cpus, None), start, duration).unwrap()
}

/// The virtual CPU leaves at `500_000` saying that it sleeps, and was woken before that.
fn left_saying_that_it_sleeps(woken_before: u64) -> Recording {
    let mut host = Recording::until(1_000_000);
    host.switch(10, 1, 0, 0, VCPU)
        .waking(500_000 - woken_before, 0, 201, 1, VCPU)
        .switch(500_000, 1, 200, 1, NEIGHBOUR);
    host
}

const ASLEEP: &str = "host vm_exit waiting in the emulator";
const PREEMPTED: &str = "host host_preempted neighbour 1";

#[test]
fn it_waits_for_its_cpu_from_the_moment_it_left() {
    let mut host = left_saying_that_it_sleeps(2_000);
    host.switch(504_000, 1, 300, 0, VCPU);
    assert_eq!(split(&host, 500_000, 4_000), [(PREEMPTED.to_owned(), 4_000)]);
}

#[test]
fn it_slept_if_it_was_woken_again() {
    let mut host = left_saying_that_it_sleeps(2_000);
    host.waking(503_000, 0, 201, 1, VCPU).switch(504_000, 1, 300, 0, VCPU);
    let expected = [(ASLEEP.to_owned(), 3_000), (PREEMPTED.to_owned(), 1_000)];
    assert_eq!(split(&host, 500_000, 4_000), expected);
}

#[test]
fn it_slept_if_the_wake_up_came_long_before() {
    let mut host = left_saying_that_it_sleeps(200_000);
    host.switch(504_000, 1, 300, 0, VCPU);
    assert_eq!(split(&host, 500_000, 4_000), [(ASLEEP.to_owned(), 4_000)]);
}
