//! The columns of samples besides their gap and their duration: of requests that overlap.

use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

use crate::samples::{Cells, Entries};
use crate::side_list::{SATURATED, SideList};
use crate::sys::{FrozenArray, LockedArray};

/// Writes into columns of as many cells as there are samples. Who writes them is who writes the durations.
pub struct FurtherColumns {
    columns: Vec<(LockedArray, SideList)>,
}

impl FurtherColumns {
    /// Of samples that have none.
    pub fn none() -> Self {
        Self { columns: Vec::new() }
    }

    /// Allocates, locks and touches memory for `count` columns.
    pub fn new(count: usize, capacity: usize, duration_ns: u64) -> io::Result<Self> {
        let column = |_| Ok((LockedArray::new(capacity)?, SideList::for_requests(capacity, duration_ns)));
        Ok(Self { columns: (0..count).map(column).collect::<io::Result<_>>()? })
    }

    /// Why the memory is not locked, if so.
    pub fn lock_error(&self) -> Option<&io::Error> {
        self.columns.iter().find_map(|(cells, _)| cells.lock_error())
    }

    /// Writes the values of sample `index` to a cell.
    #[inline(always)]
    pub fn write(&self, index: usize, cell: usize, values: &[u64]) {
        for ((cells, long), &value) in self.columns.iter().zip(values) {
            let narrow = match u32::try_from(value) {
                Ok(narrow) if narrow != SATURATED => narrow,
                _ => {
                    long.push(index, value);
                    SATURATED
                }
            };
            cells.cells()[cell].store(narrow, Ordering::Relaxed);
        }
    }

    /// Copies what was written of some samples, a column each.
    pub fn copy(&self, cells: Cells, rows: &Range<usize>) -> Vec<Vec<u32>> {
        let read = |(array, _): &(LockedArray, SideList)| {
            let array = array.cells();
            cells
                .stretches(rows.clone())
                .flat_map(|one| array[one].iter().map(|cell| cell.load(Ordering::Relaxed)))
                .collect()
        };
        self.columns.iter().map(read).collect()
    }

    /// (index, true value) of what was saturated so far, of each column, and how many were lost.
    pub fn saturated(&self) -> (Vec<Entries>, u64) {
        let lists = self.columns.iter().map(|(_, long)| long);
        (lists.clone().map(SideList::entries).collect(), lists.map(SideList::lost).sum())
    }

    /// Ends the writing.
    pub fn freeze(self) -> Vec<FrozenArray> {
        self.columns.into_iter().map(|(cells, _)| cells.freeze()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeping::Keeping;

    #[test]
    fn each_value_goes_to_its_column_and_long_ones_keep_their_true_value() {
        let columns = FurtherColumns::new(2, 4, 0).unwrap();
        columns.write(0, 0, &[1, 2]);
        columns.write(1, 1, &[u64::from(SATURATED), 1 << 40]);
        let cells = Cells { keeping: Keeping::Whole, capacity: 4, offset: 0 };
        assert_eq!(columns.copy(cells, &(0..2)), [[1, SATURATED], [2, SATURATED]]);
        assert_eq!(columns.saturated(), (vec![vec![(1, u64::from(SATURATED))], vec![(1, 1 << 40)]], 0));
    }
}
