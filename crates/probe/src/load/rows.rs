//! The rows of the table `load`, kept by one thread in memory that it has before it begins.

use super::LoadRow;

/// Two hours of phases of 5 ms every 55 ms, a day and a half of a load that never pauses: 3 MiB a thread.
const MOST_ROWS: usize = 1 << 17;

/// What a thread takes for them: as it writes them down, and once more in the table.
pub const NEEDED_BYTES: u64 = (MOST_ROWS * (size_of::<Row>() + size_of::<LoadRow>())) as u64;

/// A stretch in which a thread was on, cut at a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The time-stamp counter at the beginning.
    pub start: u64,
    /// Cycles to the end.
    pub duration: u64,
    /// What was done in it.
    pub work: u64,
}

/// The rows of a thread, and what all stretches sum up to, also of those that found no room.
#[derive(Debug)]
pub struct Rows {
    kept: Vec<Row>,
    /// Stretches for which there was no room.
    pub lost: u64,
    pub on_cycles: u64,
    pub work: u64,
}

impl Rows {
    /// Makes room and touches it.
    pub fn new() -> Self {
        Self::with_room(MOST_ROWS)
    }

    /// No room at all, for a thread that never begins.
    pub fn none() -> Self {
        Self { kept: Vec::new(), lost: 0, on_cycles: 0, work: 0 }
    }

    fn with_room(rows: usize) -> Self {
        // Written, not only reserved: a page fault would cost the load time.
        let mut kept = vec![Row { start: 1, duration: 1, work: 1 }; rows];
        kept.clear();
        Self { kept, lost: 0, on_cycles: 0, work: 0 }
    }

    /// Adds a row if there is room, and counts it in any case.
    pub fn push(&mut self, start: u64, duration: u64, work: u64) {
        self.on_cycles += duration;
        self.work += work;
        if self.kept.len() < self.kept.capacity() {
            self.kept.push(Row { start, duration, work });
        } else {
            self.lost += 1;
        }
    }

    /// The rows that were kept, in their order.
    pub fn kept(&self) -> &[Row] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted_and_its_work_is_kept() {
        let mut rows = Rows::with_room(2);
        let room = rows.kept.capacity() as u64;
        for number in 0..room + 3 {
            rows.push(number * 10, 5, 7);
        }
        assert_eq!((rows.kept().len() as u64, rows.lost), (room, 3));
        assert_eq!((rows.on_cycles, rows.work), ((room + 3) * 5, (room + 3) * 7));
    }
}
