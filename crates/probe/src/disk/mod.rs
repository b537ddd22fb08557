//! `disk`: how long transfers between memory and a disk take, one by one.
//!
//! Transfers of one size go past the kernel's cache (`O_DIRECT`), as many at a time as the depth says. In a closed
//! loop each that ends is followed by another. In an open loop one is due each interval, whatever became of those
//! before.
//!
//! * Due: in an open loop the start plus a whole number of intervals; in a closed loop when it was handed over.
//! * Handed over: the reading of the time-stamp counter just before the system call that does it, one for each
//!   transfer.
//! * Ended: the reading when this thread sees the end (`io_uring(7)`'s queue, or `io_getevents(2)`). So the time in
//!   which it was woken is part of a sample, as it is part of what a program waits.
//! * A sample is the time from due to ended. No coordinated omission: what waits since the depth is reached, or this
//!   thread ran late, is counted from when it was due. Column `wait` has how much of the sample that was.
//! * Samples are in the order in which they ended. What was due and not handed over at the end is counted
//!   (`not_started`), and so are transfers that failed (`errors`, `short`): they are no samples.
//! * Floor: the shortest sample.
//! * Before the first sample transfers go for a while as in the trial. The first of them that fails refuses the trial.
//! * Pauses (samples are taken away, and there is no CPU for it): begin when nothing is under way, where memory
//!   allows. What ends during one is counted (`unwatched`).
//! * Limits: one thread hands over and looks for ends, on one CPU. Where a disk is faster than that thread, the thread
//!   is what is measured.

mod engine;
pub mod mark;
mod statistics;
mod target;
mod transfers;

use std::io;

use stealtime_wire::{Disk, DiskTarget, Finding, FindingLevel, Layout, TrialRequest};

use self::engine::{Chosen, Engine};
use self::statistics::Statistics;
use self::target::Target;
use self::transfers::{Order, TransferCounts};
use crate::clock::SampleClock;
use crate::error::TrialError;
use crate::needs::Needs;
use crate::probe::{Measured, Probe};
use crate::stage::{Begun, Stage};
use crate::sys;

/// How long transfers go before the first sample, at least and where they are slow at most.
const WARM_UP_NS: std::ops::Range<u64> = 20_000_000..2_000_000_000;

/// Against the warm-up, in which caches were cold: so many times faster transfers are made room for.
const FASTER_THAN_WARM_UP: u64 = 2;

const BLOCK_BYTES: std::ops::RangeInclusive<u32> = 512..=16 << 20;
const MOST_DEPTH: u32 = 1024;
/// No timer keeps a shorter one.
const SHORTEST_INTERVAL_NS: u64 = 1_000;

impl Probe for Disk {
    fn layout(&self) -> Option<Layout> {
        Some(Layout::Transfers)
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Tsc
    }

    fn validate(&self, duration_ns: u64) -> Result<(), TrialError> {
        let in_range = TrialError::unless_in_range;
        in_range("block_bytes", self.block_bytes.into(), (*BLOCK_BYTES.start()).into(), (*BLOCK_BYTES.end()).into())?;
        if !self.block_bytes.is_multiple_of(*BLOCK_BYTES.start()) {
            let expected = format!("a multiple of {}", BLOCK_BYTES.start());
            return Err(TrialError::parameter("block_bytes", self.block_bytes.into(), expected));
        }
        in_range("depth", self.depth.into(), 1, MOST_DEPTH.into())?;
        if let Some(interval_ns) = self.interval_ns {
            in_range("interval_ns", interval_ns, SHORTEST_INTERVAL_NS, duration_ns)?;
        }
        if let DiskTarget::Scratch { bytes, .. } = self.target {
            in_range("bytes", bytes, u64::from(self.block_bytes) * u64::from(self.depth), 1 << 50)?;
        }
        Ok(())
    }

    fn needs(&self, _request: &TrialRequest) -> Needs {
        let bytes = u64::from(self.block_bytes) * u64::from(self.depth);
        Needs::default().and(bytes, || format!("{} transfers of {} bytes", self.depth, self.block_bytes))
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        let target = target::open(self)?;
        // What is due is handed over when its time comes, and not up to 50 us later, also under ordinary scheduling.
        sys::have_exact_timers();
        match engine::choose(self, &target)? {
            Chosen::Uring(mut ring) => measure(self, stage, &target, &mut ring, "engine_io_uring"),
            Chosen::Aio(mut aio) => measure(self, stage, &target, &mut aio, "engine_aio"),
        }
    }
}

