//! A flow, one continued count: ask, wait for the answer, judge it, pause, ask for the next.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::counting::record::{Protocol, Record};
use crate::counting::settings::{Count, CountError};
use crate::counting::wire::{TcpWire, UdpWire, Wire, WireError};
use crate::judge::{Judge, Violation};
use crate::silence::Moment;

/// The longest that a pausing thread does not look whether it should stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// A flow in its thread.
pub struct Flow {
    pub client: u64,
    pub protocol: Protocol,
    pub address: SocketAddr,
    pub count: Count,
    /// Until when the first answer may come.
    pub first_by: Instant,
    pub stop: Arc<AtomicBool>,
    pub record: Arc<Mutex<Record>>,
}

impl Flow {
    /// Counts until told to stop or until the connection is lost. `begun` is called with the first answer, or
    /// with the reason why there is none.
    pub fn run(self, begun: impl FnOnce(Result<(), CountError>)) {
        let (protocol, address, wait) = (self.protocol, self.address, self.count.wait);
        let waiting = || self.stopping() || Instant::now() >= self.first_by;
        let wire: std::io::Result<Option<Box<dyn Wire>>> = match protocol {
            Protocol::Tcp => TcpWire::connect(address, self.count.linear_timeouts, &waiting)
                .map(|wire| wire.map(|wire| Box::new(wire) as Box<dyn Wire>)),
            Protocol::Udp => {
                UdpWire::connect(address, self.count.resend).map(|wire| Some(Box::new(wire) as Box<dyn Wire>))
            }
        };
        let mut wire = match wire {
            Ok(Some(wire)) => wire,
            Ok(None) => return begun(Err(CountError::NoAnswer { protocol, address, wait })),
            Err(error) => return begun(Err(CountError::Kernel { protocol, address, reason: error.to_string() })),
        };
        let mut judge = Judge::new(self.client);
        match self.count_once(wire.as_mut(), &mut judge, &waiting) {
            Ok(true) => begun(Ok(())),
            Ok(false) => return begun(Err(CountError::NoAnswer { protocol, address, wait })),
            // A connection that is lost is a finding, and the flow had begun.
            Err(error) => {
                self.lose(&error);
                return begun(Ok(()));
            }
        }
        let mut next = Instant::now();
        loop {
            // Not made up for: after an outage the counter is not to be flooded.
            next = (next + self.count.interval).max(Instant::now());
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
