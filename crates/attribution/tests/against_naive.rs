//! The parts of random spikes in random small worlds against a second, plain implementation: at each single cycle it
//! looks at all events up to then, from the beginning, and decides who has the CPU by the rule as the documents say it.
//!
//! Random events are mostly nonsense (exits without entries, threads on two CPUs, lost switches), so the algebra is
//! tested on what no kernel would write as well.

#![allow(clippy::unwrap_used)] // of what the test itself made up

mod recording;

use proptest::prelude::*;
use recording::{Recording, followed, in_words, unlabelled};
use stealtime_attribution::{EventKind, Offsets, Spikes, VirtualCpus, World, attribute};

const END: u64 = 400;
const CPUS: u16 = 2;
/// The followed thread, a real-time and an ordinary one beside it, and the idle thread.
const THREADS: [(i32, i16, &str); 4] =
    [(5, 10, "probe"), (6, 2, "high"), (7, 120, "low"), (0, 120, "swapper")];
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
    (0..12_u64, 0..CPUS, 0..10_u8, 0..4_usize, 0..4_usize, 0..2_i64, 0..2_i64).prop_map(
        |(after, cpu, what, one, other, state, number)| Step { after, cpu, what, one, other, state, number },
    )
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

/// What a layer's one followed thread does, and what each CPU does, after some events; told plainly.
#[derive(Debug, Clone)]
struct Plain {
    running: [Option<i32>; CPUS as usize],
    open: [Vec<(u8, i64, i32, String)>; CPUS as usize],
    /// `None`: nobody knows.
    state: Option<State>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    On(u16),
    Ready { cpu: u16, woken: bool },
    Asleep,
}

fn plain(recording: &Recording, until: u64) -> Plain {
    let mut now = Plain { running: [None; 2], open: [vec![], vec![]], state: None };
    for row in (0..recording.time.len()).take_while(|&row| recording.time[row] <= until) {
        let (cpu, thread) = (recording.cpu[row], recording.thread[row]);
        let at = usize::from(cpu);
        let kind = recording.kind[row];
        if kind == EventKind::Lost as u8 {
            now.running[at] = None;
            now.open[at].clear();
            if matches!(now.state, Some(State::On(c) | State::Ready { cpu: c, .. }) if c == cpu) {
                now.state = None;
            }
            continue;
        }
        if now.running[at] != Some(thread) {
            now.open[at].retain(|open| open.0 == EventKind::SoftirqEntry as u8);
            if now.running[at] == Some(5) {
                now.state = None;
            }
            if thread == 5 {
                now.state = Some(State::On(cpu));
            }
            now.running[at] = Some(thread);
        }
        let (number, other) = (recording.value[row], recording.other[row]);
        let name = recording.names.get(recording.name[row] as usize).cloned().unwrap_or_default();
        if kind == EventKind::Switch as u8 {
            if thread == 5 {
                let ready = State::Ready { cpu, woken: false };
                now.state = Some(if number == 0 { ready } else { State::Asleep });
            }
            if other == 5 {
                now.state = Some(State::On(cpu));
            }
            if now.state == Some(State::Asleep) && crosses_its_wake_up(recording, row) {
                now.state = Some(State::Ready { cpu, woken: true });
            }
            now.running[at] = Some(other);
            now.open[at].retain(|open| open.0 == EventKind::SoftirqEntry as u8);
        } else if kind == EventKind::Waking as u8 {
            if other == 5 && matches!(now.state, None | Some(State::Asleep)) {
                now.state = Some(State::Ready { cpu, woken: true });
            }
        } else if kind == EventKind::VectorEntry as u8 || kind == EventKind::SoftirqEntry as u8 {
            now.open[at].push((kind, number, thread, name));
        } else if let Some(place) =
            now.open[at].iter().rposition(|open| open.0 == kind - 1 && open.1 == number && open.2 == thread)
        {
            let rest = now.open[at].split_off(place);
            now.open[at].extend(rest.into_iter().skip(1).filter(|open| open.2 != thread));
        }
    }
    now
}

/// Whether an event wakes the followed thread, or puts it on a CPU, or has it leave, or shows it there.
fn tells_of_it(recording: &Recording, row: usize) -> bool {
    let is = |kind: EventKind| recording.kind[row] == kind as u8;
    let is_other = recording.other[row] == 5 && (is(EventKind::Switch) || is(EventKind::Waking));
    !is(EventKind::Lost) && (recording.thread[row] == 5 || is_other)
}

