//! The functions `attribute_native`, `attribute_virtual` and `attribute_user_mode`.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stealtime_attribution::{
    self as attribution, Attribution, Followed, Labelled, Offsets, Spikes, Trace, UserMode, VirtualCpus, World,
};

use crate::errors::wrong;
use crate::events::{EventsArgument, rows};

/// A trace, and who is who in it: all items of one dictionary.
pub struct TraceArgument<'py> {
    events: EventsArgument<'py>,
    known: KnownArgument,
}

impl<'a, 'py> FromPyObject<'a, 'py> for TraceArgument<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self { events: object.extract()?, known: object.extract()? })
    }
}

/// What is known of a trace besides its events.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct KnownArgument {
    tsc_hz: f64,
    labelled: Vec<(i32, u16)>,
    labels: Vec<String>,
    cpus: Option<Vec<u16>>,
}

/// Threads to follow.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct FollowedArgument {
    threads: Vec<i32>,
    real_time: bool,
    limit_lifted: bool,
}

/// A User-Mode Linux guest.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct UserModeArgument {
    kernel_threads: Vec<i32>,
    pointers: Vec<(u64, Option<String>)>,
    probe_never_sleeps: bool,
    real_time: bool,
}

/// Samples to split.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SpikesArgument<'py> {
    start: PyReadonlyArray1<'py, u64>,
    duration: PyReadonlyArray1<'py, u64>,
    floor: u64,
    time_lines_of: Vec<usize>,
}

impl TraceArgument<'_> {
    fn check(&self, py: Python<'_>) -> PyResult<Trace<'_>> {
        let columns = self.events.columns()?;
        let (names, covered) = (self.events.names.as_slice(), self.events.covered);
        let cycles_per_ns = self.known.tsc_hz / 1e9;
        py.detach(|| Trace::new(columns, names, covered, cycles_per_ns)).map_err(wrong)
    }

    fn labelled<'a>(&'a self, trace: &'a Trace<'a>) -> Labelled<'a> {
        Labelled { trace, threads: &self.known.labelled, labels: &self.known.labels, cpus: self.known.cpus.as_deref() }
    }
}

impl FollowedArgument {
    fn followed(&self) -> Followed<'_> {
        Followed { threads: &self.threads, real_time: self.real_time, limit_lifted: self.limit_lifted }
    }
}

/// Split the spikes of a machine by its own trace.
#[pyfunction]
pub fn attribute_native<'py>(
    py: Python<'py>,
    trace: TraceArgument<'py>,
    probe: FollowedArgument,
    spikes: SpikesArgument<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let checked = trace.check(py)?;
    run(py, &World::Native(trace.labelled(&checked), probe.followed()), &spikes)
}

/// Split the spikes of a virtual machine by its host's trace, and its own where there is one.
#[pyfunction]
#[pyo3(signature = (host, vcpus, offsets, machine, probe, spikes))]
pub fn attribute_virtual<'py>(
    py: Python<'py>,
    host: TraceArgument<'py>,
    vcpus: Vec<FollowedArgument>,
    offsets: (i64, i64),
    machine: Option<TraceArgument<'py>>,
    probe: FollowedArgument,
    spikes: SpikesArgument<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let checked_host = host.check(py)?;
    let checked_machine = machine.as_ref().map(|machine| machine.check(py)).transpose()?;
    let threads: Vec<Followed<'_>> = vcpus.iter().map(FollowedArgument::followed).collect();
    let cpus = VirtualCpus {
        host: host.labelled(&checked_host),
        threads: &threads,
        offsets: Offsets { low: offsets.0, high: offsets.1 },
    };
    let inner = machine.as_ref().zip(checked_machine.as_ref());
    let inner = inner.map(|(machine, checked)| (machine.labelled(checked), probe.followed()));
    run(py, &World::Virtual(cpus, inner), &spikes)
}

/// Split the spikes of a User-Mode Linux guest by its host's trace.
#[pyfunction]
pub fn attribute_user_mode<'py>(
    py: Python<'py>,
    host: TraceArgument<'py>,
    guest: UserModeArgument,
    spikes: SpikesArgument<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let checked = host.check(py)?;
    let guest = UserMode {
        kernel_threads: &guest.kernel_threads,
        pointers: &guest.pointers,
        probe_never_sleeps: guest.probe_never_sleeps,
        real_time: guest.real_time,
    };
    run(py, &World::UserMode(host.labelled(&checked), guest), &spikes)
}

fn run<'py>(py: Python<'py>, world: &World<'_>, spikes: &SpikesArgument<'py>) -> PyResult<Bound<'py, PyDict>> {
    let borrowed = Spikes { start: rows(&spikes.start)?, duration: rows(&spikes.duration)?, floor: spikes.floor };
    let time_lines_of = spikes.time_lines_of.as_slice();
    let found = py.detach(|| attribution::attribute(world, borrowed, time_lines_of)).map_err(|error| wrong(&error))?;
    to_dictionary(py, found)
}

fn to_dictionary(py: Python<'_>, found: Attribution) -> PyResult<Bound<'_, PyDict>> {
    let Attribution { causes, parts, segments, offsets, narrowed_by, waits, unseen_switches } = found;
    let dictionary = PyDict::new(py);
    let causes: Vec<(&str, &str, Option<&str>)> =
        causes.rows().iter().map(|cause| (cause.layer.name(), cause.kind.name(), cause.name.as_deref())).collect();
    dictionary.set_item("causes", causes)?;
    dictionary.set_item("first", parts.first.into_pyarray(py))?;
    let cause: Vec<u16> = parts.cause.iter().map(|cause| cause.number()).collect();
    dictionary.set_item("cause", cause.into_pyarray(py))?;
    dictionary.set_item("cycles", parts.cycles.into_pyarray(py))?;
    dictionary.set_item("judged", parts.judged.into_pyarray(py))?;
    dictionary.set_item("scaled", parts.scaled)?;
    let segments: Vec<(usize, &str, u64, u64, Option<u16>)> = segments
        .iter()
        .map(|segment| {
            let cause = segment.cause.map(attribution::CauseId::number);
            (segment.spike, segment.layer.name(), segment.start, segment.duration, cause)
        })
        .collect();
    dictionary.set_item("segments", segments)?;
    dictionary.set_item("offsets", (offsets.low, offsets.high))?;
    dictionary.set_item("narrowed_by", narrowed_by)?;
    dictionary.set_item("unseen_switches", unseen_switches)?;
    let (wait_start, wait_end): (Vec<u64>, Vec<u64>) = waits.into_iter().unzip();
    dictionary.set_item("wait_start", wait_start.into_pyarray(py))?;
    dictionary.set_item("wait_end", wait_end.into_pyarray(py))?;
    Ok(dictionary)
}
