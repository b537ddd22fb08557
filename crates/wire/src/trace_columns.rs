//! The columns of the table `trace` (`docs/run-format.md`), as whoever reads one holds them.

/// All equally long, where [`TraceColumns::uneven`] finds none; see `docs/run-format.md` for their meaning by kind.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceColumns<'a> {
    pub time: &'a [u64],
    pub cpu: &'a [u16],
    pub kind: &'a [u8],
    pub thread: &'a [i32],
    pub value: &'a [i64],
    pub other: &'a [i32],
    pub priority: &'a [i16],
    pub name: &'a [u32],
}

impl TraceColumns<'_> {
    /// The first column that has not as many rows as `time`, and how many it has.
    pub fn uneven(&self) -> Option<(&'static str, usize)> {
        let lengths = [
            ("cpu", self.cpu.len()),
            ("kind", self.kind.len()),
            ("thread", self.thread.len()),
            ("value", self.value.len()),
            ("other", self.other.len()),
            ("priority", self.priority.len()),
            ("name", self.name.len()),
        ];
        lengths.into_iter().find(|&(_, rows)| rows != self.time.len())
    }
}
