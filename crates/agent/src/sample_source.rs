//! Samples on their way out of the memory that they were measured into: a part of a trial that goes on, or the
//! rest of one that is over.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use stealtime_probe::Recording;
use stealtime_probe::recorder::Recorder;
use stealtime_probe::running::Taken;
use stealtime_probe::samples::Rows32;
use stealtime_probe::time_line::{Placed, TimeLine};
use stealtime_wire::Layout;

/// 1 MiB of durations.
pub const BATCH_ROWS: usize = 1 << 18;

/// An entry of the table `events`: kind, index, start and duration.
pub type Event = (&'static str, u64, u64, u64);

enum Memory<'a> {
    Live(&'a Recorder),
    Over(&'a Recording),
}

/// Some samples of a trial, and what places them in time.
pub struct SampleSource<'a> {
    memory: Memory<'a>,
    rows: Range<usize>,
    /// What had passed before the first of them.
    elapsed_units: u64,
    layout: Layout,
    line: TimeLine,
    saturated: Vec<(u64, u64)>,
    saturated_gaps: Vec<(u64, u64)>,
    saturated_further: Vec<Vec<(u64, u64)>>,
    pauses: Vec<(u64, u64)>,
    injected: &'a [(u64, u64)],
    ordinary: &'a [(u64, u64)],
}

impl<'a> SampleSource<'a> {
    /// What was measured since `taken`, of a trial that goes on.
    pub fn part(recorder: &'a Recorder, layout: Layout, taken: Taken) -> Self {
        let rows = taken.rows..recorder.len();
        let (saturated, saturated_gaps, _) = recorder.saturated();
        let pauses = recorder.pauses();
        Self {
            memory: Memory::Live(recorder),
            rows,
            elapsed_units: taken.elapsed_units,
            layout,
            line: TimeLine::new(layout, saturated.clone(), saturated_gaps.clone(), pauses.clone()),
            saturated,
            saturated_gaps,
            saturated_further: recorder.saturated_further(),
            pauses,
            injected: &[],
            ordinary: &[],
        }
    }

    /// What was not taken of a trial that is over.
    pub fn rest(recording: &'a Recording, taken: Taken) -> Self {
        let samples = &recording.samples;
        let layout = recording.outcome.layout.unwrap_or(Layout::Tiled);
        Self {
            memory: Memory::Over(recording),
            rows: taken.rows..samples.count(),
            elapsed_units: taken.elapsed_units,
            layout,
            line: TimeLine::of(samples, layout),
            saturated: samples.saturated.clone(),
            saturated_gaps: samples.saturated_gaps.clone(),
            saturated_further: samples.saturated_further.clone(),
            pauses: samples.pauses.clone(),
            injected: &recording.injected,
            ordinary: &recording.ordinary,
        }
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The index after the last of them.
    pub fn end(&self) -> usize {
        self.rows.end
    }

    /// All of them, a batch at a time.
    pub fn batches(&self) -> impl Iterator<Item = Rows32> {
        self.ranges().map(|rows| self.copy(rows))
    }

    fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let end = self.rows.end;
        self.rows.clone().step_by(BATCH_ROWS).map(move |first| first..end.min(first + BATCH_ROWS))
    }

    fn copy(&self, rows: Range<usize>) -> Rows32 {
        match self.memory {
            Memory::Live(recorder) => recorder.copy(rows),
            Memory::Over(recording) => recording.samples.copy(rows),
        }
    }

    fn walk(&self, mut visit: impl FnMut(Placed)) -> u64 {
        self.ranges().fold(self.elapsed_units, |elapsed, rows| {
            self.line.walk(rows.start, elapsed, &self.copy(rows.clone()), &mut visit)
        })
    }

    /// What is taken once these are.
    pub fn taken(&self) -> Taken {
        Taken { rows: self.rows.end, elapsed_units: self.walk(|_| ()) }
    }

    /// How long the samples up to the last of these took, without pauses.
    pub fn watched_units(&self, taken: Taken) -> u64 {
        let paused: u64 = self.pauses.iter().filter(|&&(index, _)| index < self.rows.end as u64).map(|one| one.1).sum();
        taken.elapsed_units.saturating_sub(paused)
    }

    /// What does not fit the samples: long ones, pauses, thefts, and when a limit stopped the probe.
    pub fn events(&self) -> Vec<Event> {
        let here = |list: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let rows = self.rows.start as u64..self.rows.end as u64;
            list.iter().copied().filter(|(index, _)| rows.contains(index)).collect()
        };
        let (saturated, gaps, pauses) = (here(&self.saturated), here(&self.saturated_gaps), here(&self.pauses));
        let names = self.layout.further_columns().iter().map(|column| name_of_saturated(column));
        let further: Vec<_> = names.zip(self.saturated_further.iter().map(|list| here(list))).collect();
        let of_further = further.iter().map(|(_, list)| list);
        let marked: BTreeSet<u64> =
            [&saturated, &gaps, &pauses].into_iter().chain(of_further).flatten().map(|entry| entry.0).collect();
        let mut placed = BTreeMap::new();
        if !marked.is_empty() {
            self.walk(|one| {
                if marked.contains(&one.index) {
                    placed.insert(one.index, one);
                }
            });
        }
        let event = |kind: &'static str, list: Vec<(u64, u64)>, start: fn(&Placed) -> u64| -> Vec<Event> {
            let entry = |(index, value)| (kind, index, placed.get(&index).map_or(0, start), value);
            list.into_iter().map(entry).collect()
        };
        let thefts = self.injected.iter().zip(0..).map(|(&(start, took), number)| ("injected", number, start, took));
        let mut events = event("saturated", saturated, |one| one.start);
        events.extend(event("saturated_gap", gaps, |one| one.start));
        for (name, list) in further {
            events.extend(event(name, list, |one| one.start));
        }
        let overlaps = self.layout.overlaps();
        let pause_begins = if overlaps {
            |one: &Placed| (one.start + one.duration).saturating_sub(one.gap + one.pause)
        } else {
            |one: &Placed| one.start - one.gap - one.pause
        };
        events.extend(event("pause", pauses, pause_begins));
        events.extend(thefts);
        let ordinary = self.ordinary.iter().zip(0..);
        events.extend(ordinary.map(|(&(start, took), number)| ("ordinary", number, start, took)));
        events
    }
}

/// The kind of event that has the true value of a cell of a further column.
fn name_of_saturated(column: &str) -> &'static str {
    match column {
        "wait" => "saturated_wait",
        "outward" => "saturated_outward",
        "residence" => "saturated_residence",
        // Of a block, and of what is only yes or no, there is none.
        _ => "saturated_other",
    }
}
