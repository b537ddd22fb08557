//! The function `split_requests`.

use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stealtime_iopath::{Emulator, Found, Guest, Part, Requests, Traces, split};

use crate::errors::wrong;
use crate::events::{EventsArgument, rows};

/// Requests as the probe stamped them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RequestsArgument<'py> {
    submitted: PyReadonlyArray1<'py, u64>,
    returned: PyReadonlyArray1<'py, u64>,
    offset_bytes: PyReadonlyArray1<'py, u64>,
}

/// Split the way of each request by the traces of a guest, its host and its emulator.
#[pyfunction]
#[pyo3(signature = (requests, guest, host, virtual_cpus, raised, offsets))]
pub fn split_requests<'py>(
    py: Python<'py>,
    requests: RequestsArgument<'py>,
    guest: Option<EventsArgument<'py>>,
    host: Option<EventsArgument<'py>>,
    virtual_cpus: Vec<i32>,
    raised: (PyReadonlyArray1<'py, u64>, u64),
    offsets: (i64, i64),
) -> PyResult<Bound<'py, PyDict>> {
    let borrowed = Requests {
        submitted: rows(&requests.submitted)?,
        returned: rows(&requests.returned)?,
        offset_bytes: rows(&requests.offset_bytes)?,
    };
    let guest = guest.as_ref().map(EventsArgument::columns).transpose()?;
    let host = host.as_ref().map(EventsArgument::columns).transpose()?;
    let emulator = Emulator { virtual_cpus: &virtual_cpus, raised: rows(&raised.0)?, raised_error: raised.1 };
    let traces = Traces { guest: guest.map(|trace| Guest { trace }), host: host.map(|trace| (trace, emulator)) };
    let found = py.detach(|| split(&borrowed, &traces, offsets)).map_err(wrong)?;
    let Found { parts, seen, offsets, out_of_order } = found;
    let dictionary = PyDict::new(py);
    for (name, column) in Part::NAMES.iter().zip(parts) {
        dictionary.set_item(*name, column.into_pyarray(py))?;
    }
    let result = PyDict::new(py);
    result.set_item("parts", dictionary)?;
    result.set_item("seen", seen.into_pyarray(py))?;
    result.set_item("offsets", offsets)?;
    result.set_item("out_of_order", out_of_order)?;
    Ok(result)
}

/// Adds what the columns are called.
pub fn add_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("REQUEST_PARTS", Part::NAMES.to_vec())
}
