//! The function `measure_overheads`.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stealtime_overheads::{
    Chains, Discards, Flags, Found, JobDiscard, Jobs, PairDiscard, Part, Sample, SampleKind, Stretches, TakerClass,
    Taking, Trace, measure,
};

use crate::errors::wrong;
use crate::events::{EventsArgument, rows};

/// Jobs as their threads stamped them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct JobsArgument<'py> {
    thread: PyReadonlyArray1<'py, i32>,
    release: PyReadonlyArray1<'py, u64>,
    start: PyReadonlyArray1<'py, u64>,
    finish: PyReadonlyArray1<'py, u64>,
}

/// Pair the events of a trace into samples, and split the latency of each job.
#[pyfunction]
pub fn measure_overheads<'py>(
    py: Python<'py>,
    trace: EventsArgument<'py>,
    jobs: JobsArgument<'py>,
    taken: Vec<(u64, u64)>,
) -> PyResult<Bound<'py, PyDict>> {
    let columns = trace.columns()?;
    let jobs = Jobs {
        thread: rows(&jobs.thread)?,
        release: rows(&jobs.release)?,
        start: rows(&jobs.start)?,
        finish: rows(&jobs.finish)?,
    };
    let (names, covered) = (trace.names.as_slice(), trace.covered);
    let found = py.detach(|| {
        jobs.check()?;
        let checked = Trace::new(columns, names, covered)?;
        Ok::<_, stealtime_overheads::OverheadsError>(measure(&checked, &jobs, &Stretches::new(taken)))
    });
    let Found { chains, samples, takings, discards } = found.map_err(wrong)?;
    let dictionary = PyDict::new(py);
    dictionary.set_item("chains", chains_of(py, chains)?)?;
    dictionary.set_item("samples", samples_of(py, &samples)?)?;
    dictionary.set_item("interference", takings_of(py, &takings)?)?;
    dictionary.set_item("discards", discards_of(py, &discards)?)?;
    Ok(dictionary)
}

fn chains_of(py: Python<'_>, chains: Chains) -> PyResult<Bound<'_, PyDict>> {
    let dictionary = PyDict::new(py);
    for (part, column) in Part::ALL.into_iter().zip(chains.parts) {
        dictionary.set_item(part.name(), column.into_pyarray(py))?;
    }
    let flags: Vec<u8> = chains.flags.iter().map(|flags| flags.bits()).collect();
    let discard: Vec<u8> = chains.discard.iter().map(|&why| why as u8).collect();
    dictionary.set_item("flags", flags.into_pyarray(py))?;
    dictionary.set_item("discard", discard.into_pyarray(py))?;
    dictionary.set_item("interrupted", chains.interrupted.into_pyarray(py))?;
    dictionary.set_item("taken", chains.taken.into_pyarray(py))?;
    dictionary.set_item("interrupt", chains.interrupt.into_pyarray(py))?;
    Ok(dictionary)
}

fn samples_of<'py>(py: Python<'py>, samples: &[Sample]) -> PyResult<Bound<'py, PyDict>> {
    fn column<T>(samples: &[Sample], of: impl Fn(&Sample) -> T) -> Vec<T> {
        samples.iter().map(of).collect()
    }
    let dictionary = PyDict::new(py);
    dictionary.set_item("kind", column(samples, |it| it.kind as u8).into_pyarray(py))?;
    dictionary.set_item("cpu", column(samples, |it| it.cpu).into_pyarray(py))?;
    dictionary.set_item("thread", column(samples, |it| it.thread).into_pyarray(py))?;
    dictionary.set_item("start", column(samples, |it| it.start).into_pyarray(py))?;
    dictionary.set_item("duration", column(samples, |it| it.duration).into_pyarray(py))?;
    dictionary.set_item("flags", column(samples, |it| it.flags.bits()).into_pyarray(py))?;
    dictionary.set_item("expiries", column(samples, |it| it.expiries).into_pyarray(py))?;
    dictionary.set_item("releases", column(samples, |it| it.releases).into_pyarray(py))?;
    dictionary.set_item("ticks", column(samples, |it| it.ticks).into_pyarray(py))?;
    Ok(dictionary)
}

fn takings_of<'py>(py: Python<'py>, takings: &[Taking]) -> PyResult<Bound<'py, PyDict>> {
    let dictionary = PyDict::new(py);
    let column = |of: fn(&Taking) -> u64| takings.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
    dictionary.set_item("cls", takings.iter().map(|it| it.class as u8).collect::<Vec<_>>().into_pyarray(py))?;
    dictionary.set_item("cpu", takings.iter().map(|it| it.cpu).collect::<Vec<_>>().into_pyarray(py))?;
    dictionary.set_item("name", takings.iter().map(|it| it.name).collect::<Vec<_>>().into_pyarray(py))?;
    dictionary.set_item("start", column(|it| it.start))?;
    dictionary.set_item("end", column(|it| it.end))?;
    dictionary.set_item("net", column(|it| it.net))?;
    Ok(dictionary)
}

fn discards_of<'py>(py: Python<'py>, discards: &Discards) -> PyResult<Bound<'py, PyDict>> {
    let (jobs, pairs) = (PyDict::new(py), PyDict::new(py));
    for why in JobDiscard::ALL.into_iter().filter(|&why| why != JobDiscard::None) {
        jobs.set_item(why.name(), discards.jobs[why as usize])?;
    }
    for why in PairDiscard::ALL {
        pairs.set_item(why.name(), discards.pairs[why as usize])?;
    }
    let dictionary = PyDict::new(py);
    dictionary.set_item("jobs", jobs)?;
    dictionary.set_item("pairs", pairs)?;
    Ok(dictionary)
}

/// Adds what the columns count.
pub fn add_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("JOB_PARTS", Part::ALL.map(Part::name).to_vec())?;
    module.add("JOB_DISCARDS", JobDiscard::ALL.map(JobDiscard::name).to_vec())?;
    module.add("TAKER_CLASSES", TakerClass::ALL.map(TakerClass::name).to_vec())?;
    module.add("OVERHEAD_SAMPLES", SampleKind::ALL.map(SampleKind::name).to_vec())?;
    let flags = PyDict::new(module.py());
    for (name, flag) in Flags::NAMED {
        flags.set_item(name, flag.bits())?;
    }
    module.add("OVERHEAD_FLAGS", flags)
}
