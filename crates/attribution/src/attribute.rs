//! The whole: traces and spikes in, parts out.

use crate::cause::{CauseId, CauseTable, Kind, Layer};
use crate::follow::{Followed, Layered, follow};
use crate::offset::{Offsets, narrow};
use crate::sweep::{Layers, Parts, Segment, Spikes};
use crate::trace::{Trace, merged};
use crate::track::Piece;
use crate::user_mode::{UserMode, find_tracers, watch};

/// A trace with the labels of those of its threads whose names do not say who they are.
#[derive(Debug, Clone)]
pub struct Labelled<'a> {
    pub trace: &'a Trace<'a>,
    /// Thread id and place in `labels`. A process that is traced by such a thread (a User-Mode Linux
    /// neighbour's) gets its label too.
    pub threads: &'a [(i32, u16)],
    /// `emulator`, `neighbour 1`, `control plane` ...
    pub labels: &'a [String],
    /// CPUs whose lost events matter; `None`: all.
    pub cpus: Option<&'a [u16]>,
}

/// The virtual CPUs of a guest, as the host's trace shows them.
#[derive(Debug, Clone)]
pub struct VirtualCpus<'a> {
    pub host: Labelled<'a>,
    /// The threads that are virtual CPU 0, 1 ...
    pub threads: &'a [Followed<'a>],
    /// Machine minus host, in cycles, from the exchanges of clocks.
    pub offsets: Offsets,
}

/// What was traced of which machine.
#[derive(Debug, Clone)]
pub enum World<'a> {
    /// A machine by its own trace; its host is not known.
    Native(Labelled<'a>, Followed<'a>),
    /// A virtual machine by its host's trace, and by its own where it has one.
    Virtual(VirtualCpus<'a>, Option<(Labelled<'a>, Followed<'a>)>),
    /// User-Mode Linux, by its host's trace alone.
    UserMode(Labelled<'a>, UserMode<'a>),
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AttributionError {
    #[error("there are {starts} starts of spikes but {durations} durations")]
    SpikeColumns {
        starts: usize,
        /// Rows of the other.
        durations: usize,
    },
    #[error(
        "clocks cannot be aligned: whatever the offset within the exchanges' bounds, events of virtual CPU {cpu} \
         happened while its thread was off the host's CPUs"
    )]
    ClocksApart { cpu: usize },
}

/// The parts of all spikes and what was seen on the way.
#[derive(Debug, Clone)]
pub struct Attribution {
    pub causes: CauseTable,
    pub parts: Parts,
    /// The time lines that were asked for.
    pub segments: Vec<Segment>,
    /// What stayed possible for machine minus host, in cycles.
    pub offsets: Offsets,
    /// How many stretches off the CPU narrowed it.
    pub narrowed_by: usize,
    /// When the probe (natively) or its virtual CPU could run and did not, from the host's point of view;
    /// host cycles.
    pub waits: Vec<(u64, u64)>,
    /// How many switches of threads must have happened that were not recorded; spikes there are not judged.
    pub unseen_switches: usize,
}

/// Split spikes into causes.
///
/// # Errors
/// The columns of `spikes` differ in length, or the traces contradict the exchanges of clocks.
pub fn attribute(
    world: &World<'_>,
    spikes: Spikes<'_>,
    time_lines_of: &[usize],
) -> Result<Attribution, AttributionError> {
    if spikes.start.len() != spikes.duration.len() {
        let (starts, durations) = (spikes.start.len(), spikes.duration.len());
        return Err(AttributionError::SpikeColumns { starts, durations });
    }
    let mut built = match world {
        World::Native(traced, probe) => native(traced, probe),
        World::Virtual(cpus, machine) => virtual_machine(cpus, machine.as_ref())?,
        World::UserMode(host, guest) => user_mode(host, guest),
    };
    built.layers.unexplained = built.layers.table.id(Layer::Above, Kind::Unexplained, None);
    let parts = built.layers.split(spikes);
    let segments = time_lines_of.iter().flat_map(|&row| built.layers.segments(spikes, row)).collect();
    Ok(Attribution {
        causes: built.layers.table,
        parts,
        segments,
        offsets: built.offsets,
        narrowed_by: built.narrowed_by,
        waits: built.waits,
        unseen_switches: built.unseen,
    })
}

struct Built {
    layers: Layers,
    offsets: Offsets,
    narrowed_by: usize,
    waits: Vec<(u64, u64)>,
    unseen: usize,
}

/// One stretch in so many may contradict the others before the clocks are called wrong.
const CONTRADICTING_ONE_IN: usize = 20;

const SAME_COUNTER: Offsets = Offsets { low: 0, high: 0 };

fn native(traced: &Labelled<'_>, probe: &Followed<'_>) -> Built {
    let threads = labels_of_traced(traced);
    let layer = follow(traced.trace, Layer::Machine, probe, &threads, traced.labels);
    let blind = blind_stretches(traced, &layer, 0);
    let unseen = layer.unseen.len();
    let blind = merged(blind);
    let layers = Layers { machine: layer.pieces, blind, table: layer.table, ..Layers::default() };
    Built { layers, offsets: SAME_COUNTER, narrowed_by: 0, waits: layer.waits, unseen }
}

fn user_mode(host: &Labelled<'_>, guest: &UserMode<'_>) -> Built {
    let threads = labels_of_traced(host);
    let layer = watch(host.trace, guest, &find_tracers(host.trace), &threads, host.labels);
    let unseen = layer.unseen.len();
    let blind = merged(blind_stretches(host, &layer, 0));
    let mut layers = Layers { blind, ..Layers::default() };
    // One list holds both layers, as each moment has one of them: only their tracks are drawn apart.
    let is_machine = |piece: &Piece| layer.table.get(piece.cause).is_some_and(|it| it.layer == Layer::Machine);
    let (machine, outer) = layer.pieces.into_iter().partition(is_machine);
    layers.machine = machine;
    layers.hosts = vec![outer];
    layers.table = layer.table;
    Built { layers, offsets: SAME_COUNTER, narrowed_by: 0, waits: layer.waits, unseen }
}

