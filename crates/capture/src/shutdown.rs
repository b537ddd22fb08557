//! Why a QEMU ends, in its own words: the event `SHUTDOWN` (qapi/run-state.json, `ShutdownCause`).

use crate::qmp::Event;

/// What QEMU says before it ends by itself. Its exit code is 0 whoever wanted that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether the guest wanted it: it powered itself off. If not, somebody on the host did, by a signal for one.
    pub by_guest: bool,
    /// As `guest-shutdown`, `host-signal`.
    pub reason: String,
}

impl Shutdown {
    /// What an event says of it; none if it speaks of something else.
    pub fn told_by(event: &Event) -> Option<Self> {
        (event.name == "SHUTDOWN").then(|| Self {
            by_guest: event.data["guest"] == true,
            reason: event.data["reason"].as_str().unwrap_or("no reason given").to_owned(),
        })
    }
}
