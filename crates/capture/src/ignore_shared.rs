//! The state of the devices by QEMU's ordinary migration, with the capability `x-ignore-shared` (QEMU 4.0).
//!
//! The guest's memory is shared and thus left out; all other RAM blocks are sent, which makes this the choice where a
//! machine has some that `xen-save-devices-state` would lose. It costs more: a migration for each epoch, after which the
//! guest is in the state `postmigrate`, out of which `cont` leads.

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::device_state::{DeviceState, DeviceStateError, capabilities, checked};
use crate::qmp::{Qmp, Ticket};

/// How long QEMU may take to connect and to send.
const TRANSFER_TIMEOUT: Duration = Duration::from_secs(30);

/// Takes the state as the stream of a migration to a socket of ours.
pub struct IgnoreSharedMigration {
    listener: UnixListener,
    path: PathBuf,
    pending: Option<Ticket>,
}

impl IgnoreSharedMigration {
    /// `path` is where the socket is made; it is removed when this is dropped.
    pub fn new(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, path: path.into(), pending: None })
    }

    fn accept(&self) -> io::Result<UnixStream> {
        let deadline = Instant::now() + TRANSFER_TIMEOUT;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    stream.set_read_timeout(Some(TRANSFER_TIMEOUT))?;
                    return Ok(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&left))?;
        }
    }
}

impl Drop for IgnoreSharedMigration {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl DeviceState for IgnoreSharedMigration {
    fn name(&self) -> &'static str {
        "ignore-shared"
    }

    fn prepare(&mut self, qmp: &mut Qmp) -> Result<(), DeviceStateError> {
        qmp.execute("migrate-set-capabilities", capabilities())?;
        Ok(())
    }

    fn begin_capture(&mut self, qmp: &mut Qmp) -> Result<(), DeviceStateError> {
        qmp.forget_events("MIGRATION");
        let uri = format!("unix:{}", self.path.display());
        self.pending = Some(qmp.begin("migrate", json!({"uri": uri}))?);
        Ok(())
    }

    fn finish_capture(&mut self, qmp: &mut Qmp) -> Result<Vec<u8>, DeviceStateError> {
        let ticket = self.pending.take().ok_or(DeviceStateError::NotBegun)?;
        qmp.finish(ticket)?;
        let mut state = Vec::new();
        let mut stream = self.accept().map_err(DeviceStateError::Read)?;
        stream.read_to_end(&mut state).map_err(DeviceStateError::Read)?;
        let ended = qmp.wait_for_event("the end of the migration", |event| {
            event.name == "MIGRATION"
                && matches!(event.data["status"].as_str(), Some("completed" | "failed" | "cancelled"))
        })?;
        match ended.data["status"].as_str() {
            Some("completed") => checked(state),
            status => Err(DeviceStateError::Migration { status: status.unwrap_or("?").into() }),
        }
    }
}
