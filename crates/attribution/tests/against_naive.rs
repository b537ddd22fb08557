//! The parts of random spikes in random small worlds against a second, plain implementation: at each single
//! cycle it looks at all events up to then, from the beginning, and decides who has the CPU by the rule as
//! the documents say it.
//!
//! Random events are mostly nonsense (exits without entries, threads on two CPUs, lost switches), so the
//! algebra is tested on what no kernel would write as well.

use proptest::prelude::*;
use stealtime_attribution::{EventKind, Offsets, Spikes, VirtualCpus, World, attribute};

use crate::naive::{CPUS, combined, is_blind, plain_cause, sorted, summed};
use crate::recording::{Recording, followed, in_words, unlabelled};

const END: u64 = 400;
/// The followed thread, a real-time and an ordinary one beside it, and the idle thread.
const THREADS: [(i32, i16, &str); 4] = [(5, 10, "probe"), (6, 2, "high"), (7, 120, "low"), (0, 120, "swapper")];
const FOLLOWED: &[i32] = &[5];

#[derive(Debug, Clone, Copy)]
struct Step {
    after: u64,
    cpu: u16,
    what: u8,
    one: usize,
    other: usize,
    state: i64,
    number: i64,
}

fn step() -> impl Strategy<Value = Step> {
    (0..12_u64, 0..CPUS, 0..10_u8, 0..4_usize, 0..4_usize, 0..2_i64, 0..2_i64)
        .prop_map(|(after, cpu, what, one, other, state, number)| Step { after, cpu, what, one, other, state, number })
}

const NAMES: [&str; 2] = ["local_timer", "other"];

fn recording(steps: &[Step], offset: u64) -> Recording {
    let mut recording = Recording::until(END + offset);
    recording.covered.0 = offset;
    let mut time = offset;
    for step in steps {
        time = (time + step.after).min(END + offset);
        let (thread, next) = (THREADS[step.one].0, THREADS[step.other]);
        let name = NAMES[usize::from(step.number == 1)];
        let (cpu, number) = (step.cpu, step.number);
        match step.what {
            0..=3 => recording.switch(time, cpu, thread, step.state, next),
            4 => recording.waking(time, cpu, thread, i64::from(cpu), next),
            5 => recording.served(time, cpu, EventKind::VectorEntry, thread, number, name),
            6 => recording.served(time, cpu, EventKind::VectorExit, thread, number, name),
            7 => recording.served(time, cpu, EventKind::SoftirqEntry, thread, number, "RCU"),
            8 => recording.served(time, cpu, EventKind::SoftirqExit, thread, number, "RCU"),
            _ => recording.lost(time, cpu, 1),
        };
    }
    recording
}

