//! From layers of causes to the parts of each spike.
//!
//! The rule: the outer layer wins over the inner, so that each moment has one cause. One exception, which is
//! no overlap in truth: a virtual CPU that sleeps because its machine is idle takes nothing from it, so there
//! the machine's own reason (its probe is throttled) stands.

use rayon::prelude::*;

use crate::cause::{CauseId, CauseTable, Kind, Layer};
use crate::follow::WAITING_IN_EMULATOR;
use crate::track::Piece;

/// Spikes that one worker takes at a time.
const CHUNK: usize = 512;

/// Longer time lines than this of one spike are told more coarsely.
const MOST_SEGMENTS: usize = 240;

/// Samples to split.
#[derive(Debug, Clone, Copy)]
pub struct Spikes<'a> {
    /// First cycle of each, in the machine's counter.
    pub start: &'a [u64],
    /// How long each took, in cycles.
    pub duration: &'a [u64],
    /// What a sample takes at least, in cycles.
    pub floor: u64,
}

/// The causes of all spikes: those of spike `i` are rows `first[i]..first[i + 1]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// One more than there are spikes.
    pub first: Vec<u64>,
    pub cause: Vec<CauseId>,
    /// Cycles; those of one spike add up to its excess over the floor. Not judged ones have none.
    pub cycles: Vec<u64>,
    /// Whether nothing was lost from the traces around the spike.
    pub judged: Vec<bool>,
    /// Spikes whose causes took more than the excess and were scaled down together.
    pub scaled: u64,
}

/// A stretch of one track of one spike's time line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    pub spike: usize,
    pub layer: Layer,
    /// Cycles from the start of the spike.
    pub start: u64,
    /// How long it took, in cycles.
    pub duration: u64,
    /// `None`: the machine had its CPU (host), the probe ran (machine).
    pub cause: Option<CauseId>,
}

/// All layers on the machine's counter.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    /// The host's, one a virtual CPU; empty where the machine has no host that was traced.
    pub hosts: Vec<Vec<Piece>>,
    pub machine: Vec<Piece>,
    /// From when on the probe was on which virtual CPU.
    pub places: Vec<(u64, u16)>,
    /// Stretches where it is not known what happened, by start; not overlapping.
    pub blind: Vec<(u64, u64)>,
    pub table: CauseTable,
    pub unexplained: CauseId,
}

/// A list of pieces that is walked forwards.
struct Walk<'a> {
    pieces: &'a [Piece],
    next: usize,
}

impl<'a> Walk<'a> {
    fn from(pieces: &'a [Piece], time: u64) -> Self {
        Self { pieces, next: pieces.partition_point(|piece| piece.end <= time) }
    }

    /// The cause at `time`, and until when that holds; `time` never goes back.
    fn at(&mut self, time: u64) -> (CauseId, u64) {
        while self.pieces.get(self.next).is_some_and(|piece| piece.end <= time) {
            self.next += 1;
        }
        match self.pieces.get(self.next) {
            Some(piece) if piece.start <= time => (piece.cause, piece.end),
            Some(piece) => (CauseId::NONE, piece.start),
            None => (CauseId::NONE, u64::MAX),
        }
    }
}

impl Layers {
    pub fn split(&self, spikes: Spikes<'_>) -> Parts {
        let ranks = self.ranks();
        let rows: Vec<usize> = (0..spikes.start.len()).step_by(CHUNK).collect();
        let chunks: Vec<Parts> = rows
            .into_par_iter()
            .map(|first| {
                let mut parts = Parts::default();
                let mut taken = Vec::new();
                for row in first..(first + CHUNK).min(spikes.start.len()) {
                    self.split_one(spikes, row, &ranks, &mut taken, &mut parts);
                }
                parts
            })
            .collect();
        let mut all = Parts { first: vec![0], ..Parts::default() };
        for chunk in chunks {
            let before = all.cause.len() as u64;
            all.first.extend(chunk.first.into_iter().map(|end| before + end));
            all.cause.extend(chunk.cause);
            all.cycles.extend(chunk.cycles);
            all.judged.extend(chunk.judged);
            all.scaled += chunk.scaled;
        }
        all
    }

