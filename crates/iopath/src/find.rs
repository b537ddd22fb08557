//! Looking for the moments of requests in the traces.

use rustc_hash::{FxHashMap, FxHashSet};
use stealtime_wire::{EventKind, TraceColumns};

use crate::error::PathError;
use crate::occupation::{Helpers, Occupation, Stretches};

/// Linux counts a disk in these, whatever its own blocks are (`include/linux/blk_types.h`, `SECTOR_SHIFT`).
const SECTOR_BYTES: u64 = 512;

/// `sendto` and `sendmsg` (`arch/x86/entry/syscalls/syscall_64.tbl`).
const SENDING: [i64; 2] = [44, 46];
/// `recvfrom` and `recvmsg` (the same table).
const RECEIVING: [i64; 2] = [45, 47];

/// The guest's own trace.
#[derive(Debug, Clone, Copy)]
pub struct Guest<'a> {
    pub trace: TraceColumns<'a>,
}

/// What is known of the emulator on the host.
#[derive(Debug, Clone, Copy)]
pub struct Emulator<'a> {
    /// The thread of each virtual CPU, by its number in the guest.
    pub virtual_cpus: &'a [i32],
    /// When it raised an interrupt, by its own trace, sorted; on the host's counter.
    pub raised: &'a [u64],
    /// How far these may be from the truth, in cycles.
    pub raised_error: u64,
}

/// The traces of a trial.
#[derive(Debug, Clone, Copy)]
pub struct Traces<'a> {
    /// `None` where the guest's kernel cannot be traced.
    pub guest: Option<Guest<'a>>,
    /// `None` where the host was not.
    pub host: Option<(TraceColumns<'a>, Emulator<'a>)>,
}

impl Traces<'_> {
    pub(crate) fn check(&self) -> Result<(), PathError> {
        let tables = [
            ("the guest's trace", self.guest.map(|guest| guest.trace)),
            ("the host's trace", self.host.map(|(trace, _)| trace)),
        ];
        for (table, columns) in tables {
            if let Some(columns) = columns
                && let Some((column, rows)) = columns.uneven()
            {
                return Err(PathError::Length { table, column, rows, expected: columns.time.len() });
            }
        }
        Ok(())
    }
}

/// An event and the CPU of the guest that it was on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub time: u64,
    pub cpu: u16,
}

/// The guest's events, by what they are looked for.
#[derive(Debug, Default)]
pub struct GuestEvents {
    issued: FxHashMap<u64, Vec<Seen>>,
    completed: FxHashMap<u64, Vec<Seen>>,
    handlers: FxHashMap<u16, Vec<u64>>,
}

impl GuestEvents {
    pub fn of(trace: &TraceColumns<'_>) -> Self {
        let mut found = Self::default();
        for row in 0..trace.time.len() {
            let seen = Seen { time: trace.time[row], cpu: trace.cpu[row] };
            let at = |events: &mut FxHashMap<u64, Vec<Seen>>| {
                if let Ok(sector) = u64::try_from(trace.value[row]) {
                    events.entry(sector).or_default().push(seen);
                }
            };
            match EventKind::from_code(trace.kind[row]) {
                Some(EventKind::BlockIssue) => at(&mut found.issued),
                Some(EventKind::BlockComplete) => at(&mut found.completed),
                Some(EventKind::InterruptEntry) => found.handlers.entry(seen.cpu).or_default().push(seen.time),
                _ => {}
            }
        }
        found
    }

    pub fn issued(&self, offset_bytes: u64, since: u64, until: u64) -> Option<Seen> {
        first_of(self.issued.get(&(offset_bytes / SECTOR_BYTES))?, since, until)
    }

    pub fn completed(&self, offset_bytes: u64, since: u64, until: u64) -> Option<Seen> {
        first_of(self.completed.get(&(offset_bytes / SECTOR_BYTES))?, since, until)
    }

    /// The handler of a device's interrupt that began first since a time, and that which began last until another one.
    pub fn handlers(&self, cpu: u16, since: u64, until: u64) -> Option<(u64, u64)> {
        let times = self.handlers.get(&cpu)?;
        let (first, end) = (times.partition_point(|&time| time < since), times.partition_point(|&time| time <= until));
        (first < end).then(|| (times[first], times[end - 1]))
    }
}

fn first_of(seen: &[Seen], since: u64, until: u64) -> Option<Seen> {
    let place = seen.partition_point(|seen| seen.time < since);
    seen.get(place).copied().filter(|seen| seen.time <= until)
}

/// The host's events, by what they are looked for.
#[derive(Debug, Default)]
pub struct HostEvents {
    /// Positioned reads and writes of the emulator, by where in the file: begin and end.
    transfers: FxHashMap<u64, Vec<(u64, u64)>>,
    /// Calls that send, by when they begin.
    sent: Vec<u64>,
    /// Calls that receive, by when they end.
    received: Vec<u64>,
    /// When the thread of each virtual CPU left the guest for the host's kernel.
    left: Vec<Vec<u64>>,
    /// When another thread woke that of each virtual CPU.
    woken: Vec<Vec<u64>>,
    pub occupation: Vec<Occupation>,
    pub helpers: Helpers,
    /// Of each virtual CPU: when it could run and did not, and the emulator slept.
    pub held_up: Vec<Stretches>,
}

