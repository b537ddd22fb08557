//! A host, a virtual CPU on it, and the machine within.

use stealtime_attribution::{Followed, Labelled, Offsets, VirtualCpus, World};

use super::{PROBE, PROBES, Recording, followed, parts_of, unlabelled};

/// No thread.
pub const IDLE: (i32, i16, &str) = (0, 120, "swapper/1");
/// The probe, in its machine.
pub const RUNS: (i32, i16, &str) = (PROBE, 4, "st-tick");
/// The thread of the host that runs it.
pub const VCPU: (i32, i16, &str) = (200, 120, "CPU 0/TCG");

/// A host that runs a virtual CPU on its CPU 1 from 10 on.
pub fn virtual_host() -> Recording {
    let mut recording = Recording::until(100_000);
    recording.switch(10, 1, 0, 0, VCPU);
    recording
}

/// So far is the guest's counter ahead of the host's.
pub const AHEAD: u64 = 1_000_000;

/// A machine that runs the probe on its CPU 0.
pub fn virtual_machine() -> Recording {
    let mut recording = Recording::until(AHEAD + 100_000);
    recording.switch(AHEAD + 20, 0, 0, 0, RUNS);
    recording
}

/// The parts of one spike, in words; the virtual CPU may use the host's CPU 1 only.
pub fn split_virtual(host: &Recording, machine: Option<&Recording>, start: u64, duration: u64) -> Vec<(String, u64)> {
    let host = host.trace().unwrap();
    let machine = machine.map(|machine| machine.trace().unwrap());
    let labels = ["emulator".to_owned(), "neighbour 1".to_owned()];
    let vcpus = [Followed { real_time: false, ..followed(&[200]) }];
    let host = Labelled { trace: &host, threads: &[(201, 0), (300, 1)], labels: &labels, cpus: Some(&[1]) };
    let ahead = i64::try_from(AHEAD).unwrap();
    let cpus = VirtualCpus { host, threads: &vcpus, offsets: Offsets { low: ahead, high: ahead } };
    let inner = machine.as_ref().map(|trace| (unlabelled(trace), followed(PROBES)));
    parts_of(&World::Virtual(cpus, inner), start, duration).unwrap()
}

/// What is expected, in the same words.
pub fn said(parts: &[(&str, u64)]) -> Vec<(String, u64)> {
    parts.iter().map(|&(words, cycles)| (words.to_owned(), cycles)).collect()
}