    fn split_one(
        &self,
        spikes: Spikes<'_>,
        row: usize,
        ranks: &Ranks,
        taken: &mut Vec<(CauseId, u64)>,
        parts: &mut Parts,
    ) {
        let (start, duration) = (spikes.start[row], spikes.duration[row]);
        let end = start.saturating_add(duration);
        let excess = duration.saturating_sub(spikes.floor);
        let judged = !self.is_blind(start, end);
        parts.judged.push(judged);
        if judged {
            taken.clear();
            self.walk(start, end, ranks, |cause, cycles| match taken.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, sum)) => *sum += cycles,
                None => taken.push((cause, cycles)),
            });
            if fit(taken, excess, self.unexplained) {
                parts.scaled += 1;
            }
            taken.sort_unstable_by_key(|&(cause, cycles)| (std::cmp::Reverse(cycles), cause));
            for &(cause, cycles) in taken.iter().filter(|part| part.1 > 0) {
                parts.cause.push(cause);
                parts.cycles.push(cycles);
            }
        }
        parts.first.push(parts.cause.len() as u64);
    }

    fn is_blind(&self, start: u64, end: u64) -> bool {
        let first = self.blind.partition_point(|stretch| stretch.1 <= start);
        self.blind.get(first).is_some_and(|stretch| stretch.0 < end)
    }

    /// Go through a stretch of time; `take` is told of each part of it that has a cause.
    fn walk(&self, start: u64, end: u64, ranks: &Ranks, mut take: impl FnMut(CauseId, u64)) {
        let mut machine = Walk::from(&self.machine, start);
        let mut place = self.places.partition_point(|&(since, _)| since <= start);
        let mut host = self.host_walk(place, start);
        let mut time = start;
        while time < end {
            let moves_at = self.places.get(place).map_or(u64::MAX, |&(since, _)| since);
            if moves_at <= time {
                place += 1;
                host = self.host_walk(place, time);
                continue;
            }
            let (inner, inner_until) = machine.at(time);
            let (outer, outer_until) = host.as_mut().map_or((CauseId::NONE, u64::MAX), |host| host.at(time));
            let until = end.min(inner_until).min(outer_until).min(moves_at);
            let gives_way = ranks.is_sleep(outer) && ranks.is_throttled(inner);
            let cause = if outer == CauseId::NONE || gives_way { inner } else { outer };
            if cause != CauseId::NONE {
                take(cause, until - time);
            }
            time = until;
        }
    }

    /// The host's layer of the virtual CPU that the probe is on; the first where no trace of the machine says
    /// it.
    fn host_walk(&self, place: usize, time: u64) -> Option<Walk<'_>> {
        let cpu = place.checked_sub(1).map_or(0, |place| usize::from(self.places[place].1));
        self.hosts.get(cpu).or(self.hosts.first()).map(|pieces| Walk::from(pieces, time))
    }

    /// The time line of one spike, each track from its start to its end.
    pub fn segments(&self, spikes: Spikes<'_>, row: usize) -> Vec<Segment> {
        let (Some(&start), Some(&duration)) = (spikes.start.get(row), spikes.duration.get(row)) else {
            return Vec::new();
        };
        let place = self.places.partition_point(|&(since, _)| since <= start);
        let mut tracks = vec![(Layer::Machine, Walk::from(&self.machine, start))];
        if let Some(host) = self.host_walk(place, start) {
            tracks.push((Layer::Host, host));
        }
        let mut segments = Vec::new();
        for (layer, mut walk) in tracks {
            let mut track: Vec<(u64, u64, CauseId)> = Vec::new();
            let (mut time, end) = (start, start.saturating_add(duration));
            while time < end {
                let (cause, until) = walk.at(time);
                let until = until.min(end);
                match track.last_mut() {
                    Some(last) if last.2 == cause => last.1 = until,
                    _ => track.push((time, until, cause)),
                }
                time = until;
            }
            let told = coarsened(track, start, duration).into_iter().map(|(from, until, cause)| Segment {
                spike: row,
                layer,
                start: from - start,
                duration: until - from,
                cause: (cause != CauseId::NONE).then_some(cause),
            });
            segments.extend(told);
        }
        segments
    }

    fn ranks(&self) -> Ranks {
        let rows = self.table.rows();
        let is_sleep =
            rows.iter().map(|cause| cause.layer == Layer::Host && cause.name.as_deref() == Some(WAITING_IN_EMULATOR));
        let is_throttled = rows.iter().map(|cause| {
            cause.layer == Layer::Machine && matches!(cause.kind, Kind::RtThrottling | Kind::QuotaThrottling)
        });
        Ranks { sleep: is_sleep.collect(), throttled: is_throttled.collect() }
    }
}

