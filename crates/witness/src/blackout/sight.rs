//! What one way of asking has seen so far: its thread writes it, progress and report read it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::blackout::asking::Heard;
use crate::blackout::line::Line;
use crate::blackout::pace::Turn;
use crate::judge::{MOST_VIOLATIONS, Violation};
use crate::kept::Kept;
use crate::stamps::monotonic_ns;

/// How a machine is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    Tcp,
    Udp,
    Ping,
    Connect,
}

impl std::fmt::Display for Way {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Ping => "ICMP echo",
            Self::Connect => "TCP connect",
        })
    }
}

/// The end of a TCP connection.
#[derive(Debug, Clone, Serialize)]
pub struct Loss {
    pub at_monotonic_ns: u64,
    pub reason: String,
    /// When there was another one.
    pub again_monotonic_ns: Option<u64>,
}

/// Something that must not happen, when it was noticed.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub at_monotonic_ns: u64,
    #[serde(flatten)]
    pub violation: Violation,
}

/// What there is to see.
#[derive(Debug, Clone)]
pub struct Sight {
    pub way: Way,
    pub to: String,
    pub line: Line,
    pub last_value: Option<u64>,
    pub violations: Kept<Found, MOST_VIOLATIONS>,
    /// Of the TCP connection.
    pub losses: Vec<Loss>,
    /// Answers for which the kernel had no room.
    pub overflowed: u64,
    /// Answers that the kernel and that the process has stamped.
    pub by_kernel: u64,
    pub by_process: u64,
    /// What the kernel said last, when something was refused.
    pub trouble: Option<String>,
    /// Something answers, but nothing that a counter says.
    pub is_stranger: bool,
}

impl Sight {
    pub fn new(way: Way, to: String, line: Line) -> Self {
        Self {
            way,
            to,
            line,
            last_value: None,
            violations: Kept::default(),
            losses: Vec::new(),
            overflowed: 0,
            by_kernel: 0,
            by_process: 0,
            trouble: None,
            is_stranger: false,
        }
    }

    pub fn heard(&mut self, heard: Heard, at_ns: u64, last_value: Option<u64>) {
        self.line.answered(heard.number, at_ns);
        self.last_value = last_value;
        for violation in heard.violations {
            self.violations.add(Found { at_monotonic_ns: at_ns, violation });
        }
    }
}

/// A sight that a thread fills, until it is to stop.
#[derive(Debug, Clone)]
pub struct Watched {
    sight: Arc<Mutex<Sight>>,
    /// To send no more, and then to listen no more.
    asks_no_more: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Watched {
    pub fn new(sight: Sight, asks_no_more: &Arc<AtomicBool>, is_over: &Arc<AtomicBool>) -> Self {
        Self {
            sight: Arc::new(Mutex::new(sight)),
            asks_no_more: Arc::clone(asks_no_more),
            is_over: Arc::clone(is_over),
        }
    }

    pub fn sight(&self) -> MutexGuard<'_, Sight> {
        self.sight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A probe was given to the kernel at `at_ns`, which took it or not.
    pub fn sent(&self, turn: &Turn, at_ns: u64, taken: Result<(), String>) {
        let mut sight = self.sight();
        sight.line.sent(turn, at_ns, taken.is_ok());
        if let Err(reason) = taken {
            sight.trouble = Some(reason);
        }
    }

    pub fn asks_no_more(&self) -> bool {
        self.asks_no_more.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// How long to wait for the next probe's turn; never so long that the end is not noticed.
pub fn until(due_ns: u64, watched: &Watched) -> Duration {
    const PATIENCE: Duration = Duration::from_millis(50);
    if watched.asks_no_more() {
        return Duration::from_millis(5);
    }
    Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())).min(PATIENCE)
}
