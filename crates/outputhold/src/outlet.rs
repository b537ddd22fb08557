//! The one place where a frame leaves: past the gate, into the port.

use std::io;
use std::sync::Arc;

use stealtime_succession::Standing;

use crate::hold::Delivery;
use crate::port::FramePort;

/// Whether this member may still send at this moment.
///
/// It is asked right before each write, since the process may have been paused since the last one (a lease
/// that was good then may have run out). It is called with the relay locked: it must be quick and must not
/// call the relay.
pub trait Gate: Send + Sync {
    /// Whether a frame of this standing may leave now.
    fn may_release(&self, standing: Standing) -> bool;
}

/// Why the last write did not happen.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
    None,
    /// The gate is shut; it may open without notice.
    GateShut,
    /// The port said that it has no room, and becomes writable.
    PortFull,
    /// The port has a passing trouble that no event ends.
    PortBusy,
    /// The port is gone.
    PortLost,
}

/// The gate and the port behind it.
pub(crate) struct Outlet {
    pub port: Box<dyn FramePort>,
    gate: Arc<dyn Gate>,
    pub obstacle: Obstacle,
    pub gate_refusals: u64,
    pub port_refusals: u64,
    /// Why the port is gone, until it was told.
    pub loss: Option<io::Error>,
}

impl Outlet {
    pub fn new(port: Box<dyn FramePort>, gate: Arc<dyn Gate>) -> Self {
        Self { port, gate, obstacle: Obstacle::None, gate_refusals: 0, port_refusals: 0, loss: None }
    }

    /// Let one frame out, if the gate is open at this moment and the port takes it.
    pub fn deliver(&mut self, frame: &[u8], standing: Standing) -> Delivery {
        if self.obstacle == Obstacle::PortLost {
            return Delivery::Blocked;
        }
        loop {
            if !self.gate.may_release(standing) {
                self.gate_refusals += 1;
                self.obstacle = Obstacle::GateShut;
                return Delivery::Blocked;
            }
            let Err(error) = self.port.write_frame(frame) else {
                self.obstacle = Obstacle::None;
                return Delivery::Delivered;
            };
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return self.refusal(error);
        }
    }

    fn refusal(&mut self, error: io::Error) -> Delivery {
        self.port_refusals += 1;
        self.obstacle = match error.raw_os_error() {
            // The Linux TAP driver refuses frames shorter than an Ethernet header (tun_get_user), and longer
            // ones than it can hold, with these.
            Some(libc::EINVAL | libc::EMSGSIZE) => {
                self.obstacle = Obstacle::None;
                return Delivery::Refused;
            }
            Some(libc::EAGAIN) => Obstacle::PortFull,
            // EIO: the interface is down.
            Some(libc::ENOBUFS | libc::ENOMEM | libc::EIO) => Obstacle::PortBusy,
            _ => {
                self.lose(error);
                Obstacle::PortLost
            }
        };
        Delivery::Blocked
    }

    /// Note that the port is gone.
    pub fn lose(&mut self, error: io::Error) {
        if self.obstacle != Obstacle::PortLost {
            self.obstacle = Obstacle::PortLost;
            self.loss = Some(error);
        }
    }
}
