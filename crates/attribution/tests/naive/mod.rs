//! The plain implementation: what has the CPU at a single cycle, derived from all events up to then. The
//! followed thread is 5.

use stealtime_attribution::EventKind;

use crate::recording::Recording;

pub const CPUS: u16 = 2;

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

/// Whether the followed thread did not sleep where it said so: it is next heard of without being woken again.
/// (The columns are whole: only `time` is ever cut short.)
fn crosses_its_wake_up(recording: &Recording, row: usize) -> bool {
    let next = (row + 1..recording.kind.len()).find(|&at| tells_of_it(recording, at));
    let is_awake = |at: usize| recording.thread[at] == 5 || recording.kind[at] == EventKind::Switch as u8;
    sleeps_although_woken(recording, row) && next.is_some_and(is_awake)
}

/// The cause at one cycle, in the words of `in_words`.
pub fn plain_cause(recording: &Recording, layer: &str, time: u64) -> Option<String> {
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
            let is_named = (0..recording.time.len()).any(|row| tells(row) && (is_switch(row) || is_waking(row)));
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

pub fn combined(inner: Option<String>, outer: Option<String>) -> Option<String> {
    let sleeps = outer.as_deref() == Some("host vm_exit waiting in the emulator");
    let throttled = inner.as_deref().is_some_and(|inner| inner.contains("throttling"));
    if sleeps && throttled { inner } else { outer.or(inner) }
}

pub fn summed(causes: impl Iterator<Item = Option<String>>, excess: u64) -> Vec<(String, u64)> {
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

pub fn sorted(mut parts: Vec<(String, u64)>) -> Vec<(String, u64)> {
    parts.sort();
    parts
}

/// Whether a spike touches a stretch in which events were lost, or a switch that concerns the followed thread
/// must have happened that was not recorded, or a sleep that may have ended among the lost events.
pub fn is_blind(recording: &Recording, start: u64, end: u64) -> bool {
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

/// Whether the followed thread was woken on an idle CPU before this moment, and the next event of that CPU
/// shows that it runs there without a switch to it.
fn left_idle_unrecorded(recording: &Recording, time: u64) -> bool {
    let rows = recording.time.len();
    let shows = |row: usize| {
        recording.time[row] > time
            && recording.thread[row] == 5
            && woken_on_idle(recording, row).is_some_and(|it| it <= time)
    };
    (0..rows).filter(|&row| recording.kind[row] != EventKind::Lost as u8).any(shows)
}

/// Since when the followed thread could run, if it was woken on an idle CPU and an event shows it there
/// unrecorded.
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
