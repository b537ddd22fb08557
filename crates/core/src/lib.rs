//! The Python module `stealtime._core`: a thin wrapper of `stealtime-analysis` and `stealtime-attribution` for
//! numpy arrays, and of `stealtime-owner` for marks.
//!
//! Columns are borrowed from numpy, never copied, and the GIL is released while anything is computed. What
//! Python sees is described in `src/stealtime/_core.pyi`.

mod attribution;
mod column;
mod dictionary;
mod hypervisor;
mod owner;
mod series;

use pyo3::prelude::*;

/// Statistics over complete series of samples, and the causes of their spikes.
#[pymodule]
mod _core {
    use pyo3::types::PyTuple;
    use stealtime_wire::EventKind;

    use super::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use crate::attribution::{attribute_native, attribute_user_mode, attribute_virtual};
    #[pymodule_export]
    use crate::hypervisor::hypervisor_signature;
    #[pymodule_export]
    use crate::owner::{owner_fate, owner_of};
    #[pymodule_export]
    use crate::series::{PySeries, pooled_histogram, pooled_percentile_curve, pooled_summary};

    /// Adds what the column `kind` of a trace counts.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("EVENT_KINDS", PyTuple::new(module.py(), EventKind::NAMES)?)
    }
}
