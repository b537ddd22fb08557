//! The events of a tracepoint on one CPU (`perf_event_open(2)`), with the time of `CLOCK_MONOTONIC_RAW`.
//!
//! Unlike a tracing instance they leave nothing behind: they end with the process that reads them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use super::perf_event::{self, Attributes, DISABLED, Whose};

const TYPE_TRACEPOINT: u32 = 2;
/// `PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW`.
const SAMPLE: u64 = 1 << 1 | 1 << 2 | 1 << 10;
/// Bits of [`Attributes`]' flags: other records have thread and time too; times by `clockid` (since Linux 4.1); a
/// record for each switch (since 4.3).
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCK: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE` and `PERF_RECORD_SWITCH_CPU_WIDE`.
const RECORD_LOST: u32 = 2;
const RECORD_SAMPLE: u32 = 9;
const RECORD_SWITCH: u32 = 15;
/// `PERF_RECORD_MISC_SWITCH_OUT`: of the thread that leaves.
const SWITCH_OUT: u16 = 1 << 13;

const PAGE_BYTES: usize = 4096;
/// With the page in front of them the 516 KiB that the kernel lets every user lock for each CPU
/// (`perf_event_mlock_kb`).
const DATA_BYTES: usize = 128 * PAGE_BYTES;
/// In the page in front: how far the kernel has written, and how far we have read (`struct perf_event_mmap_page`).
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// What the kernel has written.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An event as its `format` file describes it.
    Event { raw_ns: u64, event: &'a [u8] },
    /// A thread came to the CPU.
    Came { raw_ns: u64, thread: u32 },
    /// There was no room for some.
    Lost,
}

/// Events of one CPU, in one ring buffer.
pub struct CpuEvents {
    ring: NonNull<u8>,
    file: File,
}

// SAFETY: the mapping is owned, and nothing in it is tied to a thread.
unsafe impl Send for CpuEvents {}

impl CpuEvents {
    /// Records the tracepoint with this number on `cpu`, and each thread that comes to it if wanted.
    ///
    /// # Errors
    /// What the kernel says: `EACCES` or `EPERM` without permission, `ENOSYS` where it has no such events.
    pub fn open(cpu: u32, tracepoint: u16, with_arrivals: bool) -> io::Result<Self> {
        let cpu = libc::c_int::try_from(cpu).map_err(io::Error::other)?;
        let file = open(tracepoint, cpu, if with_arrivals { CONTEXT_SWITCH } else { 0 })?;
        let (access, length) = (libc::PROT_READ | libc::PROT_WRITE, PAGE_BYTES + DATA_BYTES);
        // SAFETY: a new mapping of a file of our own; no existing memory is touched.
        let ring = unsafe { libc::mmap(ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let ring = NonNull::new(ring.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        // It gives the mapping back where the event cannot begin.
        let events = Self { ring, file };
        perf_event::enable(&events.file, 0)?;
        Ok(events)
    }

    /// Reads what was recorded since the last reading, in the order of time.
    pub fn read(&mut self, mut visit: impl FnMut(Record)) {
        let head = self.position(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_AT).load(Ordering::Relaxed);
        // SAFETY: the data follow the first page, and the kernel writes none of them that lie before `head` and after
        // the position that is stored below.
        let data = unsafe { std::slice::from_raw_parts(self.ring.as_ptr().add(PAGE_BYTES), DATA_BYTES) };
        let mut piece = Vec::new();
        while tail < head {
            let Some(length) = record_length(data, tail).filter(|&length| length >= 8) else { break };
            copy_out(data, tail, length, &mut piece);
            if let Some(record) = parse(&piece) {
                visit(record);
            }
            tail += length as u64;
        }
        self.position(TAIL_AT).store(head, Ordering::Release);
    }

    #[allow(clippy::cast_ptr_alignment, reason = "a mapping begins with a page, and both places are multiples of 8")]
    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both places are aligned and inside of the first page, and the kernel reads and writes them as such.
        unsafe { AtomicU64::from_ptr(self.ring.as_ptr().add(at).cast()) }
    }
}

impl Drop for CpuEvents {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`, of the same size.
        unsafe { libc::munmap(self.ring.as_ptr().cast(), PAGE_BYTES + DATA_BYTES) };
    }
}

