//! The table `trace` as Python gives it, for all that reads one.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use stealtime_wire::TraceColumns;

/// Columns and what they count.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct EventsArgument<'py> {
    time: PyReadonlyArray1<'py, u64>,
    cpu: PyReadonlyArray1<'py, u16>,
    kind: PyReadonlyArray1<'py, u8>,
    thread: PyReadonlyArray1<'py, i32>,
    value: PyReadonlyArray1<'py, i64>,
    other: PyReadonlyArray1<'py, i32>,
    priority: PyReadonlyArray1<'py, i16>,
    name: PyReadonlyArray1<'py, u32>,
    pub names: Vec<String>,
    pub covered: (u64, u64),
}

impl EventsArgument<'_> {
    pub fn columns(&self) -> PyResult<TraceColumns<'_>> {
        Ok(TraceColumns {
            time: rows(&self.time)?,
            cpu: rows(&self.cpu)?,
            kind: rows(&self.kind)?,
            thread: rows(&self.thread)?,
            value: rows(&self.value)?,
            other: rows(&self.other)?,
            priority: rows(&self.priority)?,
            name: rows(&self.name)?,
        })
    }
}

/// Borrows a column.
pub fn rows<'a, T: numpy::Element>(column: &'a PyReadonlyArray1<'_, T>) -> PyResult<&'a [T]> {
    column.as_slice().map_err(|_| PyValueError::new_err("a column must be one contiguous piece of memory"))
}
