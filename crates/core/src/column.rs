//! A numpy column that stays where it is while Rust reads it; the only unsafe code of this crate.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A `u32` array that was made read-only and is kept alive.
pub struct Column {
    rows: &'static [u32],
    /// Owns what `rows` points to.
    _array: Py<PyArray1<u32>>,
}

impl Column {
    /// Borrow an array for as long as this column lives, and make it read-only.
    ///
    /// # Errors
    /// The array is not contiguous, or somebody else is writing to it.
    pub fn borrow(array: &Bound<'_, PyArray1<u32>>) -> PyResult<Self> {
        let read_only = PyDict::new(array.py());
        read_only.set_item("write", false)?;
        array.call_method("setflags", (), Some(&read_only))?;
        let borrowed: PyReadonlyArray1<'_, u32> = array
            .try_readonly()
            .map_err(|error| PyValueError::new_err(format!("a column cannot be read while it is written: {error}")))?;
        let rows = borrowed
            .as_slice()
            .map_err(|_| PyValueError::new_err("a column must be one contiguous piece of memory"))?;
        // SAFETY: numpy never moves the data of an array that has references, `_array` holds one for as long
        // as this column lives, and `setflags` took the right to write away from Python.
        let rows = unsafe { std::slice::from_raw_parts(rows.as_ptr(), rows.len()) };
        Ok(Self { rows, _array: array.clone().unbind() })
    }

    /// The rows. The lifetime is that of the column, which the caller must keep as long.
    pub fn rows(&self) -> &'static [u32] {
        self.rows
    }
}