impl HostEvents {
    pub fn of(host: &TraceColumns<'_>, emulator: &Emulator<'_>) -> Self {
        let cpus = emulator.virtual_cpus;
        let mut found =
            Self { left: vec![Vec::new(); cpus.len()], woken: vec![Vec::new(); cpus.len()], ..Self::default() };
        let number: FxHashMap<i32, usize> = cpus.iter().enumerate().map(|(cpu, &thread)| (thread, cpu)).collect();
        let mut helpers: FxHashSet<i32> = FxHashSet::default();
        let mut begun: FxHashMap<i32, (u64, u64)> = FxHashMap::default();
        for row in 0..host.time.len() {
            let (time, thread, value) = (host.time[row], host.thread[row], host.value[row]);
            let kind = EventKind::from_code(host.kind[row]);
            // Only calls of the emulator's threads are recorded.
            if matches!(kind, Some(EventKind::FileCall | EventKind::CallEntry)) && !number.contains_key(&thread) {
                helpers.insert(thread);
            }
            match kind {
                Some(EventKind::FileCall) => {
                    if let Ok(offset) = u64::try_from(value) {
                        begun.insert(thread, (offset, time));
                    }
                    found.leave(&number, thread, time);
                }
                Some(EventKind::CallEntry) => {
                    begun.remove(&thread);
                    if SENDING.contains(&value) {
                        found.sent.push(time);
                    }
                    found.leave(&number, thread, time);
                }
                Some(EventKind::CallExit) => {
                    if let Some((offset, start)) = begun.remove(&thread) {
                        found.transfers.entry(offset).or_default().push((start, time));
                    }
                    if RECEIVING.contains(&value) {
                        found.received.push(time);
                    }
                }
                Some(EventKind::VmExit) => found.leave(&number, thread, time),
                Some(EventKind::Waking) => {
                    if let Some(&cpu) = number.get(&host.other[row])
                        && thread != host.other[row]
                    {
                        found.woken[cpu].push(time);
                    }
                }
                _ => {}
            }
        }
        for transfers in found.transfers.values_mut() {
            transfers.sort_unstable();
        }
        found.received.sort_unstable();
        found.occupation = cpus.iter().map(|&thread| Occupation::of(thread, host)).collect();
        found.helpers = Helpers::of(&helpers, host);
        found.held_up = found.occupation.iter().map(|cpu| found.helpers.held_up_by(cpu)).collect();
        found
    }

    fn leave(&mut self, number: &FxHashMap<i32, usize>, thread: i32, time: u64) {
        if let Some(&cpu) = number.get(&thread) {
            self.left[cpu].push(time);
        }
    }

    /// When the host's kernel had a transfer of that place, within a stretch.
    pub fn transfer(&self, offset_bytes: u64, since: u64, until: u64) -> Option<(u64, u64)> {
        let transfers = self.transfers.get(&offset_bytes)?;
        let place = transfers.partition_point(|&(start, _)| start < since);
        transfers.get(place).copied().filter(|&(_, end)| end <= until)
    }

    /// When something was sent first, and its answer was there last, within a stretch.
    pub fn exchange(&self, since: u64, until: u64) -> Option<(u64, u64)> {
        let sent = first_in(&self.sent, since, until)?;
        let answered = first_in(&self.received, sent, until)?;
        let next = first_in(&self.sent, answered, until).unwrap_or(until);
        last_in(&self.received, answered, next).map(|received| (sent, received))
    }

    /// The same, if nothing else was sent or received within `apart` before it.
    pub fn lone_exchange(&self, since: u64, until: u64, apart: u64) -> Option<(u64, u64)> {
        let (sent, received) = self.exchange(since, until)?;
        let before = sent.saturating_sub(apart);
        let is_lone = |times: &[u64]| first_in(times, before, sent).is_none_or(|time| time == sent);
        (is_lone(&self.sent) && is_lone(&self.received)).then_some((sent, received))
    }

    pub fn left(&self, cpu: u16, since: u64, until: u64) -> Option<u64> {
        first_in(self.left.get(usize::from(cpu))?, since, until)
    }

    /// When the virtual CPU left the guest last, within a stretch.
    pub fn left_last(&self, cpu: u16, since: u64, until: u64) -> Option<u64> {
        last_in(self.left.get(usize::from(cpu))?, since, until)
    }

    pub fn woken(&self, cpu: u16, since: u64, until: u64) -> Option<u64> {
        first_in(self.woken.get(usize::from(cpu))?, since, until)
    }
}

pub(crate) fn first_in(times: &[u64], since: u64, until: u64) -> Option<u64> {
    let place = times.partition_point(|&time| time < since);
    times.get(place).copied().filter(|&time| time <= until)
}

pub(crate) fn last_in(times: &[u64], since: u64, until: u64) -> Option<u64> {
    let place = times.partition_point(|&time| time <= until);
    place.checked_sub(1).map(|last| times[last]).filter(|&time| time >= since)
}