/// Whether the followed thread says at this switch that it sleeps, although it was woken since it came.
fn sleeps_although_woken(recording: &Recording, row: usize) -> bool {
    let is_switch = |row: usize| recording.kind[row] == EventKind::Switch as u8;
    let (wakes, moves) = (
        |row: usize| recording.kind[row] == EventKind::Waking as u8 && recording.other[row] == 5,
        |row: usize| is_switch(row) && (recording.thread[row] == 5 || recording.other[row] == 5),
    );
    let leaves = is_switch(row) && recording.thread[row] == 5 && recording.other[row] != 5;
    let last = (0..row).rev().find(|&at| moves(at) || wakes(at)).filter(|&at| wakes(at));
    leaves
        && recording.value[row] != 0
        && last.is_some_and(|woken| {
            // Not by the wake-up that shows that it did sleep the last time.
            let before = (0..woken).rev().find(|&at| tells_of_it(recording, at));
            recording.thread[woken] == 5 || !before.is_some_and(|at| sleeps_although_woken(recording, at))
        })
}

/// Whether the followed thread did not sleep where it said so: it is next heard of without being woken again. (The
/// columns are whole: only `time` is ever cut short.)
fn crosses_its_wake_up(recording: &Recording, row: usize) -> bool {
    let next = (row + 1..recording.kind.len()).find(|&at| tells_of_it(recording, at));
    let is_awake = |at: usize| recording.thread[at] == 5 || recording.kind[at] == EventKind::Switch as u8;
    sleeps_although_woken(recording, row) && next.is_some_and(is_awake)
}

/// The cause at one cycle, in the words of `in_words`.
fn plain_cause(recording: &Recording, layer: &str, time: u64) -> Option<String> {
    let now = plain(recording, time);
    let innermost = |cpu: u16| {
        let (open, running) = (&now.open[usize::from(cpu)], now.running[usize::from(cpu)]);
        open.iter().rev().find(|open| Some(open.2) == running).map(|(kind, _, _, name)| {
            let softirq = *kind == EventKind::SoftirqEntry as u8;
            match (layer, softirq, name.as_str()) {
                ("machine", true, name) => format!("machine softirq {name}"),
                ("machine", false, "local_timer") => "machine timer_tick".to_owned(),
                ("machine", false, name) => format!("machine interrupt {name}"),
                (_, true, name) => format!("host host_interrupt softirq {name}"),
                (_, false, name) => format!("host host_interrupt {name}"),
            }
        })
    };
    if left_idle_unrecorded(recording, time) {
        return None;
    }
    match now.state? {
        State::On(cpu) => innermost(cpu),
        State::Asleep => (layer == "host").then(|| "host vm_exit waiting in the emulator".to_owned()),
        State::Ready { cpu, woken } => {
            let running = now.running[usize::from(cpu)]?;
            let tells = |row: usize| recording.other[row] == running;
            let is_switch = |row: usize| recording.kind[row] == EventKind::Switch as u8;
            let is_waking = |row: usize| recording.kind[row] == EventKind::Waking as u8;
            // Both may be told later; here they never change.
            let is_named =
                (0..recording.time.len()).any(|row| tells(row) && (is_switch(row) || is_waking(row)));
            let has_priority = (0..recording.time.len()).any(|row| tells(row) && is_switch(row));
            if !woken && (running == 0 || (running == 7 && has_priority)) {
                return Some(format!("{layer} rt_throttling limit of real-time runtime"));
            }
            let interrupt = (layer == "machine").then(|| innermost(cpu)).flatten();
            interrupt.or_else(|| {
                Some(match (layer, running) {
                    ("machine", 0) => "machine thread idle".to_owned(),
                    (_, 0) => "host vm_exit waiting in the emulator".to_owned(),
                    (layer, running) => {
                        let kind = if layer == "machine" { "thread" } else { "host_preempted" };
                        let name = match running {
                            _ if !is_named && running != 5 => "a thread without a name",
                            6 => "high",
                            7 => "low",
                            _ => "probe",
                        };
                        format!("{layer} {kind} {name}")
                    }
                })
            })
        }
    }
}

fn combined(inner: Option<String>, outer: Option<String>) -> Option<String> {
    let sleeps = outer.as_deref() == Some("host vm_exit waiting in the emulator");
    let throttled = inner.as_deref().is_some_and(|inner| inner.contains("throttling"));
    if sleeps && throttled { inner } else { outer.or(inner) }
}

fn summed(causes: impl Iterator<Item = Option<String>>, excess: u64) -> Vec<(String, u64)> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for cause in causes.flatten() {
        match sums.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, sum)) => *sum += 1,
            None => sums.push((cause, 1)),
        }
    }
    let total: u64 = sums.iter().map(|part| part.1).sum();
    if total < excess {
        sums.push(("above unexplained".to_owned(), excess - total));
    }
    sums.sort();
    sums
}

