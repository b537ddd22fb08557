//! Counts of durations, borrowed from numpy for as long as they are added up.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use stealtime_analysis as analysis;

type Column<'py> = Bound<'py, PyArray1<u64>>;

/// Adds up how often each duration came in several parts.
#[pyfunction]
pub fn merged_counts<'py>(
    py: Python<'py>,
    parts: Vec<(PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, u64>)>,
) -> PyResult<(Column<'py>, Column<'py>)> {
    let mut slices = Vec::with_capacity(parts.len());
    for (durations, counts) in &parts {
        let (durations, counts) = (durations.as_slice()?, counts.as_slice()?);
        if durations.len() != counts.len() {
            let text = format!("{} durations do not have {} counts", durations.len(), counts.len());
            return Err(PyValueError::new_err(text));
        }
        slices.push((durations, counts));
    }
    let (durations, counts) = py.detach(|| analysis::merged_counts(&slices));
    Ok((PyArray1::from_vec(py, durations), PyArray1::from_vec(py, counts)))
}
