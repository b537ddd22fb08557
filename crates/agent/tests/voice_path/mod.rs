//! A path with known faults, and what it knows of the packets that it passed on.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use stealtime_media::{Datagram, Kind, Mark, read};

use crate::agent_process::Agent;

pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    u64::try_from(now.tv_sec() * 1_000_000_000 + now.tv_nsec()).unwrap()
}

/// An end of `rtp` that listens.
pub struct Listener {
    pub agent: Agent,
    pub at: SocketAddr,
}

impl Listener {
    pub fn start(command: &[&str], arguments: &[&str]) -> Self {
        let mut agent = Agent::start(&[&["rtp"], command].concat(), arguments);
        let line = agent.await_progress(|_| true);
        let at = line.strip_prefix("listening at ").and_then(|rest| rest.split(',').next());
        Self { at: at.unwrap_or_else(|| panic!("{line}")).parse().unwrap(), agent }
    }
}

/// That an end found itself valid, or sent late and nothing else: a machine that others keep busy may have it be.
pub fn assert_valid_or_late(code: Option<i32>, found: &Value) {
    let reasons: Vec<_> = found["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
    assert_eq!(code, Some(if reasons.is_empty() { 0 } else { 4 }), "{found:#}");
    assert!(reasons.iter().all(|reason| reason.ends_with("too late or later")), "{found:#}");
}

/// What the path does with a packet of voice.
pub enum Fate {
    Pass,
    Drop,
    /// Two of it.
    Double,
    /// So much later.
    Hold(Duration),
    /// After the next one of its stream.
    Swap,
}

/// When the path had a packet, by `CLOCK_MONOTONIC`.
#[derive(Clone, Copy)]
pub struct Passed {
    pub mark: Mark,
    pub before_ns: u64,
    pub after_ns: u64,
}

/// A process in the middle: a thread of this test, which passes packets on in the order that it decides.
pub struct Path {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Passed>>,
}

impl Path {
    /// Passes what the one socket hears on to `to`, from the other.
    pub fn start(hears: UdpSocket, says: UdpSocket, to: SocketAddr, fate: fn(&Mark) -> Fate) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = thread::spawn(move || forward(&hears, &says, to, fate, &stopping));
        Self { stop, thread }
    }

    /// What it has passed on, in that order.
    pub fn end(self) -> Vec<Passed> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn forward(
    hears: &UdpSocket,
    says: &UdpSocket,
    to: SocketAddr,
    fate: fn(&Mark) -> Fate,
    stop: &AtomicBool,
) -> Vec<Passed> {
    let mut passed = Vec::new();
    let mut pass = |bytes: &[u8], mark: Mark| {
        let before_ns = now_ns();
        says.send_to(bytes, to).unwrap();
        passed.push(Passed { mark, before_ns, after_ns: now_ns() });
    };
    let (mut held, mut swapped) = (VecDeque::<(u64, Vec<u8>, Mark)>::new(), Vec::<(Vec<u8>, Mark)>::new());
    while !stop.load(Ordering::Relaxed) {
        while held.front().is_some_and(|(due_ns, ..)| *due_ns <= now_ns()) {
            let (_, bytes, mark) = held.pop_front().unwrap();
            pass(&bytes, mark);
        }
        let next_ns = held.front().map_or(20_000_000, |(due_ns, ..)| due_ns.saturating_sub(now_ns()));
        hears.set_read_timeout(Some(Duration::from_nanos(next_ns.clamp(1_000, 20_000_000)))).unwrap();
        let mut bytes = [0; 256];
        let Ok(length) = hears.recv(&mut bytes) else { continue };
        let bytes = &bytes[..length];
        let Datagram::Ours(_, mark) = read(bytes) else { panic!("the sender sent something else") };
        if mark.kind != Kind::Voice {
            pass(bytes, mark);
            continue;
        }
        match fate(&mark) {
            Fate::Drop => {}
            Fate::Pass => pass(bytes, mark),
            Fate::Double => {
                pass(bytes, mark);
                pass(bytes, mark);
            }
            Fate::Hold(time) => {
                held.push_back((now_ns() + u64::try_from(time.as_nanos()).unwrap(), bytes.to_vec(), mark));
            }
            Fate::Swap => swapped.push((bytes.to_vec(), mark)),
        }
        if let Some(place) = swapped.iter().position(|(_, one)| one.stream == mark.stream && one.index < mark.index) {
            let (bytes, mark) = swapped.remove(place);
            pass(&bytes, mark);
        }
    }
    passed
}

/// The voice of one stream.
pub fn of_stream(passed: &[Passed], stream: u32) -> Vec<Passed> {
    let is_one = |one: &&Passed| one.mark.stream == stream && one.mark.kind == Kind::Voice;
    passed.iter().filter(is_one).copied().collect()
}

/// Holds the quartiles that a receiver told against the stamps that the path took around each of its own sends.
pub fn assert_delays_lie_between(delay_ns: &Value, passed: &[Passed]) {
    let sorted = |of: fn(&Passed) -> u64| {
        let mut delays: Vec<u64> = passed.iter().map(|one| of(one) - one.mark.sent_ns).collect();
        delays.sort_unstable();
        delays
    };
    let (least, most) = (sorted(|one| one.before_ns), sorted(|one| one.after_ns));
    for (name, of_four) in [("min", 0), ("q1", 1), ("median", 2), ("q3", 3), ("max", 4)] {
        let rank = (passed.len() * of_four).div_ceil(4).max(1) - 1;
        let (found, low, high) = (number(&delay_ns[name]), least[rank], most[rank]);
        // Quartiles are told to 1 %, and clocks compared to some microseconds.
        let slack = found / 100 + 10_000;
        assert!(low.saturating_sub(slack) <= found && found <= high + slack, "{name}: {low} <= {found} <= {high}");
    }
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}
