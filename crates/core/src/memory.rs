//! `stealtime-memory` for Python: how much memory may still be used.

use std::path::PathBuf;

use pyo3::prelude::*;

/// Give how many bytes this process may still use, and what sets that; None where nothing is known.
#[pyfunction]
pub fn memory_room(root: PathBuf) -> Option<(u64, String)> {
    stealtime_memory::room(&root).map(|room| (room.bytes, room.limit))
}
