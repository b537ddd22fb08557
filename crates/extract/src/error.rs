//! Errors of reading a trace.

/// Why columns cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    #[error("the column {column} of the trace has {rows} rows, the first one {expected}")]
    Length { column: &'static str, rows: usize, expected: usize },
    /// Another version wrote it.
    #[error("row {row} of the trace is of the unknown kind {kind}")]
    Kind { row: usize, kind: u8 },
    #[error("row {row} of the trace is earlier than the one before it on CPU {cpu}")]
    Backwards { row: usize, cpu: u16 },
    #[error("the two readings of the clocks are not apart")]
    Clock,
}
