//! The events of a relay.

use std::io;

use stealtime_succession::Epoch;

use crate::framing::FramingError;
use crate::hold::ReleasedEpoch;

#[derive(Debug)]
pub enum RelayEvent {
    /// All output of an epoch has left.
    EpochReleased(ReleasedEpoch),
    /// The first frame since the cut of this epoch waits for the next one. Told once for each cut.
    AwaitsCut { after: Epoch },
    /// The limit is reached: the guest's output waits in QEMU. Told once, until there was room again.
    HoldFull { frames: usize, bytes: usize },
    /// QEMU closed its socket. What is held stays, and leaves if its epoch is acknowledged.
    OutputClosed,
    /// QEMU's stream cannot be read on; the socket was closed.
    OutputBroken(FramingError),
    /// The port is gone; nothing can leave any more.
    PortLost(io::Error),
    /// The thread ended without being asked to: an assertion failed. Nothing can leave any more.
    Ended,
}
