//! `blackout`: how long clients of a machine saw nothing, whatever somebody does to it meanwhile.
//!
//! Probes go out on an absolute time line (`pace`), ask a counter or anything that answers (`asking`), over a TCP
//! connection (`stream`), UDP and ICMP echo (`datagrams`), or by connecting (`connecting`). What came when is kept for
//! each way (`line`), and judged at the end (`judging`).

mod asking;
mod bits;
mod connecting;
mod datagrams;
mod judging;
mod line;
mod pace;
mod progress;
mod report;
mod settings;
mod sight;
mod stream;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use nix::errno::Errno;
use stealtime_console::document::{NOT_VALID, OVER_THRESHOLD, conclude, tell};
use stealtime_console::quantities::nanoseconds;

pub use settings::{Blackout, BlackoutError};

use crate::blackout::asking::{CounterAsking, EchoAsking};
use crate::blackout::line::Line;
use crate::blackout::pace::Pace;
use crate::blackout::progress::Progress;
use crate::blackout::report::Report;
use crate::blackout::settings::CONNECT_INTERVALS;
use crate::blackout::sight::{Sight, Watched, Way};
use crate::ending;
use crate::judge::draw_client;
use crate::placing::place;
use crate::silence::Moment;
use crate::stamps::monotonic_ns;

const WRONG_USAGE: u8 = 2;

/// How often the main thread looks.
const LOOKS: Duration = Duration::from_millis(20);

/// What is still on its way after the last probe is waited for this long, and twice as long as answers took.
const LAST_ANSWERS: Duration = Duration::from_millis(50);
const LONGEST_LAST_ANSWERS: Duration = Duration::from_secs(1);

/// A counter's port that answers with something else has this long to say something better.
const STRANGER_PATIENCE: Duration = Duration::from_millis(300);

/// The threads of a run, and what ends them.
struct Running {
    watched: Vec<Watched>,
    threads: Vec<JoinHandle<()>>,
    asks_no_more: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    /// Somebody wants this to end.
    is_stopped: Arc<AtomicBool>,
}

/// `stealtime-agent blackout`
pub fn run(settings: &Blackout) -> Result<ExitCode> {
    settings.check()?;
    let mut running = Running::new(settings);
    let watching = running.start(settings).and_then(|()| running.watch(settings));
    let stopped = Moment::now();
    let sights = running.end(watching.is_ok());
    let started = watching?;
    let report = Report::of(settings, started, stopped, sights);
    let verdict = match (report.is_over(), report.is_valid() && !report.is_unjudged()) {
        (true, _) => ExitCode::from(OVER_THRESHOLD),
        (false, false) => ExitCode::from(NOT_VALID),
        (false, true) => ExitCode::SUCCESS,
    };
    Ok(conclude(verdict, [tell(settings.json, &report, |output| report.write_text(output))]))
}

pub fn exit_code(error: &BlackoutError) -> ExitCode {
    if error.is_usage() { ExitCode::from(WRONG_USAGE) } else { ExitCode::FAILURE }
}

impl Running {
    fn new(settings: &Blackout) -> Self {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let of_ending = Arc::clone(&is_stopped);
        ending::on_request(settings.until_closed, move || of_ending.store(true, Ordering::Relaxed));
        Self {
            watched: Vec::new(),
            threads: Vec::new(),
            asks_no_more: Arc::default(),
            is_over: Arc::default(),
            is_stopped,
        }
    }

