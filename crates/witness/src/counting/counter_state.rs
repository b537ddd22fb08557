//! The state that a counter reports.

use serde::Serialize;

use crate::counter::protocol::{Answer, Outcome};
use crate::judge::hexadecimal;

/// A counter's state, as a document.
#[derive(Debug, Clone, Serialize)]
pub struct CounterState {
    outcome: Outcome,
    total: u64,
    digest: String,
    guest_monotonic_ns: u64,
    guest_monotonic_raw_ns: u64,
    guest_realtime_ns: u64,
    /// How many pages it rewrites.
    pub pages: u64,
    /// How often one was verified.
    pub verified: u64,
    /// How often one was wrong.
    pub mismatches: u64,
    boot_id: String,
    life_id: String,
}

impl CounterState {
    pub fn of(answer: &Answer) -> Self {
        Self {
            outcome: answer.outcome,
            total: answer.total,
            digest: format!("{:016x}", answer.digest),
            guest_monotonic_ns: answer.guest_ns,
            guest_monotonic_raw_ns: answer.raw_ns,
            guest_realtime_ns: answer.real_ns,
            pages: answer.pages,
            verified: answer.verified,
            mismatches: answer.mismatches,
            boot_id: hexadecimal(&answer.boot),
            life_id: hexadecimal(&answer.life),
        }
    }
}
