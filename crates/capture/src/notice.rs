//! QEMU's events, taken off their queue, and those that need action.

use serde_json::json;

use crate::qmp::{Qmp, QmpError};

/// One of QEMU's events, with what it means to the protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The guest's kernel has panicked and said so (pvpanic). The guest does about it what it was told to.
    Panicked,
    /// The guest began anew: it rebooted, or its processor reset itself, which a fault in a fault in a fault
    /// makes it do (QEMU's word for both is `guest-reset`).
    Reset,
    /// The guest stands although nobody stopped it, and QEMU will not let it go on: `internal-error`,
    /// `io-error`, `guest-panicked` (qapi/run-state.json, `RunState`).
    Stands {
        /// QEMU's word for it.
        status: String,
    },
    /// An event that asks for nothing.
    Told {
        /// As `RESUME`.
        name: String,
    },
}

/// Take all events that have come, and say what they mean. Does not wait, unless the guest stands by itself:
/// then QEMU is asked why.
pub fn heed(qmp: &mut Qmp, should_run: bool) -> Result<Vec<Notice>, QmpError> {
    let mut stands = None;
    let mut notices: Vec<Notice> = Vec::new();
    for event in qmp.events()? {
        match event.name.as_str() {
            "STOP" => stands = Some(true),
            "RESUME" => stands = Some(false),
            _ => {}
        }
        notices.push(match event.name.as_str() {
            "GUEST_PANICKED" => Notice::Panicked,
            "RESET" if event.data["guest"] == true => Notice::Reset,
            _ => Notice::Told { name: event.name },
        });
    }
    if should_run && stands == Some(true) {
        notices.extend(standing(qmp)?.map(|status| Notice::Stands { status }));
    }
    Ok(notices)
}

/// Ask QEMU whether the guest stands for good, and why.
pub fn standing(qmp: &mut Qmp) -> Result<Option<String>, QmpError> {
    let answer = qmp.execute("query-status", json!({}))?;
    let status = answer["status"].as_str().unwrap_or_default();
    // Those that `cont` does not end, or that a guest comes to by itself only.
    let is_broken = matches!(status, "internal-error" | "io-error" | "guest-panicked" | "watchdog");
    Ok(is_broken.then(|| status.to_owned()))
}