fn measure<E: Engine>(
    disk: &Disk,
    stage: &Stage,
    target: &Target,
    engine: &mut E,
    name: &str,
) -> Result<Measured, TrialError> {
    let rate = stage.trial.rate;
    let mut order = Order::new(disk, target.first_byte, target.blocks);
    let limits = rate.to_cycles(WARM_UP_NS.start)..rate.to_cycles(WARM_UP_NS.end);
    let refused = |error: io::Error| refused(target, disk, &error);
    let shortest = transfers::warm_up(engine, disk, &mut order, limits).map_err(refused)?;
    let most = match disk.interval_ns {
        Some(interval_ns) => stage.trial.request.duration_ns.div_ceil(interval_ns) + 1,
        None => stage.most_turns(shortest / FASTER_THAN_WARM_UP),
    };
    let begun = stage.begin(most, None)?;
    let clock = (rate, stage.trial.request.duration_ns);
    let before = Statistics::of(&target.path);
    let counts = transfers::measure(engine, disk, &mut order, &begun.recorder, clock).map_err(refused)?;
    let believed = Statistics::of(&target.path).zip(before).map(|(after, before)| after.since(before));
    let measured = told(begun, &counts, target, stage).with_counters([(name, 1)]);
    Ok(match believed {
        Some(counters) => measured.with_counters(counters),
        None => measured,
    })
}

fn refused(target: &Target, disk: &Disk, error: &io::Error) -> TrialError {
    let hint = match error.raw_os_error() {
        Some(libc::ENOSPC) => "its file system is full: make room, or write all of the file before",
        Some(libc::EINVAL) => "its blocks may be larger: try --block 4096",
        _ => "see the kernel's log (dmesg) for what the disk says",
    };
    TrialError::Target {
        target: target.path.display().to_string(),
        trouble: format!("refuses to {} {} bytes: {error}", word(disk), disk.block_bytes),
        hint: Some(hint.to_owned()),
    }
}

fn word(disk: &Disk) -> &'static str {
    match disk.operation {
        stealtime_wire::DiskOperation::Read => "read",
        stealtime_wire::DiskOperation::Write => "write",
    }
}

fn told(begun: Begun, counts: &TransferCounts, target: &Target, stage: &Stage) -> Measured {
    let mut measured = Measured::new(begun).with_counters([
        ("errors", counts.errors),
        ("short", counts.short),
        ("not_started", counts.not_started),
        ("unwatched", counts.unwatched),
        ("unfinished", counts.unfinished),
        ("first_byte", target.first_byte),
        ("target_blocks", target.blocks),
    ]);
    measured.findings.extend(target.finding.clone());
    measured.findings.extend(failed(counts));
    let late_ns = stage.trial.rate.to_ns(counts.longest_not_started);
    measured.findings.extend(not_started(counts.not_started, late_ns, "transfers"));
    measured.findings.extend((counts.unfinished > 0).then(|| Finding {
        code: "transfers_unfinished".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!("{} transfers had not ended 20 s after the last one that did", counts.unfinished),
        hint: Some("see the kernel's log (dmesg) for what the disk says".to_owned()),
    }));
    measured
}

fn failed(counts: &TransferCounts) -> Option<Finding> {
    let TransferCounts { errors, short, first_error, .. } = *counts;
    (errors + short > 0).then(|| Finding {
        code: "transfers_failed".to_owned(),
        level: FindingLevel::Invalidates,
        text: if errors > 0 {
            format!("{errors} transfers failed, the first with: {}", io::Error::from_raw_os_error(first_error))
        } else {
            format!("{short} transfers had fewer bytes than were asked for")
        },
        hint: None,
    })
}

/// What it means that requests of an open loop were never handed over.
pub fn not_started(count: u64, late_ns: f64, what: &str) -> Option<Finding> {
    (count > 0).then(|| Finding {
        code: "requests_not_started".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "{count} {what} were due and not handed over when time was up, the oldest {:.3} ms late: they are no samples",
            late_ns * 1e-6
        ),
        hint: Some("a higher depth or a longer interval lets the device keep up".to_owned()),
    })
}

#[cfg(test)]
mod tests;
