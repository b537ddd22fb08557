//! Columns become a trace: checked once, with what the kernel lost or left out found.

use rayon::prelude::*;

use crate::crossing::crossed;
use crate::mend::mend;
use crate::trace::{EventKind, NO_NAME, Trace, TraceColumns, merged};

/// Thread ids are dense below this (`PID_MAX_LIMIT` of 64-bit Linux, include/linux/threads.h).
const THREAD_ID_LIMIT: i32 = 1 << 22;

/// CPUs are dense below this (`NR_CPUS` of distribution kernels is at most 8192).
const CPU_LIMIT: u16 = 8192;

/// Rows that one thread checks at a time.
const CHUNK: usize = 1 << 16;

/// Why columns cannot be a trace.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TraceError {
    #[error("the column `{column}` of the trace has {rows} rows, `time` has {expected}")]
    Length {
        column: &'static str,
        rows: usize,
        /// The rows of `time`.
        expected: usize,
    },
    #[error("row {row} of the trace is earlier than the row before it")]
    Unsorted {
        /// The first such row.
        row: usize,
    },
    #[error("row {row} of the trace has the unknown kind {kind}")]
    UnknownKind { row: usize, kind: u8 },
    #[error("row {row} of the trace has the name {name}, but there are only {names} names")]
    UnknownName { row: usize, name: u32, names: usize },
    #[error("row {row} of the trace has the impossible {column} {value}")]
    Impossible {
        row: usize,
        /// `cpu`, `thread` or `other`.
        column: &'static str,
        value: i64,
    },
}

/// What one worker learns from its rows.
#[derive(Default)]
struct Scan {
    threads: i32,
    cpus: u16,
    lost_rows: Vec<usize>,
    tells_runtime: bool,
}

impl<'a> Trace<'a> {
    /// Check the columns.
    ///
    /// # Errors
    /// They differ in length, are not sorted by time, or hold a value that cannot be.
    pub fn new(
        columns: TraceColumns<'a>,
        names: &'a [String],
        covered: (u64, u64),
        cycles_per_ns: f64,
    ) -> Result<Self, TraceError> {
        let rows = columns.time.len();
        if let Some((column, found)) = columns.uneven() {
            return Err(TraceError::Length { column, rows: found, expected: rows });
        }
        let starts: Vec<usize> = (0..rows).step_by(CHUNK).collect();
        let scans: Vec<Scan> = starts
            .into_par_iter()
            .map(|start| scan(&columns, names.len(), start..(start + CHUNK).min(rows)))
            .collect::<Result<_, _>>()?;
        let mut trace = Self {
            columns,
            names,
            covered,
            cycles_per_ns,
            threads: scans.iter().map(|scan| usize::try_from(scan.threads).unwrap_or(0)).max().unwrap_or(0) + 1,
            cpus: scans.iter().map(|scan| usize::from(scan.cpus)).max().unwrap_or(0) + 1,
            lost: Vec::new(),
            lost_anywhere: Vec::new(),
            lost_events: 0,
            mended: Vec::new(),
            crossed: Vec::new(),
        };
        trace.crossed = crossed(&trace);
        if scans.iter().any(|scan| scan.tells_runtime) {
            trace.mended = mend(&trace);
        }
        trace.find_lost(scans.into_iter().flat_map(|scan| scan.lost_rows));
        Ok(trace)
    }

    fn find_lost(&mut self, rows: impl Iterator<Item = usize>) {
        let columns = self.columns;
        for row in rows {
            let cpu = columns.cpu[row];
            let before = (0..row).rev().find(|&earlier| columns.cpu[earlier] == cpu);
            let start = before.map_or(self.covered.0.min(columns.time[row]), |earlier| columns.time[earlier]);
            self.lost.push((cpu, start, columns.time[row]));
            self.lost_events += u64::try_from(columns.value[row]).unwrap_or(0);
        }
        self.lost.sort_unstable_by_key(|&(_, start, end)| (start, end));
        self.lost_anywhere = merged(self.lost.iter().map(|&(_, start, end)| (start, end)).collect());
    }
}

fn scan(columns: &TraceColumns<'_>, names: usize, rows: std::ops::Range<usize>) -> Result<Scan, TraceError> {
    let mut scan = Scan::default();
    let mut before = if rows.start == 0 { 0 } else { columns.time[rows.start - 1] };
    for row in rows {
        let time = columns.time[row];
        if time < before {
            return Err(TraceError::Unsorted { row });
        }
        before = time;
        let kind = columns.kind[row];
        if EventKind::from_code(kind).is_none() {
            return Err(TraceError::UnknownKind { row, kind });
        }
        let name = columns.name[row];
        if name != NO_NAME && usize::try_from(name).map_or(true, |name| name >= names) {
            return Err(TraceError::UnknownName { row, name, names });
        }
        let (cpu, thread) = (columns.cpu[row], columns.thread[row]);
        if cpu >= CPU_LIMIT {
            return Err(TraceError::Impossible { row, column: "cpu", value: i64::from(cpu) });
        }
        if !(0..THREAD_ID_LIMIT).contains(&thread) {
            return Err(TraceError::Impossible { row, column: "thread", value: i64::from(thread) });
        }
        scan.cpus = scan.cpus.max(cpu);
        scan.threads = scan.threads.max(thread);
        scan.tells_runtime |= kind == EventKind::Runtime as u8;
        if [EventKind::Switch, EventKind::Waking, EventKind::Runtime].iter().any(|&it| kind == it as u8) {
            let other = columns.other[row];
            if !(0..THREAD_ID_LIMIT).contains(&other) {
                return Err(TraceError::Impossible { row, column: "other", value: i64::from(other) });
            }
            scan.threads = scan.threads.max(other);
        } else if kind == EventKind::Lost as u8 {
            scan.lost_rows.push(row);
        }
    }
    Ok(scan)
}