fn sorted(mut parts: Vec<(String, u64)>) -> Vec<(String, u64)> {
    parts.sort();
    parts
}

/// Whether a spike touches a stretch in which events were lost, or a switch that concerns the followed thread must have
/// happened that was not recorded, or a sleep that may have ended among the lost events.
fn is_blind(recording: &Recording, start: u64, end: u64) -> bool {
    let rows = || 0..recording.time.len();
    let is_lost = |row: usize| recording.kind[row] == EventKind::Lost as u8;
    let touches = |(from, until): (u64, u64)| from < until && start < until && from < end;
    let losses = || rows().filter(|&row| is_lost(row)).map(|row| since_before(recording, row));
    let doubtful = |(asleep, awake): (u64, u64)| {
        let within = losses().filter(|&(from, until)| from < awake && asleep < until && from < until);
        within.map(|(from, _)| from.max(asleep)).min().is_some_and(|from| touches((from, awake)))
    };
    losses().any(touches)
        || rows().filter(|&row| is_unseen(recording, row)).any(|row| touches(since_before(recording, row)))
        || sleeps(recording).into_iter().any(doubtful)
}

/// From the event before on the same CPU up to a row.
fn since_before(recording: &Recording, row: usize) -> (u64, u64) {
    let before = (0..row).rev().find(|&earlier| recording.cpu[earlier] == recording.cpu[row]);
    (before.map_or(recording.covered.0, |earlier| recording.time[earlier]), recording.time[row])
}

/// From when to when the followed thread sleeps, as far as events tell.
fn sleeps(recording: &Recording) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let mut since = None;
    for row in 0..recording.time.len() {
        let mut until = recording.clone();
        until.time.truncate(row + 1);
        let time = recording.time[row];
        if plain(&until, u64::MAX).state == Some(State::Asleep) {
            since.get_or_insert(time);
        } else {
            found.extend(since.take().map(|since| (since, time)));
        }
    }
    found.extend(since.map(|since| (since, recording.covered.1)));
    found
}

/// Whether the followed thread was woken on an idle CPU before this moment, and the next event of that CPU shows that it
/// runs there without a switch to it.
fn left_idle_unrecorded(recording: &Recording, time: u64) -> bool {
    let rows = recording.time.len();
    let shows = |row: usize| {
        recording.time[row] > time
            && recording.thread[row] == 5
            && woken_on_idle(recording, row).is_some_and(|it| it <= time)
    };
    (0..rows).filter(|&row| recording.kind[row] != EventKind::Lost as u8).any(shows)
}

/// Since when the followed thread could run, if it was woken on an idle CPU and an event shows it there unrecorded.
fn woken_on_idle(recording: &Recording, row: usize) -> Option<u64> {
    let mut earlier = recording.clone();
    earlier.time.truncate(row);
    let (now, cpu) = (plain(&earlier, u64::MAX), recording.cpu[row]);
    let on_idle = recording.thread[row] == 5 && now.running[usize::from(cpu)] == Some(0);
    if !on_idle || !matches!(now.state, Some(State::Ready { woken: true, .. })) {
        return None;
    }
    let woken = (0..row).rev().find(|&before| {
        let mut until = recording.clone();
        until.time.truncate(before);
        let was_awake = matches!(plain(&until, u64::MAX).state, Some(State::Ready { woken: true, .. }));
        !was_awake || crosses_its_wake_up(recording, before)
    })?;
    let last = (0..row).rev().find(|&before| recording.cpu[before] == cpu)?;
    Some(recording.time[woken].max(recording.time[last]))
}

fn is_unseen(recording: &Recording, row: usize) -> bool {
    let mut earlier = recording.clone();
    earlier.time.truncate(row);
    let (now, cpu) = (plain(&earlier, u64::MAX), recording.cpu[row]);
    let Some(running) = now.running[usize::from(cpu)] else { return false };
    let thread = recording.thread[row];
    let is_there = matches!(now.state, Some(State::On(at) | State::Ready { cpu: at, .. }) if at == cpu);
    running != thread && woken_on_idle(recording, row).is_none() && (is_there || running == 5 || thread == 5)
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

/// A stretch of one thread on the only CPU: who, how long, whether it could go on, and whether the switch to the next is
/// recorded.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    who: usize,
    cycles: u64,
    state: i64,
    is_recorded: bool,
}

/// The events of a kernel that leaves switches out, or of one that does not. Each stretch has an interrupt in it and, but
/// for idleness, ends with the account of its time. Who slept is woken before it comes back.
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
    let stretch =
        one.prop_map(|(step, cycles, state, is_recorded)| Stretch { who: step, cycles, state, is_recorded });
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