/// The last of a record's eight bytes of head.
fn record_length(data: &[u8], at: u64) -> Option<usize> {
    let mut head = Vec::new();
    copy_out(data, at, 8, &mut head);
    Some(usize::from(u16::from_ne_bytes(head.get(6..8)?.try_into().ok()?)))
}

/// Copies from a ring that may begin anew in between.
fn copy_out(data: &[u8], at: u64, length: usize, to: &mut Vec<u8>) {
    to.clear();
    #[expect(clippy::cast_possible_truncation, reason = "less than the length of the data")]
    let from = (at % data.len() as u64) as usize;
    let whole = length.min(data.len() - from);
    to.extend_from_slice(&data[from..from + whole]);
    to.extend_from_slice(&data[..(length - whole).min(from)]);
}

fn parse(record: &[u8]) -> Option<Record<'_>> {
    let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let time = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
    match word(0)? {
        RECORD_LOST => Some(Record::Lost),
        RECORD_SAMPLE => {
            let length = usize::try_from(word(24)?).ok()?;
            Some(Record::Event { raw_ns: time(16)?, event: record.get(28..28 + length)? })
        }
        RECORD_SWITCH => {
            let flags = u16::from_ne_bytes(record.get(4..6)?.try_into().ok()?);
            (flags & SWITCH_OUT == 0).then_some(Record::Came { raw_ns: time(24)?, thread: word(20)? })
        }
        _ => None,
    }
}

fn open(tracepoint: u16, cpu: libc::c_int, more_flags: u64) -> io::Result<File> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        config: tracepoint.into(),
        sample_period: 1,
        sample_type: SAMPLE,
        flags: DISABLED | SAMPLE_ID_ALL | USE_CLOCK | more_flags,
        clock: libc::CLOCK_MONOTONIC_RAW,
        ..Attributes::default()
    };
    perf_event::open(attributes, Whose::Cpu(cpu), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(8 + body.len()).unwrap();
        [&kind.to_ne_bytes()[..], &flags.to_ne_bytes(), &length.to_ne_bytes(), body].concat()
    }

    fn sample(raw_ns: u64, event: &[u8]) -> Vec<u8> {
        let length = u32::try_from(event.len()).unwrap();
        let (thread, time) = ([0; 8], raw_ns.to_ne_bytes());
        record(RECORD_SAMPLE, 0, &[&thread[..], &time, &length.to_ne_bytes(), event].concat())
    }

    #[test]
    fn records_are_read_across_the_end_of_the_ring() {
        let written = sample(77, &[1, 2, 3, 4]);
        for from in 0..64_u64 {
            let mut ring = vec![0; 64];
            for (at, &byte) in (from..).zip(&written) {
                ring[usize::try_from(at % 64).unwrap()] = byte;
            }
            assert_eq!(record_length(&ring, from), Some(written.len()));
            let mut piece = Vec::new();
            copy_out(&ring, from + 64, written.len(), &mut piece);
            assert_eq!(parse(&piece), Some(Record::Event { raw_ns: 77, event: &[1, 2, 3, 4] }), "from {from}");
        }
    }

    #[test]
    fn what_is_cut_short_or_unknown_is_no_record() {
        let whole = sample(77, &[1, 2, 3, 4]);
        assert_eq!(parse(&whole[..whole.len() - 1]), None);
        assert_eq!(parse(&record(14, 0, &[0; 16])), None);
        assert_eq!(parse(&record(RECORD_LOST, 0, &[0; 16])), Some(Record::Lost));
    }

    #[test]
    fn of_each_switch_only_who_comes_is_told() {
        let words = [5_u32, 6, 70, 71].map(u32::to_ne_bytes).concat();
        let body = [&words[..], &99_u64.to_ne_bytes()].concat();
        assert_eq!(parse(&record(RECORD_SWITCH, 0, &body)), Some(Record::Came { raw_ns: 99, thread: 71 }));
        assert_eq!(parse(&record(RECORD_SWITCH, SWITCH_OUT | 1 << 14, &body)), None);
    }
}
