//! `count` and `ask`: the clients of the `counter`.
//!
//! `count` is the witness of a failover. It counts over TCP and UDP, believes each acknowledged value, and
//! reports every answer that contradicts an earlier one (`judge`), every silence (`silence`), and whether its
//! one TCP connection lived on. It repairs nothing: a lost connection is a finding, not a reason to connect
//! again.

mod ask;
mod counter_state;
mod flow;
mod progress;
mod record;
mod report;
mod settings;
mod wire;

use std::io::{self, Read};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use stealtime_console::document::{conclude, tell};
use thiserror::Error;

pub use ask::run as run_ask;
pub use settings::{Ask, Count};

use crate::counter::protocol::Operation;
use crate::counting::flow::{Flow, Refusal, Way};
use crate::counting::progress::Progress;
use crate::counting::record::{Finding, Protocol, Record};
use crate::counting::report::{Check, Report, name};
use crate::counting::settings::VIOLATED;
use crate::judge::{Violation, draw_client};
use crate::silence::Moment;

/// For the check at the end: the memory of a translated guest is verified at some 100 MB/s.
const CHECK_WAIT: Duration = Duration::from_secs(60);

/// Of a round trip; the histogram grows with the longest of them.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Why nothing was counted.
#[derive(Debug, Error)]
pub enum CountError {
    /// Nobody answered in time.
    #[error("no answer over {} from {address} within {}", name(*protocol), humantime::format_duration(*wait))]
    NoAnswer { protocol: Protocol, address: SocketAddr, wait: Duration },
    /// The kernel refused a socket.
    #[error("counting over {} to {address} cannot begin: {reason}", name(*protocol))]
    Kernel { protocol: Protocol, address: SocketAddr, reason: String },
    /// Every pause between two requests would be one.
    #[error("--silence {} is not longer than --interval {}", humantime::format_duration(*silence), humantime::format_duration(*interval))]
    Silence {
        /// What was asked for.
        silence: Duration,
        /// What was asked for.
        interval: Duration,
    },
}

impl CountError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoAnswer { .. } => "is the counter up, and is its network? --wait makes this wait longer",
            Self::Kernel { .. } => "is the address right for this network namespace?",
            Self::Silence { .. } => "give a longer --silence",
        }
    }
}

/// What the main thread hears of.
enum Event {
    /// A flow has its first answer, or never will.
    Begun(Protocol, Result<(), Refusal>),
    /// A flow ended by itself.
    Ended,
    /// Ctrl-C, or standard input was closed.
    Stop,
}

/// The flows of a run.
struct Running {
    records: Vec<Arc<Mutex<Record>>>,
    threads: Vec<JoinHandle<()>>,
    events: Receiver<Event>,
    stop: Arc<AtomicBool>,
}

/// `stealtime-agent count`
pub fn run(count: &Count) -> anyhow::Result<ExitCode> {
    if count.silence <= count.interval {
        return Err(CountError::Silence { silence: count.silence, interval: count.interval }.into());
    }
    let started = Moment::now();
    let running = Running::start(count)?;
    let stopped = running.wait(count);
    let records = running.stop();
    let stopped = stopped?;
    let check = check_memory(count, &records);
    let report = Report::of(count, started, stopped, records, check);
    let verdict = if report.is_violated() { ExitCode::from(VIOLATED) } else { ExitCode::SUCCESS };
    Ok(conclude(verdict, [tell(count.json, &report, |output| report.write_text(output))]))
}

impl Running {
    fn start(count: &Count) -> anyhow::Result<Self> {
        let (sender, events) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        listen_for_the_end(count, &sender);
        let mut running = Self { records: Vec::new(), threads: Vec::new(), events, stop };
        let first_by = Instant::now() + count.wait;
        let threshold_ns = u64::try_from(count.silence.as_nanos()).unwrap_or(u64::MAX);
        for way in ways(count) {
            let client = draw_client();
            let round_trips = Histogram::new(SIGNIFICANT_DIGITS)?;
            let record = Arc::new(Mutex::new(Record::new(way.protocol(), client, threshold_ns, round_trips)));
            let flow = Flow::new(client, way, count.interval, first_by, &running.stop, &record);
            running.records.push(record);
            let sender = sender.clone();
            let work = move || {
                // A main thread that has ended already wants to hear nothing.
                flow.run(|begun| drop(sender.send(Event::Begun(way.protocol(), begun))));
                drop(sender.send(Event::Ended));
            };
            running.threads.push(thread::Builder::new().name(name(way.protocol()).to_owned()).spawn(work)?);
        }
        Ok(running)
    }

