//! The Python module `stealtime._core`: a thin wrapper of `stealtime-analysis` and `stealtime-attribution` for
//! numpy arrays, of `stealtime-overheads` for those of kernels, of `stealtime-extract` for programs, of
//! `stealtime-schedulability` for task sets, and of `stealtime-owner` for marks.
//!
//! Columns are borrowed from numpy, never copied, and the GIL is released while anything is computed. What
//! Python sees is described in `src/stealtime/_core.pyi`.

#![allow(clippy::needless_pass_by_value, reason = "as pyo3 gives them")]

mod attribution;
mod column;
mod counts;
mod dictionary;
mod errors;
mod events;
mod extract;
mod hypervisor;
mod iopath;
mod overheads;
mod owner;
mod sched_design;
mod schedulability;
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
    use crate::counts::merged_counts;
    #[pymodule_export]
    use crate::extract::extract_tasks;
    #[pymodule_export]
    use crate::hypervisor::hypervisor_signature;
    #[pymodule_export]
    use crate::iopath::split_requests;
    #[pymodule_export]
    use crate::overheads::measure_overheads;
    #[pymodule_export]
    use crate::owner::{owner_fate, owner_of};
    #[pymodule_export]
    use crate::sched_design::{blocked_cost_margin, blocked_responses, blocked_window, task_sensitivity};
    #[pymodule_export]
    use crate::schedulability::{
        analyze_tasks, cost_margin, cost_margin_and_edge, count_schedulable_sets, generate_tasks, least_budget,
        overhead_influences, partition_tasks, service_envelope,
    };
    #[pymodule_export]
    use crate::series::{PyDigest, PyPool, PySeries, pooled_histogram, pooled_percentile_curve};

    /// Adds what the column `kind` of a trace counts, and the names of schedulability.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::schedulability::add_names(module)?;
        crate::overheads::add_names(module)?;
        crate::extract::add_names(module)?;
        crate::iopath::add_names(module)?;
        module.add("EVENT_KINDS", PyTuple::new(module.py(), EventKind::NAMES)?)
    }
}
