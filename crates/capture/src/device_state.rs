//! The state of virtual CPUs and devices, taken from a stopped guest.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::qmp::{Qmp, QmpError, Ticket};

/// As a standby takes (`stealtime_shipping::StagerLimits`): some 50 to 400 KB are usual.
pub(crate) const LONGEST_STATE_BYTES: u64 = 64 << 20;

/// Which way the state is taken. Both give what a standby loads with [`crate::Guest::load`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceStateKind {
    /// `xen-save-devices-state`: all but the RAM blocks.
    XenSave,
    /// A migration that leaves out shared memory.
    IgnoreShared,
}

impl DeviceStateKind {
    /// As in a specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::XenSave => "xen-save",
            Self::IgnoreShared => "ignore-shared",
        }
    }
}

/// Why the state of the devices was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DeviceStateError {
    #[error(transparent)]
    Qmp(#[from] QmpError),
    #[error("the state of the devices that QEMU saved cannot be read")]
    Read(#[source] io::Error),
    #[error("QEMU saved {bytes} bytes as the state of the devices, which is none: it does not begin with QEVM")]
    NotAState { bytes: usize },
    /// More than any machine has, and than a standby takes: QEMU may be in the hands of its guest, and this memory is
    /// the member's.
    #[error("QEMU saved more than {} MiB as the state of the devices", LONGEST_STATE_BYTES >> 20)]
    TooLong,
    #[error("QEMU could not save the state of the devices: its migration is `{status}`")]
    Migration { status: String },
    /// `finish_capture` without `begin_capture`.
    #[error("no capture of the state of the devices has begun")]
    NotBegun,
}

/// A way to take the state of the devices. The guest must be stopped from before `begin_capture` to after
/// `finish_capture`.
pub trait DeviceState: Send {
    /// For messages and results.
    fn name(&self) -> &'static str;
    /// Once, before the first capture.
    fn prepare(&mut self, qmp: &mut Qmp) -> Result<(), DeviceStateError>;
    /// Ask for the state; QEMU works while other things are done. May be sent right after `stop` was.
    fn begin_capture(&mut self, qmp: &mut Qmp) -> Result<(), DeviceStateError>;
    /// Waits for the end of the capture; gives the state.
    fn finish_capture(&mut self, qmp: &mut Qmp) -> Result<Vec<u8>, DeviceStateError>;
}

/// QEMU's `xen-save-devices-state`, which needs nothing of Xen: virtual CPUs and devices, without any RAM
/// block.
///
/// `live` is false: by default the command would also inactivate the disks of a stopped guest. The loading
/// side demands `-global migration.send-configuration=off`, see [`crate::arguments()`].
pub struct XenSave {
    file: Arc<File>,
    path_in_qemu: PathBuf,
    pending: Option<Ticket>,
}

impl XenSave {
    /// `file` is memory that QEMU opens as `path_in_qemu`.
    pub(crate) fn new(file: Arc<File>, path_in_qemu: PathBuf) -> Self {
        Self { file, path_in_qemu, pending: None }
    }
}

impl DeviceState for XenSave {
    fn name(&self) -> &'static str {
        "xen-save"
    }

    fn prepare(&mut self, _qmp: &mut Qmp) -> Result<(), DeviceStateError> {
        Ok(())
    }

    fn begin_capture(&mut self, qmp: &mut Qmp) -> Result<(), DeviceStateError> {
        let arguments = json!({"filename": self.path_in_qemu, "live": false});
        self.pending = Some(qmp.begin("xen-save-devices-state", arguments)?);
        Ok(())
    }

    fn finish_capture(&mut self, qmp: &mut Qmp) -> Result<Vec<u8>, DeviceStateError> {
        let ticket = self.pending.take().ok_or(DeviceStateError::NotBegun)?;
        qmp.finish(ticket)?;
        let length = self.file.metadata().map_err(DeviceStateError::Read)?.len();
        if length > LONGEST_STATE_BYTES {
            return Err(DeviceStateError::TooLong);
        }
        let mut state = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        self.file.read_exact_at(&mut state, 0).map_err(DeviceStateError::Read)?;
        checked(state)
    }
}

/// What migrations need on both sides: shared memory is left out, and the end is told.
pub(crate) fn capabilities() -> Value {
    let on = |capability: &str| json!({"capability": capability, "state": true});
    json!({"capabilities": [on("x-ignore-shared"), on("events")]})
}

/// QEMU's saved states begin with these bytes (migration/savevm.c, `QEMU_VM_FILE_MAGIC`).
pub(crate) fn checked(state: Vec<u8>) -> Result<Vec<u8>, DeviceStateError> {
    if state.starts_with(b"QEVM") { Ok(state) } else { Err(DeviceStateError::NotAState { bytes: state.len() }) }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_state_that_is_longer_than_any_is_not_read() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = std::thread::spawn(move || {
            let mut answers = theirs.try_clone().unwrap();
            let greeting = r#"{"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}}}"#;
            writeln!(answers, "{greeting}").unwrap();
            for line in BufReader::new(theirs).lines().map_while(Result::ok) {
                let command: Value = serde_json::from_str(&line).unwrap();
                writeln!(answers, "{}", json!({"return": {}, "id": command["id"]})).unwrap();
            }
        });
        let mut qmp = Qmp::over(ours, Duration::from_secs(20)).unwrap();
        let mut way = XenSave::new(Arc::clone(&file), PathBuf::from("/dev/null"));
        // It takes no room: nobody wrote it.
        for (length, is_too_long) in [(LONGEST_STATE_BYTES, false), (LONGEST_STATE_BYTES + 1, true)] {
            file.set_len(length).unwrap();
            way.begin_capture(&mut qmp).unwrap();
            let error = way.finish_capture(&mut qmp).unwrap_err();
            assert_eq!(matches!(error, DeviceStateError::TooLong), is_too_long, "{error}");
        }
        drop(qmp);
        qemu.join().unwrap();
    }
}
