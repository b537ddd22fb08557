//! The function `extract_tasks`.

use numpy::IntoPyArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use stealtime_extract::{Clock, Job, Kind, Sporadic, Taken, Task, Trace, follow, tasks};

use crate::errors::wrong;
use crate::events::EventsArgument;

/// What the host took of a virtual CPU: stretches, and by how much each end may be wrong.
type TakenArgument = (Vec<(u64, u64)>, u64);

/// Find the tasks of these threads in a trace; `clocks` are `(tsc, monotonic_ns)` at its beginning and end.
#[pyfunction]
pub fn extract_tasks<'py>(
    py: Python<'py>,
    trace: EventsArgument<'py>,
    threads: Vec<i32>,
    clocks: ((u64, u64), (u64, u64)),
    taken: Vec<TakenArgument>,
) -> PyResult<Bound<'py, PyList>> {
    let columns = trace.columns()?;
    let names = trace.names.as_slice();
    let found = py.detach(|| {
        let clock = Clock::through(clocks.0, clocks.1)?;
        let taken: Vec<Taken> = taken.into_iter().map(|(stretches, error)| Taken::new(stretches, error)).collect();
        let followed = follow(&Trace { columns, names, clock, taken: &taken }, &threads)?;
        Ok::<_, stealtime_extract::ExtractError>((tasks(followed, &clock), clock))
    });
    let (found, clock) = found.map_err(wrong)?;
    let list = PyList::empty(py);
    for task in found {
        list.append(task_of(py, task, names, &clock)?)?;
    }
    Ok(list)
}

fn task_of<'py>(py: Python<'py>, task: Task, names: &[String], clock: &Clock) -> PyResult<Bound<'py, PyDict>> {
    let it = PyDict::new(py);
    let name = task.thread.name.and_then(|name| names.get(name as usize));
    it.set_item("thread", task.thread.id)?;
    it.set_item("name", name)?;
    it.set_item("priorities", &task.thread.priorities)?;
    let cpus: Vec<(u16, u64)> = task.thread.cpus.iter().map(|(&cpu, &cycles)| (cpu, clock.ns(cycles))).collect();
    it.set_item("cpus", cpus)?;
    it.set_item("ran_ns", clock.ns(task.thread.ran))?;
    it.set_item("tells_calls", task.thread.tells_calls)?;
    it.set_item("activations", task.thread.activations.len())?;
    let timed = task.thread.activations.iter().filter(|one| one.expiry_ns.is_some()).count();
    it.set_item("activations_by_timer", timed)?;
    let arrivals = &task.arrivals;
    it.set_item("arrival", arrivals.kind.name())?;
    it.set_item("period_ns", arrivals.period_ns)?;
    it.set_item("period_error_ns", arrivals.period_error_ns)?;
    it.set_item("spread_ns", arrivals.spread_ns)?;
    it.set_item("missed_periods", arrivals.missed)?;
    it.set_item("restarts", arrivals.restarts)?;
    it.set_item("arrivals", arrivals.starts.len())?;
    it.set_item("sporadic", arrivals.sporadic.as_ref().map(|found| sporadic_of(py, found)).transpose()?)?;
    it.set_item("counted", task.counted)?;
    it.set_item("holed", task.holed)?;
    it.set_item("merged", task.merged)?;
    it.set_item("unseen", task.unseen)?;
    it.set_item("touched", task.touched)?;
    it.set_item("touched_most_ns", task.touched_most_ns)?;
    it.set_item("counts_touched", task.counts_touched)?;
    it.set_item("own_ns", (task.own.most_ns, task.own.first_half_ns, task.own.second_half_ns))?;
    it.set_item("ran_most_ns", task.ran.most_ns)?;
    it.set_item("interrupts_most_ns", task.interrupts_most_ns)?;
    it.set_item("taken_most_ns", task.taken_most_ns)?;
    it.set_item("suspended_most_ns", task.suspended_most_ns)?;
    it.set_item("suspending", task.suspending)?;
    it.set_item("response_most_ns", task.response_most_ns)?;
    it.set_item("lateness_most_ns", task.lateness_most_ns)?;
    it.set_item("lateness_median_ns", task.lateness_median_ns)?;
    it.set_item("jobs", jobs_of(py, &task.jobs, task.thread.tells_calls)?)?;
    Ok(it)
}

fn sporadic_of<'py>(py: Python<'py>, found: &Sporadic) -> PyResult<Bound<'py, PyDict>> {
    let it = PyDict::new(py);
    it.set_item("period_ns", found.period_ns)?;
    it.set_item("jitter_ns", found.jitter_ns)?;
    it.set_item("least_distance_ns", found.least_distance_ns)?;
    let curve: Vec<(u64, u64)> = found.curve.iter().map(|point| (point.jobs, point.within_ns)).collect();
    it.set_item("curve", curve)?;
    Ok(it)
}

fn jobs_of<'py>(py: Python<'py>, jobs: &[Job], tells_calls: bool) -> PyResult<Bound<'py, PyDict>> {
    fn column<T>(jobs: &[Job], of: impl Fn(&Job) -> T) -> Vec<T> {
        jobs.iter().map(of).collect()
    }
    let it = PyDict::new(py);
    it.set_item("woken", column(jobs, |job| job.woken).into_pyarray(py))?;
    it.set_item("own_started", column(jobs, |job| job.own_started).into_pyarray(py))?;
    it.set_item("own_ended", column(jobs, |job| job.own_ended).into_pyarray(py))?;
    it.set_item("own", column(jobs, |job| job.own).into_pyarray(py))?;
    it.set_item("ran", column(jobs, |job| job.ran).into_pyarray(py))?;
    it.set_item("interrupts", column(jobs, |job| job.interrupts).into_pyarray(py))?;
    it.set_item("taken", column(jobs, |job| job.taken).into_pyarray(py))?;
    it.set_item("suspended", column(jobs, |job| job.suspended).into_pyarray(py))?;
    it.set_item("activations", column(jobs, |job| job.activations).into_pyarray(py))?;
    it.set_item("preemptions", column(jobs, |job| job.preemptions).into_pyarray(py))?;
    it.set_item("counts", column(jobs, |job| job.counts(tells_calls)).into_pyarray(py))?;
    it.set_item("may_be_taken", column(jobs, |job| job.may_be_taken).into_pyarray(py))?;
    Ok(it)
}

/// Adds how jobs may arrive.
pub fn add_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ARRIVALS", Kind::ALL.map(Kind::name).to_vec())
}
