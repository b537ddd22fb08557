//! An instance that records, and the reading of its buffers.
//!
//! Whoever reads asks again and again ([`Recorder::drain`]) instead of waiting to be woken: a waking would
//! come from the very CPU that is measured.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};

use stealtime_owner::TraceIds;
use stealtime_wire::{Facts, Finding, FindingLevel, TraceRequest};

use crate::error::TraceError;
use crate::format::PageFormat;
use crate::groups;
use crate::instance::Instance;
use crate::page::{Missed, Page, PageError, used_bytes};
use crate::processes;
use crate::recorded::Recorded;
use crate::rows::EventTable;
use crate::spool::Spool;
use crate::tracefs::Tracefs;

/// So many pages are taken from one CPU before the next CPU has its turn.
const PAGES_IN_TURN: usize = 1024;

/// The kernel rounds up to whole pages, and takes at least two.
const BUFFER_BYTES: std::ops::RangeInclusive<u64> = 4096..=1 << 40;

/// The code of the finding that threads cannot be found in the trace.
const UNKNOWN_IDS: &str = "thread_ids_unknown";

/// The kernel's buffers are counted in this.
const KIB: u64 = 1024;

/// Turns the recording on and off: one system call each. Of a recording that has ended it does nothing.
#[derive(Debug, Clone)]
pub struct Switch {
    /// Weak: an instance cannot be removed while anybody has one of its files open.
    file: Weak<File>,
}

impl Switch {
    /// Records from here on.
    pub fn on(&self) -> io::Result<()> {
        self.write(b"1")
    }

    pub fn off(&self) -> io::Result<()> {
        self.write(b"0")
    }

    fn write(&self, value: &[u8]) -> io::Result<()> {
        self.file.upgrade().map_or(Ok(()), |file| (&*file).write_all(value))
    }
}

#[derive(Debug)]
struct CpuBuffer {
    cpu: u16,
    pipe: File,
    spool: Spool,
    /// Lost events that stand before some page already.
    told: u64,
}

/// Buffers that are set up. Nothing is recorded until [`Switch::on`].
#[derive(Debug)]
pub struct Recorder {
    /// Before the instance, which can only be removed when nobody has its files open.
    buffers: Vec<CpuBuffer>,
    tracing_on: Arc<File>,
    table: EventTable,
    enabled: groups::Enabled,
    page: Vec<u8>,
    is_flight: bool,
    instance: Instance,
}

impl Recorder {
    /// Sets up an instance.
    ///
    /// # Errors
    /// [`TraceError`]; nothing is left of it then.
    pub fn prepare(tracefs: Arc<Tracefs>, request: &TraceRequest) -> Result<Self, TraceError> {
        validate(request)?;
        let instance = Instance::create(tracefs)?;
        let present = cpus_of(&instance);
        if let Some(missing) = request.cpus.iter().find(|&&cpu| !present.iter().any(|&known| u32::from(known) == cpu)) {
            return Err(TraceError::Parameter {
                parameter: "cpus",
                value: missing.to_string(),
                expected: format!("among {present:?}"),
            });
        }
        let is_wanted = |cpu: &u16| request.cpus.is_empty() || request.cpus.contains(&u32::from(*cpu));
        let cpus: Vec<u16> = present.iter().copied().filter(is_wanted).collect();
        set_buffers(&instance, request.buffer_bytes_per_cpu.div_ceil(KIB), &cpus, cpus.len() == present.len())?;
        let mut table = EventTable::default();
        if !request.processes.is_empty() {
            processes::follow(&instance, &request.processes)?;
        }
        let enabled = groups::enable(&instance, request, &mut table)?;
        let header = "events/header_page";
        let format = PageFormat::parse(&instance.read(header)?)
            .map_err(|problem| TraceError::Format { path: header.into(), problem })?;
        let buffers = cpus.into_iter().map(|cpu| {
            let pipe = instance.open_without_waiting(format!("per_cpu/cpu{cpu}/trace_pipe_raw"))?;
            Ok(CpuBuffer { cpu, pipe, spool: Spool::new(request.keep_bytes_per_cpu)?, told: 0 })
        });
        let buffers = buffers.collect::<Result<_, TraceError>>()?;
        let tracing_on = Arc::new(instance.open_to_write("tracing_on")?);
        let is_flight = request.keep_bytes_per_cpu.is_some();
        let page = vec![0; format.page_bytes];
        Ok(Self { buffers, tracing_on, table, enabled, page, is_flight, instance })
    }

    /// Which groups of events are recorded; an absent one says why it is not.
    pub fn groups(&self) -> &Facts {
        &self.enabled.groups
    }

    /// By which it is turned on and off.
    pub fn switch(&self) -> Switch {
        Switch { file: Arc::downgrade(&self.tracing_on) }
    }

    /// Takes what the kernel has; gives whether there may be more already.
    pub fn drain(&mut self) -> Result<bool, TraceError> {
        let mut has_more = false;
        for buffer in &mut self.buffers {
            has_more |= drain_cpu(&self.instance, buffer, &mut self.page)?;
        }
        Ok(has_more)
    }

