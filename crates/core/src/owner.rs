//! `stealtime-owner` for Python: the mark that everything on a host carries.

use pyo3::prelude::*;
use stealtime_owner::{Fate, Owner, Processes};

/// Give the mark of a process, or of this one.
#[pyfunction]
#[pyo3(signature = (process = None))]
pub fn owner_of(process: Option<u32>) -> PyResult<String> {
    let owner = match process {
        Some(process) => Processes::default().owner_with_id(process)?,
        None => Owner::this_process()?,
    };
    Ok(owner.to_string())
}

/// Tell whether the process of a mark lives.
#[pyfunction]
pub fn owner_fate(mark: &str) -> &'static str {
    let fate = mark.parse::<Owner>().map_or(Fate::NotOursToJudge, |owner| Processes::default().fate(&owner));
    match fate {
        Fate::Alive => "alive",
        Fate::Gone => "gone",
        Fate::NotOursToJudge => "not ours to judge",
    }
}
