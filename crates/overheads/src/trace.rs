//! The table `trace` (`docs/run-format.md`): borrowed columns that were checked once, and which rows each CPU has.

use stealtime_wire::EventKind;
pub use stealtime_wire::TraceColumns;

use crate::error::OverheadsError;
use crate::stretches::Stretches;

/// A trace whose columns fit each other. Only the order within each CPU counts.
#[derive(Debug, Clone)]
pub struct Trace<'a> {
    pub(crate) columns: TraceColumns<'a>,
    /// Of each name, whether it is the tick's callback.
    is_tick: Vec<bool>,
    /// Of each name, whether it is the interrupt by which another CPU has a thread run.
    is_request: Vec<bool>,
    /// When tracing began and ended.
    pub(crate) covered: (u64, u64),
    /// The rows of each CPU, in their order.
    pub(crate) rows: Vec<Vec<u32>>,
    /// Whether it has the scheduler's exits at all: without them no switch waits for one.
    pub(crate) tells_exits: bool,
    /// When events were lost, by CPU.
    pub(crate) lost: Vec<Stretches>,
}

/// The tick's callback: until Linux 6.7, 6.8 to 6.10, and since.
const TICKS: [&str; 3] = ["tick_sched_timer", "tick_nohz_highres_handler", "tick_nohz_handler"];

/// By which another CPU asks to choose anew, and by which it hands a woken thread over (`ttwu_queue_wakelist()`).
const REQUESTS: [&str; 2] = ["reschedule", "call_function_single"];

impl<'a> Trace<'a> {
    /// Checks columns once. `names` is what `name` counts, `covered` when tracing began and ended.
    pub fn new(columns: TraceColumns<'a>, names: &[String], covered: (u64, u64)) -> Result<Self, OverheadsError> {
        let expected = columns.time.len();
        if let Some((column, rows)) = columns.uneven() {
            return Err(OverheadsError::Length { table: "the trace", column, rows, expected });
        }
        let count = u32::try_from(expected).map_err(|_| OverheadsError::TooLong { rows: expected })?;
        let cpus = columns.cpu.iter().max().map_or(0, |&cpu| usize::from(cpu) + 1);
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); cpus];
        let mut lost: Vec<Vec<(u64, u64)>> = vec![Vec::new(); cpus];
        let mut last: Vec<u64> = vec![0; cpus];
        for (number, row) in (0..count).zip(0..) {
            let (time, cpu, kind) = (columns.time[row], columns.cpu[row], columns.kind[row]);
            let Some(kind) = EventKind::from_code(kind) else { return Err(OverheadsError::Kind { row, kind }) };
            let place = usize::from(cpu);
            if time < last[place] {
                return Err(OverheadsError::Backwards { row, cpu });
            }
            if kind == EventKind::Lost {
                // The last moment of it counts, however short it was.
                lost[place].push((last[place], time + 1));
            }
            last[place] = time;
            rows[place].push(number);
        }
        let is_tick = names.iter().map(|name| TICKS.contains(&name.as_str())).collect();
        let is_request = names.iter().map(|name| REQUESTS.contains(&name.as_str())).collect();
        let tells_exits = columns.kind.contains(&(EventKind::ScheduleExit as u8));
        let lost = lost.into_iter().map(Stretches::new).collect();
        Ok(Self { columns, is_tick, is_request, covered, rows, tells_exits, lost })
    }

    pub(crate) fn kind(&self, row: usize) -> EventKind {
        // All were looked at.
        EventKind::from_code(self.columns.kind[row]).unwrap_or(EventKind::Lost)
    }

    /// Whether a timer's row is about the tick.
    pub(crate) fn is_tick(&self, row: usize) -> bool {
        self.is_named(row, &self.is_tick)
    }

    /// Whether a vector's row is about another CPU's request.
    pub(crate) fn is_request(&self, row: usize) -> bool {
        self.is_named(row, &self.is_request)
    }

    fn is_named(&self, row: usize, so: &[bool]) -> bool {
        usize::try_from(self.columns.name[row]).ok().and_then(|name| so.get(name)).copied().unwrap_or(false)
    }

    /// Whether events of another CPU were lost within a stretch of time.
    pub(crate) fn lost_elsewhere(&self, cpu: u16, begin: u64, end: u64) -> bool {
        let others = self.lost.iter().enumerate().filter(|&(other, _)| other != usize::from(cpu));
        others.into_iter().any(|(_, lost)| lost.overlap(begin, end))
    }
}
