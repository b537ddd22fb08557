//! Errors of measuring overheads.

/// Why columns cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OverheadsError {
    #[error("the column {column} of {table} has {rows} rows, the first one {expected}")]
    Length { table: &'static str, column: &'static str, rows: usize, expected: usize },
    /// A trace is in the order of time on each CPU.
    #[error("row {row} of the trace is earlier than the one before it on CPU {cpu}")]
    Backwards { row: usize, cpu: u16 },
    /// Another version wrote it.
    #[error("row {row} of the trace is of the unknown kind {kind}")]
    Kind { row: usize, kind: u8 },
    /// Rows are counted in 32 bits here.
    #[error("a trace of {rows} rows is too long to be read at once")]
    TooLong { rows: usize },
}
