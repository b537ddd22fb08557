//! A flow, one continued count: ask, wait for the answer, judge it, pause, ask for the next.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::counting::record::Record;
use crate::counting::wire::{TcpWire, UdpWire, Wire, WireError};
use crate::judge::{Judge, Violation};
use crate::silence::Moment;

/// The longest that a pausing thread does not look whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// Where and how a flow counts.
#[derive(Debug, Clone, Copy)]
pub enum Way {
    Tcp {
        address: SocketAddr,
        /// Sends again at a steady pace (`TCP_THIN_LINEAR_TIMEOUTS`).
        linear_timeouts: bool,
    },
    Udp {
        address: SocketAddr,
        /// When to send one again.
        resend_after: Duration,
    },
}

/// Why a flow never began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody answered in time.
    NoAnswer,
    /// The kernel refused what is needed for it, in these words.
    Kernel(String),
}

/// A flow in its thread.
pub struct Flow {
    client: u64,
    way: Way,
    interval: Duration,
    /// Until when the first answer may come.
    first_by: Instant,
    stop: Arc<AtomicBool>,
    record: Arc<Mutex<Record>>,
}

impl Flow {
    /// One that was not started.
    pub fn new(
        client: u64,
        way: Way,
        interval: Duration,
        first_by: Instant,
        stop: &Arc<AtomicBool>,
        record: &Arc<Mutex<Record>>,
    ) -> Self {
        Self { client, way, interval, first_by, stop: Arc::clone(stop), record: Arc::clone(record) }
    }

    /// Counts until told to stop or until the connection is lost. `begun` is called with the first answer, or
    /// with the reason why there is none.
    pub fn run(self, begun: impl FnOnce(Result<(), Refusal>)) {
        let waiting = || self.stopping() || Instant::now() >= self.first_by;
        let wire: std::io::Result<Option<Box<dyn Wire>>> = match self.way {
            Way::Tcp { address, linear_timeouts } => TcpWire::connect(address, linear_timeouts, &waiting)
                .map(|wire| wire.map(|wire| Box::new(wire) as Box<dyn Wire>)),
            Way::Udp { address, resend_after } => {
                UdpWire::connect(address, resend_after).map(|wire| Some(Box::new(wire) as Box<dyn Wire>))
            }
        };
        let mut wire = match wire {
            Ok(Some(wire)) => wire,
            Ok(None) => return begun(Err(Refusal::NoAnswer)),
            Err(error) => return begun(Err(Refusal::Kernel(error.to_string()))),
        };
        let mut judge = Judge::new(self.client);
        match self.count_once(wire.as_mut(), &mut judge, &waiting) {
            Ok(true) => begun(Ok(())),
            Ok(false) => return begun(Err(Refusal::NoAnswer)),
            // A connection that is lost is a finding, and the flow had begun.
            Err(error) => {
                self.lose(&error);
                return begun(Ok(()));
            }
        }
        let mut next = Instant::now();
        loop {
            // Not made up for: after an outage the counter is not to be flooded.
            next = (next + self.interval).max(Instant::now());
            self.pause_until(next);
            if self.stopping() {
                break;
            }
            match self.count_once(wire.as_mut(), &mut judge, &|| self.stopping()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return self.lose(&error),
            }
        }
    }

    /// Whether an answer came before it was time to stop.
    fn count_once(&self, wire: &mut dyn Wire, judge: &mut Judge, stop: &dyn Fn() -> bool) -> Result<bool, WireError> {
        let request = judge.next_request(Moment::now().monotonic_ns);
        self.record().requests += 1;
        let mut effort = self.record().effort;
        let answer = wire.exchange(&request, stop, &mut effort);
        let now = Moment::now();
        let mut record = self.record();
        record.effort = effort;
        let Some(answer) = answer? else { return Ok(false) };
        let found = judge.judge(&answer);
        record.answered(now, &answer, found);
        Ok(true)
    }

    fn lose(&self, error: &WireError) {
        let now = Moment::now();
        let mut record = self.record();
        record.lost = true;
        record.found(now, Violation::ConnectionLost { reason: error.to_string() });
    }

    fn pause_until(&self, moment: Instant) {
        while !self.stopping() {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            thread::sleep(left.min(PATIENCE));
        }
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