    /// Waits for the end, whatever that is; gives when it was.
    fn wait(&self, count: &Count) -> Result<Moment, CountError> {
        let mut progress = Progress::begin();
        let mut next_line = Instant::now() + progress.pace();
        let (mut silent, mut alive) = (self.threads.len(), self.threads.len());
        let mut deadline = None;
        loop {
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break;
            }
            if now >= next_line {
                if !count.quiet {
                    progress.show(&self.snapshot());
                }
                next_line = now + progress.pace();
            }
            let until = deadline.map_or(next_line, |deadline| next_line.min(deadline));
            match self.events.recv_timeout(until.saturating_duration_since(now)) {
                Ok(Event::Begun(_, Ok(()))) => {
                    silent -= 1;
                    if silent == 0 {
                        deadline = count.duration.map(|duration| Instant::now() + duration);
                    }
                }
                Ok(Event::Begun(protocol, Err(refusal))) => return Err(explain(count, protocol, refusal)),
                Ok(Event::Ended) => alive -= 1,
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            // Nobody is left who could find out more.
            if alive == 0 {
                break;
            }
        }
        let stopped = Moment::now();
        if !count.quiet {
            progress.show(&self.snapshot());
            progress.finish();
        }
        Ok(stopped)
    }

    /// Ends the flows; gives what they have seen.
    fn stop(self) -> Vec<Record> {
        self.stop.store(true, Ordering::Relaxed);
        let records = self.records.clone();
        for thread in self.threads {
            // What a thread that panicked had seen until then is still worth telling.
            let _ = thread.join();
        }
        snapshot(&records)
    }

    fn snapshot(&self) -> Vec<Record> {
        snapshot(&self.records)
    }
}

impl Way {
    fn protocol(self) -> Protocol {
        match self {
            Self::Tcp { .. } => Protocol::Tcp,
            Self::Udp { .. } => Protocol::Udp,
        }
    }
}

fn ways(count: &Count) -> Vec<Way> {
    let tcp = count.tcp.map(|address| Way::Tcp { address, linear_timeouts: count.linear_timeouts });
    let udp = count.udp.map(|address| Way::Udp { address, resend_after: count.resend });
    let once: Vec<Way> = tcp.into_iter().chain(udp).collect();
    (0..count.flows).flat_map(|_| once.iter().copied()).collect()
}

fn snapshot(records: &[Arc<Mutex<Record>>]) -> Vec<Record> {
    records.iter().map(|record| record.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
}

fn listen_for_the_end(count: &Count, sender: &Sender<Event>) {
    let of_signal = sender.clone();
    // Refused only if another handler exists already; then a Ctrl-C ends the process.
    let _ = ctrlc::set_handler(move || drop(of_signal.send(Event::Stop)));
    if count.until_closed {
        let of_input = sender.clone();
        thread::spawn(move || {
            let mut ignored = [0; 256];
            // An error is an end as well: nobody can close it any more.
            while io::stdin().read(&mut ignored).is_ok_and(|count| count > 0) {}
            drop(of_input.send(Event::Stop));
        });
    }
}

fn explain(count: &Count, protocol: Protocol, refusal: Refusal) -> CountError {
    let address = match protocol {
        Protocol::Tcp => count.tcp,
        Protocol::Udp => count.udp,
    };
    // There is no flow over a protocol without an address.
    let address = address.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
    match refusal {
        Refusal::NoAnswer => CountError::NoAnswer { protocol, address, wait: count.wait },
        Refusal::Kernel(reason) => CountError::Kernel { protocol, address, reason },
    }
}

/// The check at the end, if one is wanted.
fn check_memory(count: &Count, records: &[Record]) -> Check {
    let Some(address) = count.tcp.filter(|_| count.check) else { return Check::default() };
    let finding =
        |violation| Some(Finding { protocol: Protocol::Tcp, client: "check".to_owned(), at: Moment::now(), violation });
    match ask::question(address, Operation::Check, CHECK_WAIT) {
        Ok(state) => {
            // What a flow was told already is among its findings.
            let known = records.iter().map(|record| record.mismatches).max().unwrap_or_default();
            let more = state.mismatches.saturating_sub(known);
            let finding = if more > 0 { finding(Violation::MemoryMismatch { more }) } else { None };
            Check { state: Some(state), finding }
        }
        Err(error) => {
            let reason = format!("{:#}", anyhow::Error::new(error));
            Check { state: None, finding: finding(Violation::CheckFailed { reason }) }
        }
    }
}
