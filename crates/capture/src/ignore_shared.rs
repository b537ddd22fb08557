//! The state of the devices by QEMU's ordinary migration, with the capability `x-ignore-shared` (QEMU 4.0).
//!
//! The guest's memory is shared and thus left out; all other RAM blocks are sent, which makes this the choice
//! where a machine has some that `xen-save-devices-state` would lose. It costs more: a migration for each
//! epoch, after which the guest is in the state `postmigrate`, out of which `cont` leads.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use serde_json::json;

use crate::device_state::{DeviceState, DeviceStateError, LONGEST_STATE_BYTES, capabilities, checked};
use crate::qmp::{Qmp, QmpError, Ticket};

/// What QEMU calls its end of the socket.
const SOCKET_NAME: &str = "state";

/// Takes the state as the stream of a migration to a socket that QEMU is given for it, each time another one.
#[derive(Default)]
pub struct IgnoreSharedMigration {
    pending: Option<Pending>,
}

struct Pending {
    giving: Ticket,
    migration: Ticket,
    stream: UnixStream,
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
        let (stream, of_qemu) = UnixStream::pair().map_err(DeviceStateError::Read)?;
        let giving = qmp.begin_giving(SOCKET_NAME, of_qemu.as_fd())?;
        let migration = qmp.begin("migrate", json!({"uri": format!("fd:{SOCKET_NAME}")}))?;
        self.pending = Some(Pending { giving, migration, stream });
        Ok(())
    }

    fn finish_capture(&mut self, qmp: &mut Qmp) -> Result<Vec<u8>, DeviceStateError> {
        let Pending { giving, migration, mut stream } = self.pending.take().ok_or(DeviceStateError::NotBegun)?;
        qmp.finish(giving)?;
        qmp.finish(migration)?;
        let mut state = Vec::new();
        // A QEMU that falls silent here is no other than one that does not answer.
        stream.set_read_timeout(Some(qmp.timeout())).map_err(DeviceStateError::Read)?;
        let limited = (&mut stream).take(LONGEST_STATE_BYTES + 1).read_to_end(&mut state);
        if limited.map_err(|error| not_read(error, qmp))? as u64 > LONGEST_STATE_BYTES {
            return Err(DeviceStateError::TooLong);
        }
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

fn not_read(error: io::Error, qmp: &Qmp) -> DeviceStateError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let waiting_for = "the stream of the migration".to_owned();
            QmpError::TimedOut { waiting_for, waited: qmp.timeout() }.into()
        }
        _ => DeviceStateError::Read(error),
    }
}