fn virtual_machine(
    cpus: &VirtualCpus<'_>,
    machine: Option<&(Labelled<'_>, Followed<'_>)>,
) -> Result<Built, AttributionError> {
    let labels = labels_of_traced(&cpus.host);
    let follow_machine =
        || machine.map(|(traced, probe)| follow(traced.trace, Layer::Machine, probe, traced.threads, traced.labels));
    let follow_hosts = || -> Vec<Layered> {
        let one = |it| follow(cpus.host.trace, Layer::Host, it, &labels, cpus.host.labels);
        cpus.threads.iter().map(one).collect()
    };
    let (inner, outer) = rayon::join(follow_machine, follow_hosts);
    let mut offsets = cpus.offsets;
    let mut narrowed_by = 0;
    if let Some((traced, _)) = machine {
        for (cpu, layer) in outer.iter().enumerate() {
            let events = events_of(traced.trace, cpu);
            let found = narrow_by(offsets, layer, &events).ok_or(AttributionError::ClocksApart { cpu })?;
            offsets = found.0;
            narrowed_by += found.1;
        }
    }
    let shift = offsets.middle();
    let mut unseen = 0;
    let mut blind = Vec::new();
    for layer in &outer {
        unseen += layer.unseen.len();
        blind.extend(blind_stretches(&cpus.host, layer, shift));
    }
    let mut layers = Layers::default();
    if let (Some(inner), Some((traced, _))) = (inner, machine) {
        unseen += inner.unseen.len();
        blind.extend(blind_stretches(traced, &inner, 0));
        layers.machine = inner.pieces;
        layers.table = inner.table;
        layers.places = inner.places;
    }
    layers.blind = merged(blind);
    let waits = outer.first().map(|layer| layer.waits.clone()).unwrap_or_default();
    for layer in outer {
        let numbers = layers.table.absorb(&layer.table);
        let moved = |piece: Piece| Piece {
            start: piece.start.saturating_add_signed(shift),
            end: piece.end.saturating_add_signed(shift),
            cause: numbers.get(piece.cause.row()).copied().unwrap_or(CauseId::NONE),
        };
        layers.hosts.push(layer.pieces.into_iter().map(moved).collect());
    }
    Ok(Built { layers, offsets, narrowed_by, waits, unseen })
}

/// Narrow the offsets by a virtual CPU's stretches off the CPU, and say how many did; `None` if they rule all
/// out.
///
/// Switches are lost now and then, and a moment of running that was not recorded makes one long stretch of
/// two. So one that contradicts the others makes those whose end is inferred useless, then the recorded ones
/// too: what is left then is the bound of the exchanges, which stands. Many of them mean that the clocks are
/// wrong.
fn narrow_by(within: Offsets, layer: &Layered, events: &[u64]) -> Option<(Offsets, usize)> {
    let all: Vec<(u64, u64)> = layer.off.iter().chain(&layer.off_inferred).copied().collect();
    let recorded = narrow(within, &layer.off, events);
    let candidates = [narrow(within, &all, events), recorded];
    if let Some(sound) = candidates.iter().find(|it| it.contradicting == 0) {
        return Some((sound.offsets, sound.used));
    }
    (recorded.contradicting * CONTRADICTING_ONE_IN <= layer.off.len()).then_some((within, 0))
}

/// The times of a machine's events on one of its CPUs. That events were lost is noticed by whoever reads
/// them, later.
fn events_of(trace: &Trace<'_>, cpu: usize) -> Vec<u64> {
    let columns = &trace.columns;
    let is_its = |row: &usize| {
        usize::from(columns.cpu[*row]) == cpu && columns.kind[*row] != crate::trace::EventKind::Lost as u8
    };
    (0..trace.len()).filter(is_its).map(|row| columns.time[row]).collect()
}

/// The given labels, and those of processes that a labelled thread traces.
fn labels_of_traced(traced: &Labelled<'_>) -> Vec<(i32, u16)> {
    let mut labels = traced.threads.to_vec();
    if labels.is_empty() {
        return labels;
    }
    for (stub, tracer) in find_tracers(traced.trace) {
        if let Some(&(_, label)) = traced.threads.iter().find(|(thread, _)| *thread == tracer) {
            labels.push((stub, label));
        }
    }
    labels
}

/// Where a trace does not say what happened: before its first and after its last moment, where events were
/// lost, and where a sleep may have ended unseen.
fn blind_stretches(traced: &Labelled<'_>, layer: &Layered, shift: i64) -> Vec<(u64, u64)> {
    let trace = traced.trace;
    let matters = |cpu: u16| traced.cpus.is_none_or(|cpus| cpus.contains(&cpu));
    let lost = trace.lost.iter().filter(|&&(cpu, ..)| matters(cpu)).map(|&(_, start, end)| (start, end));
    let (begin, end) = trace.covered;
    let mut stretches: Vec<(u64, u64)> = lost.collect();
    stretches.extend(&layer.unseen);
    stretches.extend(&layer.doubtful);
    stretches.push((0, begin));
    stretches.push((end, u64::MAX));
    let moved = |time: u64| if time == 0 || time == u64::MAX { time } else { time.saturating_add_signed(shift) };
    stretches.into_iter().map(|(start, end)| (moved(start), moved(end))).collect()
}
