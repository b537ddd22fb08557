//! A member's dealings with the register: one request at a time, repeated after a pause when there is no
//! answer.

use std::time::Duration;

use crate::{Record, RegisterAnswer, RegisterCall, RegisterOutcome, RegisterRequest, Version};

/// Makes requests and recognises their answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Desk<P> {
    requests: u64,
    pending: Option<Pending<P>>,
    not_before: Duration,
    failing: bool,
}

/// A request without an answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pending<P> {
    id: u64,
    /// When it was asked for: whatever it does to the register happens later.
    pub sent: Duration,
    pub purpose: P,
    /// What it would write.
    pub wanted: Option<Record>,
}

impl<P> Desk<P> {
    pub fn new() -> Self {
        Self { requests: 0, pending: None, not_before: Duration::ZERO, failing: false }
    }

    pub fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Whether the last request had no answer.
    pub fn is_failing(&self) -> bool {
        self.failing
    }

    /// The earliest moment of the next request.
    pub fn not_before(&self) -> Duration {
        self.not_before
    }

    pub fn wait_until(&mut self, moment: Duration) {
        self.not_before = moment;
    }

    pub fn is_ready(&self, now: Duration) -> bool {
        self.pending.is_none() && now >= self.not_before
    }

    pub fn read(&mut self, now: Duration, purpose: P) -> RegisterRequest {
        self.ask(now, purpose, RegisterCall::Read, None)
    }

    pub fn swap(&mut self, now: Duration, purpose: P, expected: Option<Version>, wanted: Record) -> RegisterRequest {
        self.ask(now, purpose, RegisterCall::Swap { expected, wanted: wanted.clone() }, Some(wanted))
    }

    fn ask(&mut self, sent: Duration, purpose: P, call: RegisterCall, wanted: Option<Record>) -> RegisterRequest {
        self.requests += 1;
        let id = self.requests;
        self.pending = Some(Pending { id, sent, purpose, wanted });
        RegisterRequest { id, call }
    }

    /// Take what the answer belongs to; none for an answer that nobody waits for.
    pub fn take(&mut self, now: Duration, answer: &RegisterAnswer, retry: Duration) -> Option<Pending<P>> {
        if self.pending.as_ref()?.id != answer.id {
            return None;
        }
        self.failing = matches!(answer.outcome, RegisterOutcome::Unreachable { .. });
        self.not_before = if self.failing { now + retry } else { now };
        self.pending.take()
    }
}