fn spikes() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..END, 1..120_u64), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn one_layer_is_what_each_single_cycle_says(
        steps in prop::collection::vec(step(), 0..60), spikes in spikes()
    ) {
        let recording = recording(&steps, 0);
        let trace = recording.trace().unwrap();
        let start: Vec<u64> = spikes.iter().map(|spike| spike.0).collect();
        let duration: Vec<u64> = spikes.iter().map(|spike| spike.1.min(END - spike.0)).collect();
        let asked = Spikes { start: &start, duration: &duration, floor: 0 };
        let found = attribute(&World::Native(unlabelled(&trace), followed(FOLLOWED)), asked, &[]).unwrap();
        for (row, (&start, &duration)) in start.iter().zip(&duration).enumerate() {
            prop_assert_eq!(found.parts.judged[row], !is_blind(&recording, start, start + duration));
            if found.parts.judged[row] {
                let causes = (start..start + duration).map(|time| plain_cause(&recording, "machine", time));
                prop_assert_eq!(sorted(in_words(&found, row)), summed(causes, duration));
            }
        }
    }

    #[test]
    fn two_layers_are_what_each_single_cycle_of_both_says(
        inner in prop::collection::vec(step(), 0..40), outer in prop::collection::vec(step(), 0..8),
        spikes in spikes()
    ) {
        const AHEAD: u64 = 1_000;
        let (inner, outer) = (recording(&inner, AHEAD), recording(&outer, 0));
        let (machine, host) = (inner.trace().unwrap(), outer.trace().unwrap());
        let start: Vec<u64> = spikes.iter().map(|spike| AHEAD + spike.0).collect();
        let duration: Vec<u64> = spikes.iter().map(|spike| spike.1.min(END - spike.0)).collect();
        let asked = Spikes { start: &start, duration: &duration, floor: 0 };
        let vcpus = [followed(FOLLOWED)];
        let cpus = VirtualCpus {
            host: unlabelled(&host),
            threads: &vcpus,
            offsets: Offsets { low: 1_000, high: 1_000 },
        };
        let world = World::Virtual(cpus, Some((unlabelled(&machine), followed(FOLLOWED))));
        // Random events contradict the clocks more often than not.
        let Ok(found) = attribute(&world, asked, &[]) else { return Ok(()) };
        for (row, (&start, &duration)) in start.iter().zip(&duration).enumerate() {
            let end = start + duration;
            let is_blind = is_blind(&inner, start, end) || is_blind(&outer, start - AHEAD, end - AHEAD);
            prop_assert_eq!(found.parts.judged[row], !is_blind);
            if found.parts.judged[row] {
                let causes = (start..start + duration).map(|time| combined(
                    plain_cause(&inner, "machine", time), plain_cause(&outer, "host", time - AHEAD)
                ));
                prop_assert_eq!(sorted(in_words(&found, row)), summed(causes, duration));
            }
        }
    }

    #[test]
    fn parts_add_up_to_the_excess_to_the_cycle_and_none_is_empty(
        steps in prop::collection::vec(step(), 0..60), spikes in spikes(), floor in 0..60_u64
    ) {
        let recording = recording(&steps, 0);
        let trace = recording.trace().unwrap();
        let (start, duration): (Vec<u64>, Vec<u64>) = spikes.into_iter().unzip();
        let asked = Spikes { start: &start, duration: &duration, floor };
        let found = attribute(&World::Native(unlabelled(&trace), followed(FOLLOWED)), asked, &[]).unwrap();
        prop_assert_eq!(found.parts.first.len(), start.len() + 1);
        for (row, duration) in duration.iter().enumerate() {
            let parts = in_words(&found, row);
            let excess = if found.parts.judged[row] { duration.saturating_sub(floor) } else { 0 };
            prop_assert_eq!(parts.iter().map(|part| part.1).sum::<u64>(), excess);
            prop_assert!(parts.iter().all(|part| part.1 > 0));
            let mut names: Vec<&String> = parts.iter().map(|part| &part.0).collect();
            names.sort();
            names.dedup();
            prop_assert_eq!(names.len(), parts.len());
        }
    }

    #[test]
    fn the_true_offset_is_always_possible(
        sleeps in prop::collection::vec((1..40_u64, 1..40_u64), 1..20),
        seen in prop::collection::vec(0..40_u64, 1..40), below in 0..50_i64, above in 0..50_i64
    ) {
        // A virtual CPU that runs and sleeps in turn; the machine has events only while it runs.
        const AHEAD: u64 = 5_000;
        let mut host = Recording::until(2_000);
        let mut machine = Recording::until(AHEAD + 2_000);
        let mut time = 10;
        let mut pick = seen.iter().cycle();
        host.switch(time, 0, 0, 0, (5, 120, "vcpu"));
        for (runs, sleeps) in sleeps {
            let event = time + pick.next().unwrap() % runs;
            machine.served(AHEAD + event, 0, EventKind::VectorEntry, 0, 236, "local_timer");
            host.switch(time + runs, 0, 5, 1, (0, 120, "swapper"));
            host.switch(time + runs + sleeps, 0, 0, 0, (5, 120, "vcpu"));
            time += runs + sleeps;
        }
        let (host, machine) = (host.trace().unwrap(), machine.trace().unwrap());
        let ahead = i64::try_from(AHEAD).unwrap();
        let vcpus = [followed(FOLLOWED)];
        let offsets = Offsets { low: ahead - below, high: ahead + above };
        let cpus = VirtualCpus { host: unlabelled(&host), threads: &vcpus, offsets };
        let world = World::Virtual(cpus, Some((unlabelled(&machine), followed(FOLLOWED))));
        let found = attribute(&world, Spikes { start: &[], duration: &[], floor: 0 }, &[]).unwrap().offsets;
        prop_assert!(found.low <= ahead && ahead <= found.high, "{found:?}");
        prop_assert!(offsets.low <= found.low && found.high <= offsets.high);
    }
}