/// Which causes make the exception from the rule.
struct Ranks {
    sleep: Vec<bool>,
    throttled: Vec<bool>,
}

impl Ranks {
    fn is_sleep(&self, cause: CauseId) -> bool {
        self.sleep.get(cause.row()).copied().unwrap_or(false)
    }

    fn is_throttled(&self, cause: CauseId) -> bool {
        self.throttled.get(cause.row()).copied().unwrap_or(false)
    }
}

/// Make parts add up to the excess exactly: scale them down together, or say what is unexplained. Tells
/// whether they were scaled. Rounding goes down, and what that leaves goes to the largest parts, a cycle
/// each.
fn fit(parts: &mut Vec<(CauseId, u64)>, excess: u64, unexplained: CauseId) -> bool {
    let total: u64 = parts.iter().map(|part| part.1).sum();
    if total <= excess {
        if total < excess {
            parts.push((unexplained, excess - total));
        }
        return false;
    }
    parts.sort_unstable_by_key(|&(cause, cycles)| (std::cmp::Reverse(cycles), cause));
    let mut left = excess;
    for part in parts.iter_mut() {
        let share = u128::from(part.1) * u128::from(excess) / u128::from(total);
        // At most `part.1`, which is 64 bits wide.
        part.1 = u64::try_from(share).unwrap_or(u64::MAX);
        left -= part.1;
    }
    for part in parts.iter_mut() {
        let more = left.min(1);
        part.1 += more;
        left -= more;
    }
    true
}

/// Join the segments of a long track into equal slots, each told by what took most of it.
fn coarsened(track: Vec<(u64, u64, CauseId)>, start: u64, duration: u64) -> Vec<(u64, u64, CauseId)> {
    if track.len() <= MOST_SEGMENTS {
        return track;
    }
    let width = duration.div_ceil(MOST_SEGMENTS as u64).max(1);
    let mut slots: Vec<(u64, u64, CauseId)> = Vec::new();
    let mut from = start;
    let mut first = 0;
    let end = start + duration;
    while from < end {
        let until = (from + width).min(end);
        let mut most = (0, CauseId::NONE);
        let mut sums: Vec<(CauseId, u64)> = Vec::new();
        while track.get(first).is_some_and(|segment| segment.1 <= from) {
            first += 1;
        }
        for segment in track[first..].iter().take_while(|segment| segment.0 < until) {
            let cycles = segment.1.min(until) - segment.0.max(from);
            let sum = if let Some((_, sum)) = sums.iter_mut().find(|(cause, _)| *cause == segment.2) {
                *sum += cycles;
                *sum
            } else {
                sums.push((segment.2, cycles));
                cycles
            };
            most = most.max((sum, segment.2));
        }
        match slots.last_mut() {
            Some(last) if last.2 == most.1 => last.1 = until,
            _ => slots.push((from, until, most.1)),
        }
        from = until;
    }
    slots
}
