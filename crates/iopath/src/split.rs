//! From moments to parts that add up.

use crate::error::PathError;
use crate::find::{Emulator, GuestEvents, HostEvents, Traces, first_in, last_in};
use crate::moment::{MOMENTS, Moment, Part};
use crate::occupation::Stretches;
use crate::requests::Requests;

/// What was found; a row a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// In cycles, a column for each of [`Part::ALL`].
    pub parts: Vec<Vec<u64>>,
    /// Which moments were seen, a bit each.
    pub seen: Vec<u16>,
    /// The smallest and the largest `guest's counter - host's counter` that what was seen allows.
    pub offsets: (i64, i64),
    /// Moments that were left out since they stood out of order by more than the error of the clocks.
    pub out_of_order: u64,
}

/// Splits each request.
///
/// `offsets` are the smallest and the largest possible `guest's counter - host's counter`. They are narrowed by what
/// must come after what: a transfer begins on the host after the guest has issued it, and ends before it is completed.
///
/// # Errors
/// Columns do not fit each other.
pub fn split(requests: &Requests<'_>, traces: &Traces<'_>, offsets: (i64, i64)) -> Result<Found, PathError> {
    requests.check()?;
    traces.check()?;
    let guest = traces.guest.map(|guest| GuestEvents::of(&guest.trace)).unwrap_or_default();
    let host = traces.host.map(|(host, emulator)| (HostEvents::of(&host, &emulator), emulator));
    let world = World { guest, host, alone: alone(requests) };
    let offsets = world.narrowed(requests, offsets);
    let line =
        TimeLine { offset: i64::midpoint(offsets.0, offsets.1), error: offsets.1.abs_diff(offsets.0).div_ceil(2) };
    let count = requests.submitted.len();
    let mut found =
        Found { parts: vec![vec![0; count]; Part::ALL.len()], seen: vec![0; count], offsets, out_of_order: 0 };
    for row in 0..count {
        let looked = world.look(requests, row, &line);
        let moments = ordered(looked.moments, line.error, &mut found.out_of_order);
        for (place, moment) in moments.iter().enumerate() {
            found.seen[row] |= u16::from(moment.is_some()) << place;
        }
        for (part, cycles) in world.parts(&moments, looked.cpus, &line) {
            found.parts[part as usize][row] += cycles;
        }
    }
    Ok(found)
}

/// How the host's counter becomes the guest's.
struct TimeLine {
    offset: i64,
    error: u64,
}

impl TimeLine {
    fn to_host(&self, guest: u64) -> u64 {
        guest.saturating_add_signed(-self.offset)
    }

    fn to_guest(&self, host: u64) -> u64 {
        host.saturating_add_signed(self.offset)
    }
}

/// The moments of a request on the guest's counter, and its virtual CPUs when it was issued and completed.
struct Looked {
    moments: [Option<u64>; MOMENTS],
    cpus: (Option<u16>, Option<u16>),
}

struct World<'a> {
    guest: GuestEvents,
    host: Option<(HostEvents, Emulator<'a>)>,
    /// Of each request, whether no other one was in flight.
    alone: Vec<bool>,
}

