//! `count` and `ask`: the clients of the `counter`.
//!
//! `count` is the witness of a failover. It counts over TCP and UDP, believes each acknowledged value, and
//! reports every answer that contradicts an earlier one (`judge`), every silence (`silence`), and whether its
//! one TCP connection lived on. It repairs nothing: a lost connection is a finding, not a reason to connect
//! again.

mod ask;
mod flow;
mod progress;
mod record;
mod report;
mod settings;
mod wire;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use stealtime_console::document::{OVER_THRESHOLD, conclude, tell};
use stealtime_console::quantities::saturating_nanoseconds;

pub use ask::run as run_ask;
pub use settings::{Ask, Count, CountError};

use crate::counter::protocol::Operation;
use crate::counting::flow::Flow;
use crate::counting::progress::Progress;
use crate::counting::record::{Finding, Protocol, Record};
use crate::counting::report::{Check, Report};
use crate::ending;
use crate::judge::{Violation, draw_client};
use crate::silence::Moment;

/// For the check at the end: the memory of a translated guest is verified at some 100 MB/s.
const CHECK_WAIT: Duration = Duration::from_secs(60);

/// Of a round trip; the histogram grows with the longest of them.
const SIGNIFICANT_DIGITS: u8 = 3;

/// What the main thread hears of.
enum Event {
    /// A flow has its first answer, or never will.
    Begun(Result<(), CountError>),
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
    let verdict = if report.is_violated() { ExitCode::from(OVER_THRESHOLD) } else { ExitCode::SUCCESS };
    Ok(conclude(verdict, [tell(count.json, &report, |output| report.write_text(output))]))
}

impl Running {
    fn start(count: &Count) -> anyhow::Result<Self> {
        let (sender, events) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let of_ending = sender.clone();
        // A main thread that has ended already wants to hear nothing.
        ending::on_request(count.until_closed, move || drop(of_ending.send(Event::Stop)));
        let mut running = Self { records: Vec::new(), threads: Vec::new(), events, stop };
        let first_by = Instant::now() + count.wait;
        let threshold_ns = saturating_nanoseconds(count.silence);
        for (protocol, address) in ways(count) {
            let client = draw_client();
            let round_trips = Histogram::new(SIGNIFICANT_DIGITS)?;
            let record = Arc::new(Mutex::new(Record::new(protocol, client, threshold_ns, round_trips)));
            running.records.push(Arc::clone(&record));
            let stop = Arc::clone(&running.stop);
            let flow = Flow { client, protocol, address, count: count.clone(), first_by, stop, record };
            let sender = sender.clone();
            let work = move || {
                flow.run(|begun| drop(sender.send(Event::Begun(begun))));
                drop(sender.send(Event::Ended));
            };
            running.threads.push(thread::Builder::new().name(protocol.to_string()).spawn(work)?);
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
                Ok(Event::Begun(Ok(()))) => {
                    silent -= 1;
                    if silent == 0 {
                        deadline = count.duration.map(|duration| Instant::now() + duration);
                    }
                }
                Ok(Event::Begun(Err(error))) => return Err(error),
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

/// Over what each flow counts, and with whom.
fn ways(count: &Count) -> impl Iterator<Item = (Protocol, SocketAddr)> {
    let once = [(Protocol::Tcp, count.tcp), (Protocol::Udp, count.udp)];
    (0..count.flows).flat_map(move |_| once).filter_map(|(protocol, address)| Some((protocol, address?)))
}

fn snapshot(records: &[Arc<Mutex<Record>>]) -> Vec<Record> {
    records.iter().map(|record| record.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
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