    fn start(&mut self, settings: &Blackout) -> Result<()> {
        let interval_ns = nanoseconds(settings.interval)?;
        if let Some(to) = settings.tcp {
            let reconnect = settings.reconnect;
            let asking = Box::new(CounterAsking::new(draw_client()));
            self.spawn(settings, Way::Tcp, to.to_string(), interval_ns, move |pace, watched| {
                stream::watch(to, asking, pace, reconnect, watched);
            })?;
        }
        if let Some(to) = settings.udp {
            let opened = datagrams::open_udp(to).map_err(|error| refused(Way::Udp, &to, &error.to_string()))?;
            let asking = Box::new(CounterAsking::new(draw_client()));
            self.spawn(settings, Way::Udp, to.to_string(), interval_ns, move |pace, watched| {
                datagrams::watch(&opened, asking, pace, watched);
            })?;
        }
        if let Some(to) = settings.ping {
            let (opened, is_raw) = datagrams::open_ping(to).map_err(|error| match error {
                Errno::EACCES | Errno::EPERM => BlackoutError::Permission,
                error => refused(Way::Ping, &to, error.desc()),
            })?;
            let asking = Box::new(EchoAsking::new(draw_client(), to.is_ipv6(), is_raw));
            self.spawn(settings, Way::Ping, to.to_string(), interval_ns, move |pace, watched| {
                datagrams::watch(&opened, asking, pace, watched);
            })?;
        }
        if let Some(to) = settings.connect {
            let interval_ns = interval_ns * u64::from(CONNECT_INTERVALS);
            self.spawn(settings, Way::Connect, to.to_string(), interval_ns, move |pace, watched| {
                connecting::watch(to, pace, watched);
            })?;
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        settings: &Blackout,
        way: Way,
        to: String,
        interval_ns: u64,
        watch: impl FnOnce(Pace, &Watched) + Send + 'static,
    ) -> Result<()> {
        let start_ns = monotonic_ns();
        let line = Line::new(start_ns, interval_ns)?;
        let watched = Watched::new(Sight::new(way, to, line), &self.asks_no_more, &self.is_over);
        self.watched.push(watched.clone());
        let priority = settings.priority;
        let (sender, placed) = std::sync::mpsc::channel();
        let thread = thread::Builder::new().name(way.to_string()).spawn(move || {
            let asked = place(None, priority);
            let may_go_on = asked.is_ok();
            // The main thread waits for it.
            let _ = sender.send(asked);
            if may_go_on {
                watch(Pace::new(start_ns, interval_ns), &watched);
            }
        })?;
        self.threads.push(thread);
        placed.recv()?
    }

    /// Waits for the first answers, and then for the end; gives when all had answered.
    fn watch(&self, settings: &Blackout) -> Result<Moment> {
        self.await_answers(settings)?;
        let started = Moment::now();
        let mut progress = Progress::begin(settings);
        let end = settings.duration.map(|duration| Instant::now() + duration);
        while !self.is_stopped.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
            thread::sleep(end.map_or(LOOKS, |end| LOOKS.min(end.saturating_duration_since(Instant::now()))));
            progress.show(&self.watched);
        }
        progress.finish();
        Ok(started)
    }

    fn await_answers(&self, settings: &Blackout) -> Result<(), BlackoutError> {
        let begun = Instant::now();
        for watched in &self.watched {
            loop {
                let sight = watched.sight();
                if sight.line.has_begun() {
                    break;
                }
                let (way, to, waited) = (sight.way, sight.to.clone(), begun.elapsed());
                if sight.is_stranger && way == Way::Tcp && waited >= STRANGER_PATIENCE {
                    return Err(BlackoutError::NoCounter { way, to });
                }
                if waited >= settings.wait || self.is_stopped.load(Ordering::Relaxed) {
                    let reason = sight.trouble.clone();
                    return Err(BlackoutError::NoAnswer { way, to, wait: settings.wait, reason });
                }
                drop(sight);
                thread::sleep(LOOKS);
            }
        }
        Ok(())
    }

    /// Ends the threads; gives what they have seen.
    fn end(self, has_watched: bool) -> Vec<Sight> {
        self.asks_no_more.store(true, Ordering::Relaxed);
        if has_watched {
            let slowest = |watched: &Watched| watched.sight().line.trips.value_at_quantile(0.99);
            let slowest_ns = self.watched.iter().map(slowest).max().unwrap_or(0);
            let patience = Duration::from_nanos(slowest_ns.saturating_mul(2));
            thread::sleep(patience.clamp(LAST_ANSWERS, LONGEST_LAST_ANSWERS));
        }
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            // What a thread that panicked had seen until then is still worth telling.
            let _ = thread.join();
        }
        self.watched.iter().map(|watched| watched.sight().clone()).collect()
    }
}

fn refused(way: Way, to: &impl ToString, reason: &str) -> BlackoutError {
    BlackoutError::Kernel { way, to: to.to_string(), reason: reason.to_owned() }
}
