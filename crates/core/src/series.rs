//! The class `Series`.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stealtime_analysis::{self as analysis, Pause, SeriesInput, Spacing};

use crate::column::Column;
use crate::dictionary::ToDictionary;
use crate::errors::wrong;

/// A complete series of samples, borrowed from numpy.
#[pyclass(name = "Series", module = "stealtime._core", frozen)]
pub struct PySeries {
    /// Borrows from the columns below; fields are dropped in this order.
    series: analysis::Series<'static>,
    _durations: Column,
    _gaps: Option<Column>,
}

fn side_list(
    index: Option<PyReadonlyArray1<'_, u64>>,
    value: Option<PyReadonlyArray1<'_, u64>>,
    name: &str,
) -> PyResult<Vec<(u64, u64)>> {
    let (index, value) = match (index, value) {
        (None, None) => return Ok(Vec::new()),
        (Some(index), Some(value)) => (index, value),
        _ => return Err(PyValueError::new_err(format!("{name}_index and {name}_value belong together"))),
    };
    let (index, value) = (index.as_array(), value.as_array());
    if index.len() != value.len() {
        return Err(PyValueError::new_err(format!(
            "{name}_index has {} rows but {name}_value has {}",
            index.len(),
            value.len()
        )));
    }
    Ok(index.iter().copied().zip(value.iter().copied()).collect())
}

#[pymethods]
impl PySeries {
    #[new]
    #[pyo3(signature = (durations, gaps, saturated_index, saturated_value, saturated_gap_index, saturated_gap_value,
                        layout, interval, units_per_s, floor, pause_index = None, pause_value = None))]
    #[allow(clippy::too_many_arguments)] // Python's side of it is a dataclass
    fn new(
        py: Python<'_>,
        durations: &Bound<'_, PyArray1<u32>>,
        gaps: Option<&Bound<'_, PyArray1<u32>>>,
        saturated_index: Option<PyReadonlyArray1<'_, u64>>,
        saturated_value: Option<PyReadonlyArray1<'_, u64>>,
        saturated_gap_index: Option<PyReadonlyArray1<'_, u64>>,
        saturated_gap_value: Option<PyReadonlyArray1<'_, u64>>,
        layout: &str,
        interval: Option<u64>,
        units_per_s: f64,
        floor: Option<u64>,
        pause_index: Option<PyReadonlyArray1<'_, u64>>,
        pause_value: Option<PyReadonlyArray1<'_, u64>>,
    ) -> PyResult<Self> {
        let pauses = side_list(pause_index, pause_value, "pause")?;
        let saturated = side_list(saturated_index, saturated_value, "saturated")?;
        let saturated_gaps = side_list(saturated_gap_index, saturated_gap_value, "saturated_gap")?;
        let durations = Column::borrow(durations)?;
        let gaps = gaps.map(Column::borrow).transpose()?;
        let rows = durations.rows();
        let gap_rows = gaps.as_ref().map(Column::rows);
        let series = py.detach(move || {
            let spacing = match (layout, gap_rows, interval) {
                ("tiled", None, None) => Spacing::Tiled,
                ("gapped", Some(gaps), None) => Spacing::Gapped { gaps, saturated: saturated_gaps },
                ("periodic", None, Some(interval)) => Spacing::Periodic { interval },
                _ => {
                    return Err(format!(
                        "the layout {layout:?} does not go with {} and {}",
                        if gap_rows.is_some() { "gaps" } else { "no gaps" },
                        if interval.is_some() { "an interval" } else { "no interval" },
                    ));
                }
            };
            let input = SeriesInput { durations: rows, saturated, spacing, units_per_s, calibrated_floor: floor };
            analysis::Series::with_pauses(input, pauses).map_err(|error| error.to_string())
        });
        let series = series.map_err(PyValueError::new_err)?;
        Ok(Self { series, _durations: durations, _gaps: gaps })
    }

    fn __len__(&self) -> usize {
        self.series.count()
    }

    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        py.detach(|| self.series.summary()).to_dictionary(py)
    }

    fn digest(&self, py: Python<'_>) -> PyDigest {
        PyDigest { digest: py.detach(|| self.series.digest()) }
    }

    fn percentile_curve<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        py.detach(|| self.series.percentile_curve()).to_dictionary(py)
    }

    fn histogram<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        py.detach(|| self.series.histogram()).to_dictionary(py)
    }

    #[pyo3(signature = (buckets = 65_536))]
    fn envelope<'py>(&self, py: Python<'py>, buckets: u32) -> PyResult<Bound<'py, PyDict>> {
        py.detach(|| self.series.envelope(buckets)).to_dictionary(py)
    }

    #[pyo3(signature = (count = 20))]
    fn worst<'py>(&self, py: Python<'py>, count: usize) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let worst = py.detach(|| self.series.worst(count));
        worst.into_iter().map(|sample| sample.to_dictionary(py)).collect()
    }

    fn spikes<'py>(&self, py: Python<'py>, threshold: u64, most: usize) -> PyResult<Bound<'py, PyDict>> {
        py.detach(|| self.series.spikes(threshold, most)).to_dictionary(py)
    }

    fn periods<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let periods = py.detach(|| self.series.periods());
        periods.into_iter().map(|period| period.to_dictionary(py)).collect()
    }

    fn held_back<'py>(
        &self,
        py: Python<'py>,
        pause_ns: f64,
        period_ns: f64,
        starts: PyReadonlyArray1<'py, u64>,
        durations: PyReadonlyArray1<'py, u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let evidence = side_list(Some(starts), Some(durations), "ordinary")?;
        py.detach(|| self.series.held_back(Pause { pause_ns, period_ns }, &evidence)).to_dictionary(py)
    }

    fn match_injected<'py>(
        &self,
        py: Python<'py>,
        starts: PyReadonlyArray1<'py, u64>,
        durations: PyReadonlyArray1<'py, u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let thefts = side_list(Some(starts), Some(durations), "injected")?;
        py.detach(|| self.series.match_injected(&thefts)).to_dictionary(py)
    }
}

