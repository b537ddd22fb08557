//! The table `trace` as it was recorded (`docs/run-format.md`): borrowed columns that were checked once.

pub use stealtime_wire::{EventKind, TraceColumns};

/// `name` of an event that has none.
pub const NO_NAME: u32 = u32::MAX;

/// A trace whose columns fit each other.
#[derive(Debug, Clone)]
pub struct Trace<'a> {
    pub(crate) columns: TraceColumns<'a>,
    pub(crate) names: &'a [String],
    /// When tracing began and ended, in the same counter.
    pub(crate) covered: (u64, u64),
    /// Cycles of that counter in a nanosecond.
    pub(crate) cycles_per_ns: f64,
    /// One more than the largest thread id.
    pub(crate) threads: usize,
    /// One more than the largest CPU.
    pub(crate) cpus: usize,
    /// Stretches with lost events: CPU, start, end; by start.
    pub(crate) lost: Vec<(u16, u64, u64)>,
    /// When events were lost on any CPU: sorted, apart from each other.
    pub(crate) lost_anywhere: Vec<(u64, u64)>,
    /// How many events were lost.
    pub(crate) lost_events: u64,
    /// Switches that the kernel left out and that its accounts of runtime give away, in the order in which
    /// they come.
    pub(crate) mended: Vec<Mended>,
    /// Rows of switches whose thread was woken on its way to sleep, sorted.
    pub(crate) crossed: Vec<usize>,
}

impl Trace<'_> {
    /// Since when events could be missing, on whatever CPU, in a stretch; `None` if it is whole.
    pub(crate) fn first_loss_within(&self, (start, end): (u64, u64)) -> Option<u64> {
        let first = self.lost_anywhere.partition_point(|&(_, until)| until <= start);
        let &(since, _) = self.lost_anywhere.get(first)?;
        (since < end).then_some(since.max(start))
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.columns.time.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.columns.time.is_empty()
    }

    /// How many events the kernel dropped.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }

    pub(crate) fn name(&self, name: u32) -> Option<&str> {
        usize::try_from(name).ok().and_then(|name| self.names.get(name)).map(String::as_str)
    }
}

/// A switch that was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mended {
    /// It comes before this row.
    pub before_row: usize,
    pub time: u64,
    pub cpu: u16,
    pub left: i32,
    /// 0 if the one that left could still run: nobody woke it before it ran again.
    pub state: i64,
    pub next: i32,
    /// When the one that left was last seen on the CPU, and the one that came first.
    pub seen: (u64, u64),
}

/// Sort stretches and join those that touch.
pub(crate) fn merged(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in stretches.into_iter().filter(|(start, end)| start < end) {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}
