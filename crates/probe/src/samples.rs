//! The rows of a trial in memory, as they are read: live by whoever takes parts away, or when it is over.

use std::ops::Range;

use crate::keeping::Keeping;
use crate::sys::FrozenArray;

/// (index of a sample, units of the clock) ...
pub type Entries = Vec<(u64, u64)>;

/// Where a row lies in the memory.
#[derive(Debug, Clone, Copy)]
pub struct Cells {
    pub keeping: Keeping,
    pub capacity: usize,
    /// Of the sample in the first cell, where that is not a matter of the capacity alone.
    pub offset: usize,
}

impl Cells {
    /// The stretches of cells that hold these samples, in order.
    pub fn stretches(self, rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let mut next = rows.start;
        std::iter::from_fn(move || {
            (next < rows.end).then(|| {
                let cell = match self.keeping {
                    Keeping::Beside => next % self.capacity,
                    Keeping::Whole | Keeping::Pausing { .. } => next - self.offset,
                };
                let length = (rows.end - next).min(self.capacity - cell);
                next += length;
                cell..cell + length
            })
        })
    }
}

/// The gaps, where the layout has any, and durations of some samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows32 {
    pub gaps: Option<Vec<u32>>,
    pub durations: Vec<u32>,
    /// What there is besides, a column each.
    pub further: Vec<Vec<u32>>,
}

/// The samples of a trial that is over.
pub struct Samples {
    pub(crate) cells: Cells,
    pub(crate) durations: FrozenArray,
    pub(crate) gaps: Option<FrozenArray>,
    pub(crate) further: Vec<FrozenArray>,
    pub(crate) count: usize,
    /// (index, true duration) of the samples that hold [`crate::recorder::SATURATED`].
    pub saturated: Vec<(u64, u64)>,
    /// (index, true gap) of the gaps that hold [`crate::recorder::SATURATED`].
    pub saturated_gaps: Vec<(u64, u64)>,
    /// (index, true value) of each further column's cells that hold it.
    pub saturated_further: Vec<Entries>,
    /// (index, units): before this sample nobody watched for so long, while samples were taken away.
    pub pauses: Vec<(u64, u64)>,
    /// Saturated values whose true value could not be kept.
    pub lost: u64,
}

impl Samples {
    /// How many were measured, whether they are still here or were taken away.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Copies those that were not taken away.
    pub fn copy(&self, rows: Range<usize>) -> Rows32 {
        let read = |array: &FrozenArray| {
            let cells = array.as_slice();
            self.cells.stretches(rows.clone()).flat_map(|stretch| cells[stretch].iter().copied()).collect()
        };
        let further = self.further.iter().map(read).collect();
        Rows32 { gaps: self.gaps.as_ref().map(read), durations: read(&self.durations), further }
    }

    /// How long each sample took, in the trial's units, where all of them were kept.
    pub fn durations(&self) -> &[u32] {
        &self.durations.as_slice()[..self.count]
    }

    /// The time before each sample, where the layout has gaps and all samples were kept.
    pub fn gaps(&self) -> Option<&[u32]> {
        self.gaps.as_ref().map(|gaps| &gaps.as_slice()[..self.count])
    }
}
