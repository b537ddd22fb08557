//! What a crate refuses, as Python's exceptions.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// `ValueError` with the error's own words.
pub fn wrong(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