/// A stretch of one thread on the only CPU: who, how long, whether it could go on, and whether the switch to
/// the next is recorded.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    who: usize,
    cycles: u64,
    state: i64,
    is_recorded: bool,
}

/// The events of a kernel that leaves switches out, or of one that does not. Each stretch has an interrupt in
/// it and, but for idleness, ends with the account of its time. Who slept is woken before it comes back.
fn honest(stretches: &[Stretch], leaves_out: bool) -> Recording {
    let mut recording = Recording::until(END * 4);
    let mut asleep = [false; 4];
    let mut time = 1;
    // Each has its name and priority from a switch that is recorded.
    for next in THREADS {
        recording.switch(time, 0, 0, 1, next);
        recording.switch(time, 0, next.0, 0, THREADS[3]);
    }
    recording.switch(time, 0, 0, 0, THREADS[stretches[0].who]);
    let mut was_recorded = true;
    for (place, (stretch, next)) in stretches.iter().zip(&stretches[1..]).enumerate() {
        let (thread, comes) = (THREADS[stretch.who].0, THREADS[next.who]);
        let end = time + stretch.cycles;
        recording.served(time + 2, 0, EventKind::VectorEntry, thread, 0, "local_timer");
        if asleep[next.who] && comes.0 != 0 {
            recording.waking(time + 3, 0, thread, 0, comes);
            asleep[next.who] = false;
        }
        recording.served(time + 4, 0, EventKind::VectorExit, thread, 0, "local_timer");
        if thread != 0 {
            recording.runtime(end, 0, thread, thread, i64::try_from(stretch.cycles).unwrap());
        }
        // Of two in a row that are missing nothing tells the first, and nothing comes after the last.
        let is_recorded = stretch.is_recorded || !was_recorded || place + 2 == stretches.len();
        if is_recorded || !leaves_out {
            recording.switch(end, 0, thread, stretch.state, comes);
        }
        was_recorded = is_recorded;
        asleep[stretch.who] = stretch.state != 0;
        time = end;
    }
    recording
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let one = (1..4_usize, 8..40_u64, 0..2_i64, any::<bool>());
    let stretch = one.prop_map(|(step, cycles, state, is_recorded)| Stretch { who: step, cycles, state, is_recorded });
    prop::collection::vec(stretch, 3..24).prop_map(|mut stretches| {
        let mut who = 0;
        for stretch in &mut stretches {
            // Never the same twice in a row.
            who = (who + stretch.who) % 4;
            stretch.who = who;
        }
        // The probe comes back: how it left is not told of one that does not.
        if who != 0 {
            stretches.push(Stretch { who: 0, cycles: 8, state: 0, is_recorded: true });
        }
        stretches
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn switches_that_were_left_out_change_nothing(stretches in stretches(), spikes in spikes()) {
        let (start, duration): (Vec<u64>, Vec<u64>) = spikes.into_iter().unzip();
        let asked = Spikes { start: &start, duration: &duration, floor: 0 };
        let told = |leaves_out| {
            let recording = honest(&stretches, leaves_out);
            let trace = recording.trace().unwrap();
            let found = attribute(&World::Native(unlabelled(&trace), followed(FOLLOWED)), asked, &[]).unwrap();
            let parts: Vec<_> = (0..start.len()).map(|row| sorted(in_words(&found, row))).collect();
            (parts, found.parts.judged, found.unseen_switches)
        };
        let (whole, left_out) = (told(false), told(true));
        prop_assert_eq!((whole.2, left_out.2), (0, 0));
        prop_assert_eq!(whole.0, left_out.0);
        prop_assert_eq!(whole.1, left_out.1);
    }
}