    /// Turns it off, takes the rest, and removes the instance.
    pub fn finish(mut self) -> Result<Recorded, TraceError> {
        self.switch().off().map_err(TraceError::file("tracing_on".as_ref()))?;
        while self.drain()? {}
        let mut lost = 0;
        let mut pages = Vec::new();
        for buffer in self.buffers {
            lost += buffer.told.max(lost_events(&self.instance, buffer.cpu)?) + buffer.spool.dropped();
            pages.push((buffer.cpu, buffer.spool.rewind()?));
        }
        let mut findings: Vec<Finding> = self.enabled.findings;
        findings.extend(unknown_ids(TraceIds::here()));
        let groups = self.enabled.groups;
        let mut recorded = Recorded::new(pages, self.table, groups, findings, lost, self.instance.clock());
        recorded.is_flight = self.is_flight;
        Ok(recorded)
    }
}

/// What follows for who reads the events: whether they know threads by the ids that the trace has.
fn unknown_ids(ids: TraceIds) -> Option<Finding> {
    (ids == TraceIds::Unknown).then(|| Finding {
        code: UNKNOWN_IDS.to_owned(),
        level: FindingLevel::Limits,
        text:
            "the trace numbers threads as the initial PID namespace does, and this one has a /proc of its own, which \
               does not tell those numbers: no event can be given to a thread"
                .to_owned(),
        hint: Some("run stealtime in the host's PID namespace (for a container: `--pid=host`)".to_owned()),
    })
}

fn validate(request: &TraceRequest) -> Result<(), TraceError> {
    if !BUFFER_BYTES.contains(&request.buffer_bytes_per_cpu) {
        return Err(TraceError::Parameter {
            parameter: "buffer_bytes_per_cpu",
            value: request.buffer_bytes_per_cpu.to_string(),
            expected: format!("{} to {}", BUFFER_BYTES.start(), BUFFER_BYTES.end()),
        });
    }
    groups::validate(request)
}

fn cpus_of(instance: &Instance) -> Vec<u16> {
    let names = instance.list("per_cpu");
    let mut cpus: Vec<u16> = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    cpus
}

fn set_buffers(instance: &Instance, kib: u64, cpus: &[u16], all: bool) -> Result<(), TraceError> {
    if all {
        return instance.write("buffer_size_kb", &kib.to_string());
    }
    // The others keep the smallest possible: on a machine with many CPUs their default is a lot of memory.
    instance.write("buffer_size_kb", "1")?;
    for cpu in cpus {
        instance.write(format!("per_cpu/cpu{cpu}/buffer_size_kb"), &kib.to_string())?;
    }
    instance.write("tracing_cpumask", &mask(cpus))
}

/// CPUs as the kernel reads them (`cpumask_parse()`): 32 of them in a word, the highest word first.
fn mask(cpus: &[u16]) -> String {
    let highest = cpus.iter().copied().max().unwrap_or(0) / 32;
    let word = |number: u16| {
        let bits = cpus.iter().filter(|&&cpu| cpu / 32 == number).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
        format!("{bits:08x}")
    };
    (0..=highest).rev().map(word).collect::<Vec<_>>().join(",")
}

fn drain_cpu(instance: &Instance, buffer: &mut CpuBuffer, page: &mut [u8]) -> Result<bool, TraceError> {
    let file = format!("per_cpu/cpu{}/trace_pipe_raw", buffer.cpu);
    for _ in 0..PAGES_IN_TURN {
        let count = match buffer.pipe.read(page) {
            Ok(0) => return Ok(false),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(TraceError::file(file.as_ref())(error)),
        };
        let wrong = |error: PageError| TraceError::Format { path: file.clone().into(), problem: error.to_string() };
        let read = &page[..count];
        let lost = match Page::parse(read).map_err(wrong)?.missed {
            Missed::Nothing => 0,
            Missed::Count(count) => count,
            // The kernel's own count is not of this moment, but its total is right.
            Missed::Unknown => lost_events(instance, buffer.cpu)?.saturating_sub(buffer.told).max(1),
        };
        buffer.told += lost;
        let used = &read[..used_bytes(read).map_err(wrong)?];
        // Only where some are let go again; a page that is not understood counts when it is read.
        let events = || Page::parse(used).map_or(0, |page| page.count() as u64);
        buffer.spool.push(used, events, lost)?;
    }
    Ok(true)
}

/// What the kernel counts as lost on a CPU: overwritten before it was read, or never written for want of
/// room.
fn lost_events(instance: &Instance, cpu: u16) -> Result<u64, TraceError> {
    let statistics = instance.read(format!("per_cpu/cpu{cpu}/stats"))?;
    Ok(count_lost(&statistics))
}

fn count_lost(statistics: &str) -> u64 {
    let counts = statistics.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        let is_loss = matches!(name, "overrun" | "commit overrun" | "dropped events");
        is_loss.then(|| count.trim().parse::<u64>().ok()).flatten()
    });
    counts.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_become_the_words_of_a_mask() {
        assert_eq!(mask(&[0]), "00000001");
        assert_eq!(mask(&[1, 31, 33]), "00000002,80000002");
        assert_eq!(mask(&[64]), "00000001,00000000,00000000");
    }

    #[test]
    fn that_ids_are_unknown_is_told_only_where_they_are() {
        assert_eq!(unknown_ids(TraceIds::Own), None);
        assert_eq!(unknown_ids(TraceIds::ShownByProc), None);
        assert_eq!(unknown_ids(TraceIds::Unknown).unwrap().code, "thread_ids_unknown");
    }

    #[test]
    fn all_kinds_of_loss_are_counted() {
        let statistics = "entries: 5\noverrun: 10\ncommit overrun: 2\nbytes: 9\nnow ts: 1.5\ndropped events: 30\n";
        assert_eq!(count_lost(statistics), 42);
    }
}
