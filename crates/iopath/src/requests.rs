//! Requests as the probe stamped them.

use crate::error::PathError;

/// All columns are equally long. Times are of the guest's counter.
#[derive(Debug, Clone, Copy)]
pub struct Requests<'a> {
    /// Just before the system call.
    pub submitted: &'a [u64],
    /// When it was back.
    pub returned: &'a [u64],
    /// Where on the disk it begins.
    pub offset_bytes: &'a [u64],
}

impl Requests<'_> {
    pub(crate) fn check(&self) -> Result<(), PathError> {
        let expected = self.submitted.len();
        for (column, rows) in [("returned", self.returned.len()), ("offset_bytes", self.offset_bytes.len())] {
            if rows != expected {
                return Err(PathError::Length { table: "the requests", column, rows, expected });
            }
        }
        let both = self.submitted.iter().zip(self.returned);
        match both.enumerate().find(|(_, (start, end))| end < start) {
            Some((row, (&start, &end))) => Err(PathError::Backwards { row, start, end }),
            None => Ok(()),
        }
    }
}
