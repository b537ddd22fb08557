//! Who may be active: terms, the register, and the state machines of both members.
//!
//! A virtual machine has a *holder*, which may run it, and perhaps a *standby*, which may claim it. Both are
//! named in a record that is changed by compare-and-swap only ([`Register`]); each change of who may do what
//! is a new [`Term`]. [`ActiveMember`] and [`StandbyMember`] are state machines without input or output; the
//! program that runs them carries their actions out and tells them what happened. The rules that they keep:
//!
//! - output of an epoch leaves only after the standby that may claim has acknowledged the epoch (modes `net`
//!   and `net+bypass`), and nothing at all leaves once the lease has run out;
//! - only the standby that the register names may claim, and it is named only after it holds a complete
//!   epoch;
//! - without a standby, the holder needs the register: unless it answers in time, output and then the guest
//!   stop.
//!
//! `docs/protect-internals.md` has the states in tables and says how these rules are checked.

mod active;
mod desk;
mod mode;
#[cfg(test)]
mod model;
mod names;
mod numbers;
mod output;
mod record;
mod refusals;
mod register;
mod request;
mod standby;
mod timing;

pub use active::{
    ActiveAction, ActiveConfig, ActiveEnding, ActiveInput, ActiveMember, ActiveMessage, ActiveState, FailoverRefused,
};
pub use mode::{Mode, UnknownMode};
pub use names::{NameError, check_host_name, check_vm_name};
pub use numbers::{Epoch, Term};
pub use output::{OutputPolicy, OutputRule, Permit, Standing};
pub use record::{MemberId, Record, Version, Versioned};
pub use refusals::Refusals;
pub use register::{
    EtcdConfig, EtcdIdentity, EtcdLogin, EtcdRegister, FileRegister, Register, RegisterError, SwapOutcome,
};
pub use request::{RegisterAnswer, RegisterCall, RegisterOutcome, RegisterRequest};
pub use standby::{
    Promotion, StandbyAction, StandbyConfig, StandbyEnding, StandbyInput, StandbyMember, StandbyMessage, StandbyState,
};
pub use timing::{Timing, TimingError};
