//! What is wrong with columns.

/// Columns that cannot be what they should be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PathError {
    #[error("column {column} of {table} has {rows} rows instead of {expected}")]
    Length { table: &'static str, column: &'static str, rows: usize, expected: usize },
    #[error("request {row} ends at {end}, before it begins at {start}")]
    Backwards { row: usize, start: u64, end: u64 },
}