impl World<'_> {
    fn narrowed(&self, requests: &Requests<'_>, (low, high): (i64, i64)) -> (i64, i64) {
        let Some((host, emulator)) = &self.host else { return (low, high) };
        let (mut narrow_low, mut narrow_high) = (low, high);
        for row in 0..requests.submitted.len() {
            let (start, end, place) = (requests.submitted[row], requests.returned[row], requests.offset_bytes[row]);
            let Some(issued) = self.guest.issued(place, start, end) else { continue };
            let Some(completed) = self.guest.completed(place, issued.time, end) else { continue };
            // By any offset that is possible: the place on the disk tells which transfer it is.
            let since = issued.time.saturating_add_signed(-high);
            let until = completed.time.saturating_add_signed(-low);
            let apart = low.abs_diff(high);
            let lone = || self.alone[row].then(|| host.lone_exchange(since, until, apart)).flatten();
            let Some((begun, done)) = host.transfer(place, since, until).or_else(lone) else { continue };
            // Before the host begins it the virtual CPU has left the guest, which it does after issuing it.
            let left = host.left_last(issued.cpu, since, begun).unwrap_or(begun);
            narrow_low = narrow_low.max(issued.time.cast_signed().wrapping_sub(left.cast_signed()));
            narrow_high = narrow_high.min(completed.time.cast_signed().wrapping_sub(done.cast_signed()));
            // Its handler begins after its interrupt, and that is none of those before the host had it done.
            let handled = self.guest.handlers(completed.cpu, issued.time, completed.time);
            if let (true, Some((_, handled)), Some(raised)) =
                (self.alone[row], handled, first_in(emulator.raised, done, until))
            {
                let earliest = raised.saturating_sub(emulator.raised_error).max(done);
                narrow_high = narrow_high.min(handled.cast_signed().wrapping_sub(earliest.cast_signed()));
            }
        }
        // What contradicts itself narrows nothing.
        if narrow_low <= narrow_high { (narrow_low, narrow_high) } else { (low, high) }
    }

    fn look(&self, requests: &Requests<'_>, row: usize, line: &TimeLine) -> Looked {
        let (start, end, place) = (requests.submitted[row], requests.returned[row], requests.offset_bytes[row]);
        let mut moments = [None; MOMENTS];
        moments[Moment::Submitted as usize] = Some(start);
        moments[Moment::Returned as usize] = Some(end);
        let issued = self.guest.issued(place, start, end);
        let completed = issued.and_then(|issued| self.guest.completed(place, issued.time, end));
        moments[Moment::Issued as usize] = issued.map(|seen| seen.time);
        moments[Moment::Completed as usize] = completed.map(|seen| seen.time);
        let since = issued.map_or(start, |seen| seen.time);
        let until = completed.map_or(end, |seen| seen.time);
        let mut raised = None;
        if let Some((host, emulator)) = &self.host {
            let (early, late) = (line.to_host(since.saturating_sub(line.error)), line.to_host(until + line.error));
            let transfer = host.transfer(place, early, late);
            let transfer = transfer.or_else(|| self.alone[row].then(|| host.exchange(early, late)).flatten());
            if let Some((begun, done)) = transfer {
                moments[Moment::Begun as usize] = Some(line.to_guest(begun));
                moments[Moment::Done as usize] = Some(line.to_guest(done));
                let notified = issued.and_then(|seen| host.left(seen.cpu, early, begun));
                moments[Moment::Notified as usize] = notified.map(|time| line.to_guest(time));
                let by_trace = if self.alone[row] { first_in } else { last_in }(emulator.raised, done, late);
                // A virtual CPU that slept is woken by what raises the interrupt.
                let by_waking = || completed.and_then(|seen| host.woken(seen.cpu, done, late));
                raised = by_trace.or_else(by_waking).map(|time| line.to_guest(time));
            }
        }
        moments[Moment::Raised as usize] = raised;
        moments[Moment::Handled as usize] = completed.and_then(|completed| {
            let earliest = raised.map_or(since, |raised| raised.saturating_sub(line.error));
            match self.guest.handlers(completed.cpu, earliest, completed.time) {
                Some((first, last)) => Some(if raised.is_some() { first } else { last }),
                // It was still at an earlier request's interrupt, and took this one with it.
                None => raised.filter(|_| self.guest.handlers(completed.cpu, since, completed.time).is_some()),
            }
        });
        Looked { moments, cpus: (issued.map(|seen| seen.cpu), completed.map(|seen| seen.cpu)) }
    }

    fn parts(
        &self,
        moments: &[Option<u64>; MOMENTS],
        (issued_on, completed_on): (Option<u16>, Option<u16>),
        line: &TimeLine,
    ) -> Vec<(Part, u64)> {
        let mut parts = Vec::with_capacity(MOMENTS * 2);
        let mut known = moments.iter().enumerate().filter_map(|(place, moment)| moment.map(|time| (place, time)));
        let Some(mut last) = known.next() else { return parts };
        for next in known {
            let ((place, start), (next_place, end)) = (last, next);
            let length = end - start;
            let cpu = if place < Moment::Raised as usize { issued_on } else { completed_on };
            let part = if next_place == place + 1 { Part::AFTER[place] } else { Part::Unexplained };
            let within = |stretches: &Stretches| stretches.within(line.to_host(start), line.to_host(end)).min(length);
            let mut left = length;
            let mut take = |into: Part, cycles: u64| {
                let taken = cycles.min(left);
                left -= taken;
                parts.push((into, taken));
            };
            if let (Some((host, _)), Some(cpu)) = (&self.host, cpu.map(usize::from)) {
                let occupation = host.occupation.get(cpu);
                if place == Moment::Raised as usize {
                    take(Part::Pending, occupation.map_or(0, |one| within(&one.off)));
                } else if part.needs_virtual_cpu() {
                    take(Part::Preempted, occupation.map_or(0, |one| within(&one.waiting)));
                } else if part.needs_emulator() {
                    take(Part::EmulatorOff, within(&host.helpers.waiting));
                    take(Part::Preempted, host.held_up.get(cpu).map_or(0, within));
                }
            }
            parts.push((part, left));
            last = next;
        }
        parts
    }
}

/// Whether no other request was in flight, for each.
fn alone(requests: &Requests<'_>) -> Vec<bool> {
    let mut order: Vec<usize> = (0..requests.submitted.len()).collect();
    order.sort_unstable_by_key(|&row| requests.submitted[row]);
    let mut alone = vec![true; order.len()];
    let mut latest: Option<(usize, u64)> = None;
    for row in order {
        if let Some((before, end)) = latest
            && requests.submitted[row] < end
        {
            alone[row] = false;
            alone[before] = false;
        }
        if latest.is_none_or(|(_, end)| requests.returned[row] >= end) {
            latest = Some((row, requests.returned[row]));
        }
    }
    alone
}

/// Leaves out moments that come before an earlier one, or after the end, by more than `error`; puts right the others.
fn ordered(moments: [Option<u64>; MOMENTS], error: u64, out_of_order: &mut u64) -> [Option<u64>; MOMENTS] {
    let mut kept = moments;
    let (mut earliest, end) = (moments[0].unwrap_or(0), moments[MOMENTS - 1].unwrap_or(u64::MAX));
    for moment in &mut kept[1..MOMENTS - 1] {
        let Some(time) = *moment else { continue };
        if time + error < earliest || time > end.saturating_add(error) {
            *out_of_order += 1;
            *moment = None;
            continue;
        }
        let clamped = time.clamp(earliest, end.max(earliest));
        *moment = Some(clamped);
        earliest = clamped;
    }
    kept
}
