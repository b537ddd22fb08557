//! What was recorded: pages of all CPUs, which become rows in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs;

use stealtime_wire::{Facts, Finding, FindingLevel};

use crate::error::TraceError;
use crate::page::Page;
use crate::row::{Kind, Row};
use crate::rows::EventTable;
use crate::spool::SpooledPages;

/// The pages of one CPU, understood one at a time.
struct CpuRows {
    cpu: u16,
    pages: SpooledPages,
    page: Vec<u8>,
    rows: Vec<Row>,
    position: usize,
    last_time: u64,
}

/// What was met on the way.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Met {
    events: u64,
    broken_pages: u64,
    backward: u64,
}

pub struct Recorded {
    cpus: Vec<CpuRows>,
    /// The next row of each CPU that has one.
    heads: Option<BinaryHeap<Reverse<(u64, usize)>>>,
    table: EventTable,
    met: Met,
    findings: Vec<Finding>,
    /// Which groups of events were recorded.
    pub groups: Facts,
    /// Events that the kernel had no room for, and older ones that were not to be kept.
    pub lost: u64,
    /// The kernel's name of the clock.
    pub clock: &'static str,
    /// Whether only the last events were to be kept.
    pub is_flight: bool,
}

impl Recorded {
    /// From pages of each CPU, which `table` understands; the rest is told as it is.
    pub fn new(
        pages: Vec<(u16, SpooledPages)>,
        table: EventTable,
        groups: Facts,
        findings: Vec<Finding>,
        lost: u64,
        clock: &'static str,
    ) -> Self {
        let cpus = pages.into_iter().map(|(cpu, pages)| CpuRows {
            cpu,
            pages,
            page: Vec::new(),
            rows: Vec::new(),
            position: 0,
            last_time: 0,
        });
        Self {
            cpus: cpus.collect(),
            heads: None,
            table,
            met: Met::default(),
            findings,
            groups,
            lost,
            clock,
            is_flight: false,
        }
    }

    /// Appends the next rows, in the order of time, until there are `limit` in `rows`; gives whether there
    /// are more.
    pub fn take(&mut self, limit: usize, rows: &mut Vec<Row>) -> Result<bool, TraceError> {
        let mut heads = match self.heads.take() {
            Some(heads) => heads,
            None => self.first_heads()?,
        };
        while rows.len() < limit {
            let Some(Reverse((_, index))) = heads.pop() else { break };
            let cpu = &mut self.cpus[index];
            // As long as this CPU's rows come before the next one's, the heap need not be asked.
            let until = heads.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
            while rows.len() < limit
                && let Some(row) = cpu.rows.get(cpu.position).filter(|row| row.time <= until)
            {
                rows.push(*row);
                cpu.position += 1;
            }
            if let Some(time) = cpu.next_time(&mut self.table, &mut self.met)? {
                heads.push(Reverse((time, index)));
            }
        }
        let has_more = !heads.is_empty();
        self.heads = Some(heads);
        Ok(has_more)
    }

    fn first_heads(&mut self) -> Result<BinaryHeap<Reverse<(u64, usize)>>, TraceError> {
        let mut heads = BinaryHeap::new();
        for (index, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some(time) = cpu.next_time(&mut self.table, &mut self.met)? {
                heads.push(Reverse((time, index)));
            }
        }
        Ok(heads)
    }

    /// Rows so far, without those that tell of losses.
    pub fn events(&self) -> u64 {
        self.met.events
    }

    /// What the column `name` counts, and what a reader must know; once all rows were taken.
    pub fn conclude(self) -> (Vec<String>, Vec<Finding>) {
        let mut findings = self.findings;
        let mut found = |code: &str, text: String, hint: Option<&str>| {
            let (code, hint) = (code.to_owned(), hint.map(str::to_owned));
            findings.push(Finding { code, level: FindingLevel::Limits, text, hint });
        };
        if self.lost > 0 && self.is_flight {
            let text =
                format!("the last {} events of the kernel were kept, {} before them not", self.met.events, self.lost);
            found("trace_flight", text, None);
        } else if self.lost > 0 {
            let text = format!("{} events of the kernel were lost, {} were recorded", self.lost, self.met.events);
            found("trace_events_lost", text, Some("give the trace a larger buffer, or trace fewer CPUs"));
        }
        if self.met.broken_pages > 0 {
            let text = format!("{} pages of the kernel's trace were not understood", self.met.broken_pages);
            found("trace_pages_broken", text, Some("please report it with the kernel's version"));
        }
        if self.met.backward > 0 {
            let text = format!("the time-stamp counter went backwards {} times on one CPU", self.met.backward);
            found("trace_time_backwards", text, Some("look at the kernel's log for an unstable TSC"));
        }
        // A kernel that hides its symbols leaves the addresses.
        let names = self.table.into_names(|| fs::read_to_string("/proc/kallsyms").unwrap_or_default());
        (names, findings)
    }
}

impl CpuRows {
    /// When the next row is, after reading on if none is at hand.
    fn next_time(&mut self, table: &mut EventTable, met: &mut Met) -> Result<Option<u64>, TraceError> {
        while self.position == self.rows.len() {
            self.rows.clear();
            self.position = 0;
            let Some(lost) = self.pages.next_into(&mut self.page)? else { return Ok(None) };
            self.understand(lost, table, met);
        }
        Ok(self.rows.get(self.position).map(|row| row.time))
    }

