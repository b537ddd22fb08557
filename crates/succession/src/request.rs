//! Calls to the register as data: a member asks by an action and is told by an input.

use crate::{Record, Register, SwapOutcome, Version, Versioned};

/// A call that the integrator makes, off the thread that runs the member.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RegisterRequest {
    /// Comes back with the answer.
    pub id: u64,
    pub call: RegisterCall,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RegisterCall {
    Read,
    Swap {
        /// The version it must still be in.
        expected: Option<Version>,
        /// What it shall be.
        wanted: Record,
    },
}

/// The answer to the request with the same number. A member has one request at a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct RegisterAnswer {
    pub id: u64,
    pub outcome: RegisterOutcome,
}

/// What came of a call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum RegisterOutcome {
    /// The record, if there is one.
    Read(Option<Versioned>),
    Swap(SwapOutcome),
    /// No answer: a swap may or may not have been applied, or still be.
    Unreachable {
        reason: String,
    },
}

impl RegisterRequest {
    /// Make the call. Blocks as long as the register does.
    pub fn perform(&self, register: &mut dyn Register, vm: &str) -> RegisterAnswer {
        let result = match &self.call {
            RegisterCall::Read => register.read(vm).map(RegisterOutcome::Read),
            RegisterCall::Swap { expected, wanted } => register.swap(vm, *expected, wanted).map(RegisterOutcome::Swap),
        };
        let outcome = result.unwrap_or_else(|error| RegisterOutcome::Unreachable { reason: error.to_string() });
        RegisterAnswer { id: self.id, outcome }
    }
}
