//! What the control plane and the agent say to each other, once, for both.
//!
//! Two layers, neither of which touches a file descriptor:
//!
//! * [`frame`]: `u32` little-endian payload length, `u8` kind, payload. Kind 1 is one JSON message, kind 2 a
//!   piece of an Arrow IPC stream.
//! * [`message`]: the JSON messages. The first one in each direction is a `hello` with [`PROTOCOL_VERSION`].
//!
//! The Python models of the messages are generated from these types (`tests/schema.rs`); `tests/golden/frames` holds
//! frames that the tests of both sides read.

pub mod clock_reading;
pub mod devices;
pub mod event_kind;
pub mod finding;
pub mod frame;
pub mod injection;
pub mod layout;
pub mod load;
pub mod message;
pub mod probe;
pub mod program;
pub mod real_time_limit;
pub mod rtload;
pub mod trace_columns;

pub use clock_reading::ClockReading;
pub use devices::{Disk, DiskEngine, DiskOperation, DiskOrder, DiskTarget, Net, NetTransport};
pub use event_kind::EventKind;
pub use finding::{Finding, FindingLevel};
pub use frame::{Frame, FrameDecoder, FrameError, FrameKind, encode_frame};
pub use injection::{GuestExit, Injection};
pub use layout::Layout;
pub use load::{Load, LoadOutcome, LoadRequest, WorkUnit};
pub use message::{
    ClockCheck, ClockRecord, ExtraGroup, Facts, FromAgent, MachineThread, OnThreshold, Progress, Reading, StreamName,
    ThreadPlacement, ThreadRole, ThresholdHit, ToAgent, TraceRequest, TracingOutcome, TrialOutcome, TrialRequest,
};
pub use probe::{Contend, Probe, Switch, Tick, Wakeup};
pub use program::{ProgramThread, Reservation};
pub use real_time_limit::{RealTimeLimit, RealTimeLimitKind};
pub use rtload::{
    ClockConversion, DrawnTaskSet, RealTimePolicy, RealTimeTask, RealTimeTaskOutcome, Rtload, RtloadOutcome,
};
pub use trace_columns::TraceColumns;

/// The version of the frames and messages. It rises whenever an older peer could misunderstand a newer one.
pub const PROTOCOL_VERSION: u32 = 6;
