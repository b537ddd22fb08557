//! Rows of a trace by column, as the attribution takes them.

use stealtime_attribution::TraceColumns;
use stealtime_trace::Row;

#[derive(Default)]
pub struct Columns {
    pub time: Vec<u64>,
    pub cpu: Vec<u16>,
    pub kind: Vec<u8>,
    pub thread: Vec<i32>,
    pub value: Vec<i64>,
    pub other: Vec<i32>,
    pub priority: Vec<i16>,
    pub name: Vec<u32>,
}

impl Columns {
    pub fn push(&mut self, row: &Row) {
        self.time.push(row.time);
        self.cpu.push(row.cpu);
        self.kind.push(row.kind as u8);
        self.thread.push(row.thread);
        self.value.push(row.value);
        self.other.push(row.other);
        self.priority.push(row.priority);
        self.name.push(row.name);
    }

    pub fn borrowed(&self) -> TraceColumns<'_> {
        TraceColumns {
            time: &self.time,
            cpu: &self.cpu,
            kind: &self.kind,
            thread: &self.thread,
            value: &self.value,
            other: &self.other,
            priority: &self.priority,
            name: &self.name,
        }
    }
}

impl<'a> FromIterator<&'a Row> for Columns {
    fn from_iter<Rows: IntoIterator<Item = &'a Row>>(rows: Rows) -> Self {
        let mut columns = Self::default();
        rows.into_iter().for_each(|row| columns.push(row));
        columns
    }
}
