//! Results as Python dictionaries; long columns as numpy arrays.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stealtime_analysis::{
    Envelope, HeldBack, Histogram, InjectedMatch, PercentileCurve, Period, Spikes, Summary, WorstSample,
};

/// Something that Python gets as a dictionary with its field names as keys.
pub trait ToDictionary {
    /// Move or copy the fields into a new dictionary.
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>>;
}

/// `dictionary!(py, value, { a, b }, arrays { c })`: fields as they are, and vectors as numpy arrays.
macro_rules! dictionary {
    ($py:expr, $value:expr, { $($field:ident),* $(,)? } $(, arrays { $($array:ident),* $(,)? })?) => {{
        let dictionary = PyDict::new($py);
        $(dictionary.set_item(stringify!($field), $value.$field)?;)*
        $($(dictionary.set_item(stringify!($array), $value.$array.into_pyarray($py))?;)*)?
        Ok(dictionary)
    }};
}

impl ToDictionary for Summary {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, {
            count, floor_ns, min_ns, mean_ns, sd_ns, p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, p99999_ns, max_ns,
            max_index, max_at_s, max_part, max_overhead_ns, span_s, unresolved,
        })
    }
}

impl ToDictionary for HeldBack {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, { count, longest_ns, unproven, rest_max_ns, rest_max_overhead_ns, rest_max_at_s, rest_paused_ns })
    }
}

impl ToDictionary for PercentileCurve {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, {}, arrays { tail_share, value_ns })
    }
}

impl ToDictionary for Histogram {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, { above_linear }, arrays { log_edge_ns, log_count, linear_edge_ns, linear_count })
    }
}

impl ToDictionary for Envelope {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, { bucket_s }, arrays { bucket, count, min_ns, max_ns, max_at_s })
    }
}

impl ToDictionary for WorstSample {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, { index, start_s, duration_ns })
    }
}

impl ToDictionary for Spikes {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, { total }, arrays { index, start, duration })
    }
}

impl ToDictionary for Period {
    fn to_dictionary(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        dictionary!(py, self, {
            period_s, rate_hz, cost_p50_ns, cost_p90_ns, events, coverage, lost_share, level_ns,
        })
    }
}

impl ToDictionary for InjectedMatch {
    fn to_dictionary(mut self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let stalls = std::mem::take(&mut self.stalls);
        let dictionary: PyResult<Bound<'_, PyDict>> = dictionary!(py, self, {
            total, found, within_tolerance, not_observable, error_p50_ns, error_p99_ns, error_max_ns,
            error_p50_percent, error_p99_percent, error_max_percent,
        });
        let dictionary = dictionary?;
        let column = |of: fn(&stealtime_analysis::InjectedStall) -> f64| {
            stalls.iter().map(of).collect::<Vec<_>>().into_pyarray(py)
        };
        dictionary.set_item("start_s", column(|stall| stall.start_s))?;
        dictionary.set_item("expected_ns", column(|stall| stall.expected_ns))?;
        dictionary.set_item("excess_ns", column(|stall| stall.excess_ns))?;
        Ok(dictionary)
    }
}