/// Compute something from all of several series, which must be at least one.
fn pooled<'py, T: ToDictionary + Send>(
    py: Python<'py>,
    parts: &[PyRef<'py, PySeries>],
    compute: impl Fn(&[&analysis::Series<'_>]) -> Option<T> + Send + Sync,
) -> PyResult<Bound<'py, PyDict>> {
    let parts: Vec<&analysis::Series<'_>> = parts.iter().map(|part| &part.series).collect();
    py.detach(|| compute(&parts)).ok_or_else(|| PyValueError::new_err("there is no series to pool"))?.to_dictionary(py)
}

/// What is left of a series when its samples are gone, to be pooled with others.
#[pyclass(name = "Digest", module = "stealtime._core", frozen)]
pub struct PyDigest {
    digest: analysis::Digest,
}

/// The figures of several series as of one, where the samples of one are in memory at a time.
#[pyclass(name = "Pool", module = "stealtime._core")]
pub struct PyPool {
    pool: Option<analysis::Pool>,
}

#[pymethods]
impl PyPool {
    #[new]
    fn new(digests: Vec<PyRef<'_, PyDigest>>) -> PyResult<Self> {
        let parts = digests.iter().map(|part| part.digest.clone()).collect();
        Ok(Self { pool: Some(analysis::Pool::new(parts).map_err(wrong)?) })
    }

    fn add(&mut self, py: Python<'_>, series: &Bound<'_, PySeries>) -> PyResult<()> {
        let series = &series.get().series;
        let pool = self.pool.as_mut().ok_or_else(closed)?;
        py.detach(|| pool.add(series)).map_err(wrong)
    }

    fn summary<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pool = self.pool.take().ok_or_else(closed)?;
        py.detach(|| pool.summary()).map_err(wrong)?.to_dictionary(py)
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the pool has given its figures already")
}

/// The percentile curve of all samples of several series together.
#[pyfunction]
pub fn pooled_percentile_curve<'py>(py: Python<'py>, parts: Vec<PyRef<'py, PySeries>>) -> PyResult<Bound<'py, PyDict>> {
    pooled(py, &parts, analysis::pooled_percentile_curve)
}

/// The histogram of all samples of several series together.
#[pyfunction]
pub fn pooled_histogram<'py>(py: Python<'py>, parts: Vec<PyRef<'py, PySeries>>) -> PyResult<Bound<'py, PyDict>> {
    pooled(py, &parts, analysis::pooled_histogram)
}
