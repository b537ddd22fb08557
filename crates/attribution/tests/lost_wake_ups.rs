//! Wake-ups among lost events: who wakes a thread has a CPU of its own, so the loss may be where the machine
//! never runs.

use stealtime_attribution::{EventKind, Labelled, Offsets, Spikes, UserMode, VirtualCpus, World, attribute};

use crate::recording::virtual_world::{AHEAD, IDLE, VCPU, said, split_virtual, virtual_host};
use crate::recording::{Recording, followed, parts_of, unlabelled};

const HOG: (i32, i16, &str) = (99, 120, "hog");
const SLEEPS: u64 = 2_000;
const RUNS_AGAIN: u64 = 9_000;

/// A virtual CPU on CPU 1 that sleeps and finds a hog there when it is woken from CPU 0; `happens` on CPU 0
/// meanwhile.
fn host(happens: impl FnOnce(&mut Recording)) -> Recording {
    let mut host = virtual_host();
    host.served(1_000, 0, EventKind::VectorEntry, 77, 236, "local_timer").switch(SLEEPS, 1, 200, 1, HOG);
    happens(&mut host);
    host.switch(RUNS_AGAIN, 1, 99, 0, VCPU);
    host
}

fn split(host: &Recording, start: u64, end: u64) -> Vec<(String, u64)> {
    split_virtual(host, None, AHEAD + start, end - start)
}

#[test]
fn a_sleep_that_overlaps_a_loss_on_any_cpu_is_not_judged() {
    let recorded = host(|host| {
        host.waking(2_500, 0, 77, 1, VCPU);
    });
    let expected = [("host host_preempted hog", 6_500), ("host vm_exit waiting in the emulator", 500)];
    assert_eq!(split(&recorded, SLEEPS, RUNS_AGAIN), said(&expected));
    let lost = host(|host| {
        host.lost(2_600, 0, 1);
    });
    assert_eq!(split(&lost, SLEEPS, RUNS_AGAIN), [], "it waited for the hog, or for the emulator: nobody knows");
}

#[test]
fn what_comes_after_the_sleep_and_before_it_is_judged() {
    let lost = host(|host| {
        // What was lost was before this event of CPU 0.
        host.served(2_400, 0, EventKind::VectorEntry, 77, 236, "local_timer")
            .lost(2_600, 0, 1)
            .waking(3_000, 0, 77, 1, VCPU);
    });
    let waited = [("host host_preempted hog", 6_000)];
    assert_eq!(split(&lost, 3_000, RUNS_AGAIN), said(&waited));
    let slept = [("host vm_exit waiting in the emulator", 400)];
    assert_eq!(split(&lost, SLEEPS, 2_400), said(&slept), "no wake-up was lost yet");
    assert_eq!(split(&lost, SLEEPS, 2_401), []);
    assert_eq!(split(&lost, 2_999, RUNS_AGAIN), []);
}

#[test]
fn a_loss_while_it_runs_or_waits_elsewhere_changes_nothing() {
    let lost = host(|host| {
        host.waking(2_500, 0, 77, 1, VCPU).lost(2_600, 0, 1);
    });
    let expected = [("host host_preempted hog", 6_500), ("host vm_exit waiting in the emulator", 500)];
    assert_eq!(split(&lost, SLEEPS, RUNS_AGAIN), said(&expected));
}

#[test]
fn a_sleep_that_never_ends_is_not_judged_either() {
    let mut host = virtual_host();
    host.switch(SLEEPS, 1, 200, 1, IDLE).lost(2_600, 0, 1);
    assert_eq!(split(&host, SLEEPS, RUNS_AGAIN), []);
}

#[test]
fn a_user_mode_guest_that_seems_idle_among_lost_events_is_not_judged() {
    const KERNEL: (i32, i16, &str) = (400, 120, "linux.uml");
    let split = |lost: bool| {
        let mut host = Recording::until(100_000);
        host.switch(10, 1, 0, 0, KERNEL).switch(SLEEPS, 1, KERNEL.0, 1, HOG);
        if lost {
            host.lost(2_600, 0, 1);
        }
        host.waking(8_000, 0, 77, 1, KERNEL).switch(RUNS_AGAIN, 1, HOG.0, 0, KERNEL);
        let trace = host.trace().unwrap();
        let guest = UserMode { kernel_threads: &[400], pointers: &[], probe_never_sleeps: false, real_time: false };
        let labelled = Labelled { trace: &trace, threads: &[], labels: &[], cpus: Some(&[1]) };
        parts_of(&World::UserMode(labelled, guest), SLEEPS, RUNS_AGAIN - SLEEPS).unwrap()
    };
    let expected = [("host host_preempted hog", 1_000), ("host vm_exit waiting for its timer", 6_000)];
    let mut whole = split(false);
    whole.sort();
    assert_eq!(whole, said(&expected));
    assert_eq!(split(true), []);
}

#[test]
fn clocks_are_not_narrowed_by_a_sleep_in_which_it_may_have_run() {
    let offsets = |lost: bool| {
        let mut host = virtual_host();
        host.switch(SLEEPS, 1, 200, 1, IDLE);
        if lost {
            host.lost(5_000, 1, 2);
        }
        host.switch(RUNS_AGAIN, 1, 0, 0, VCPU);
        let mut machine = Recording::until(AHEAD + 100_000);
        machine.served(AHEAD + 1_900, 0, EventKind::VectorEntry, 0, 236, "local_timer");
        machine.served(AHEAD + 9_100, 0, EventKind::VectorExit, 0, 236, "local_timer");
        let (host, machine) = (host.trace().unwrap(), machine.trace().unwrap());
        let ahead = i64::try_from(AHEAD).unwrap();
        let within = Offsets { low: ahead - 1_000, high: ahead + 1_000 };
        let vcpus = [followed(&[200])];
        let cpus = VirtualCpus { host: unlabelled(&host), threads: &vcpus, offsets: within };
        let world = World::Virtual(cpus, Some((unlabelled(&machine), followed(&[100]))));
        let none = Spikes { start: &[], duration: &[], floor: 0 };
        (attribute(&world, none, &[]).unwrap().offsets, within)
    };
    let (whole, within) = offsets(false);
    assert!(within.low < whole.low && whole.high < within.high, "{whole:?}");
    let (lost, within) = offsets(true);
    assert_eq!(lost, within);
}
