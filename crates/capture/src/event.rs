//! What QEMU tells unasked, and what the event `SHUTDOWN` among it says (qapi/run-state.json,
//! `ShutdownCause`).

use serde_json::Value;

/// What QEMU tells unasked.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// As `MIGRATION`, `STOP`, `RESUME`, `SHUTDOWN`.
    pub name: String,
    /// What comes with it; null if nothing does.
    pub data: Value,
}

/// What QEMU says before it ends by itself. Its exit code is 0 whoever wanted that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Whether the guest wanted it: it powered itself off. If not, somebody on the host did, by a signal for
    /// one.
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