    fn understand(&mut self, lost: u64, table: &mut EventTable, met: &mut Met) {
        let Ok(page) = Page::parse(&self.page) else {
            met.broken_pages += 1;
            self.rows.push(Row::lost(self.last_time, self.cpu, lost.max(1)));
            return;
        };
        // The losses stand just before the first event that was kept.
        let mut untold = lost;
        let tell = |rows: &mut Vec<Row>, time, count: &mut u64| {
            if *count > 0 {
                rows.push(Row::lost(time, self.cpu, std::mem::take(count)));
            }
        };
        for entry in page.clone() {
            let Ok(mut entry) = entry else {
                met.broken_pages += 1;
                untold += 1;
                break;
            };
            if entry.time < self.last_time {
                met.backward += 1;
                entry.time = self.last_time;
            }
            self.last_time = entry.time;
            tell(&mut self.rows, entry.time, &mut untold);
            if let Some(row) = table.row(entry, self.cpu) {
                debug_assert_ne!(row.kind, Kind::Lost, "the kernel has no such event");
                met.events += 1;
                self.rows.push(row);
            }
        }
        let end = self.last_time.max(page.start);
        self.last_time = end;
        tell(&mut self.rows, end, &mut untold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Spool;

    const SOFTIRQ: &str = "ID: 223\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n";

    /// A page whose events are softirqs, `vec` being the CPU's number.
    fn page(start: u64, cpu: u16, pauses: &[u32]) -> Vec<u8> {
        let mut page = start.to_le_bytes().to_vec();
        page.extend((pauses.len() as u64 * 16).to_le_bytes());
        for pause in pauses {
            page.extend((pause << 5 | 3).to_le_bytes());
            page.extend(223_u32.to_le_bytes());
            page.extend(1_i32.to_le_bytes());
            page.extend(u32::from(cpu).to_le_bytes());
        }
        page
    }

    fn recorded(cpus: &[&[(Vec<u8>, u64)]], lost: u64) -> Recorded {
        let mut table = EventTable::default();
        table.learn("softirq_entry", SOFTIRQ).unwrap();
        let pages = (0..).zip(cpus).map(|(cpu, pages)| {
            let mut spool = Spool::new(None).unwrap();
            for (page, lost) in *pages {
                spool.push(page, || 0, *lost).unwrap();
            }
            (cpu, spool.rewind().unwrap())
        });
        Recorded::new(pages.collect(), table, Facts::new(), Vec::new(), lost, "x86-tsc")
    }

    fn take_all(recorded: &mut Recorded, limit: usize) -> Vec<Row> {
        let mut rows = Vec::new();
        let mut piece = Vec::new();
        while {
            piece.clear();
            let has_more = recorded.take(limit, &mut piece).unwrap();
            rows.extend(&piece);
            has_more
        } {}
        rows
    }

    #[test]
    fn the_rows_of_all_cpus_come_in_the_order_of_time_in_any_pieces() {
        let first = [(page(100, 0, &[0, 10, 10]), 0), (page(200, 0, &[0, 5]), 0)];
        let second = [(page(105, 1, &[0, 100, 100]), 0)];
        for limit in [1, 2, 3, 100] {
            let mut recorded = recorded(&[&first, &second], 0);
            let rows = take_all(&mut recorded, limit);
            let seen: Vec<(u64, u16)> = rows.iter().map(|row| (row.time, row.cpu)).collect();
            let expected = [(100, 0), (105, 1), (110, 0), (120, 0), (200, 0), (205, 0), (205, 1), (305, 1)];
            assert_eq!(seen, expected, "pieces of {limit}");
            assert!(rows.iter().all(|row| row.value == i64::from(row.cpu)));
            assert_eq!(recorded.events(), 8);
        }
    }

    #[test]
    fn losses_stand_before_the_first_event_that_was_kept() {
        let pages = [(page(100, 0, &[0]), 0), (page(900, 0, &[7]), 42)];
        let mut recorded = recorded(&[&pages], 42);
        let rows = take_all(&mut recorded, 10);
        let seen: Vec<(u64, Kind, i64)> = rows.iter().map(|row| (row.time, row.kind, row.value)).collect();
        let softirq = Kind::SoftirqEntry;
        assert_eq!(seen, [(100, softirq, 0), (907, Kind::Lost, 42), (907, softirq, 0)]);
        assert_eq!(recorded.events(), 2);
        let (_, findings) = recorded.conclude();
        assert_eq!(findings[0].code, "trace_events_lost");
        assert!(findings[0].text.contains("42 events"), "{findings:?}");
    }

    #[test]
    fn a_broken_page_and_a_clock_that_goes_back_are_told() {
        let pages = [(page(500, 0, &[0]), 0), (page(400, 0, &[0]), 0), (vec![1, 2, 3], 0)];
        let mut recorded = recorded(&[&pages], 0);
        let rows = take_all(&mut recorded, 10);
        let seen: Vec<(u64, Kind)> = rows.iter().map(|row| (row.time, row.kind)).collect();
        let softirq = Kind::SoftirqEntry;
        assert_eq!(seen, [(500, softirq), (500, softirq), (500, Kind::Lost)]);
        let codes: Vec<String> = recorded.conclude().1.into_iter().map(|finding| finding.code).collect();
        assert_eq!(codes, ["trace_pages_broken", "trace_time_backwards"]);
    }
}
