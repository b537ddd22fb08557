//! `net`: how long messages to a peer and their answers take, one by one.
//!
//! Messages of one size go to `stealtime-agent echo`, over UDP or over one TCP connection, through whatever card leads
//! to its address. In a closed loop each answer is followed by another message, in an open loop one is due each
//! interval.
//!
//! * Due: in an open loop the start plus a whole number of intervals; in a closed loop when it was handed over.
//! * Handed over: the reading of the time-stamp counter just before `send(2)`.
//! * Ended: the reading just after the `recv(2)` that has the answer.
//! * A sample is the time from due to ended: no coordinated omission. Column `wait` has how much of it was before it
//!   was handed over.
//! * The peer notes when it has received a message and just before it sends the answer, by its own counter. Column
//!   `outward` is its first reading less ours of handing over, less a constant (`outward_base_units`); the clocks'
//!   offset is what the exchange of clocks allows, so that a direction's delay has a bound. `residence` is between its
//!   two readings. The way back is what is left.
//! * A message that is not answered within its patience is lost. It stays a row, with what it was waited for, which is
//!   less than the truth, and `answered` 0; `lost_messages` counts them. What comes after that is counted
//!   (`late_answers`), and so is what comes twice (`duplicates`).
//! * Floor: the shortest sample.
//! * Limits: one thread sends and receives, on one CPU. TCP repeats what is lost on the way, which shows as a long
//!   sample.

mod line;
pub mod message;
mod pending;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use stealtime_wire::{Finding, FindingLevel, Layout, Net, NetTransport, TrialRequest};

use self::line::Line;
use self::message::{HEAD_BYTES, MOST_BYTES, set_number};
use self::pending::{Met, Pending, Sent};
use crate::clock::{SampleClock, realtime_ns, time_stamp_counter};
use crate::disk::not_started;
use crate::error::TrialError;
use crate::needs::Needs;
use crate::probe::{Measured, Probe};
use crate::recorder::Recorder;
use crate::requests::{Ledger, OpenLoop, Turn};
use crate::stage::Stage;
use crate::sys;

const MOST_DEPTH: u32 = 1 << 16;
/// No timer keeps a shorter one.
const SHORTEST_INTERVAL_NS: u64 = 1_000;
/// Long before a sum of times overflows.
const LONGEST_PATIENCE_NS: u64 = 3_600_000_000_000;

/// Before the first sample so many messages go, one after the other ...
const WARM_UP_MESSAGES: u64 = 50;
/// ... each for so long at most.
const WARM_UP_NS: u64 = 1_000_000_000;

/// No two ends of messages are nearer to each other: a system call each takes as long.
const SHORTEST_TURN_CYCLES: u64 = 1_000;

/// Nobody waits longer before looking whether the trial was stopped.
const LONGEST_WAIT_NS: u64 = 100_000_000;

/// Of `outward`: what is earlier than the earliest of the warm-up by up to this is still no negative number.
const BASE_MARGIN: u64 = 1 << 30;

impl Probe for Net {
    fn layout(&self) -> Option<Layout> {
        Some(Layout::Echoes)
    }

    fn clock(&self) -> SampleClock {
        SampleClock::Tsc
    }

    fn validate(&self, duration_ns: u64) -> Result<(), TrialError> {
        let in_range = TrialError::unless_in_range;
        in_range("message_bytes", self.message_bytes.into(), HEAD_BYTES as u64, MOST_BYTES as u64)?;
        in_range("depth", self.depth.into(), 1, MOST_DEPTH.into())?;
        in_range("patience_ns", self.patience_ns, 1, LONGEST_PATIENCE_NS)?;
        if let Some(interval_ns) = self.interval_ns {
            in_range("interval_ns", interval_ns, SHORTEST_INTERVAL_NS, duration_ns)?;
        }
        Ok(())
    }

    fn needs(&self, _request: &TrialRequest) -> Needs {
        // What is under way, as it is remembered.
        let bytes = u64::from(self.depth) * size_of::<Option<Sent>>() as u64;
        Needs::default().and(bytes, || format!("{} messages under way", self.depth))
    }

    fn measure(&self, stage: &Stage) -> Result<Measured, TrialError> {
        let refused = |error: io::Error| refused(self, &error);
        let peer = address_of(&self.peer).map_err(|error| TrialError::Target {
            target: self.peer.clone(),
            trouble: format!("is no address of a peer: {error}"),
            hint: Some("write ADDRESS:PORT, for example 192.0.2.1:7007 or [2001:db8::1]:7007".to_owned()),
        })?;
        sys::have_exact_timers();
        let line = Line::connect(peer, self.transport).map_err(refused)?;
        let mut talk = Talk::new(self, line);
        let seen = talk.warm_up(stage).map_err(refused)?;
        let most = match self.interval_ns {
            Some(interval_ns) => stage.trial.request.duration_ns.div_ceil(interval_ns) + 1,
            None => stage.most_turns((seen.shortest / u64::from(self.depth)).max(SHORTEST_TURN_CYCLES)),
        };
        let begun = stage.begin(most, None)?;
        let counts = talk.measure(stage, &begun.recorder, seen.base).map_err(refused)?;
        let late_ns = stage.trial.rate.to_ns(counts.longest_not_started);
        let mut measured = Measured::new(begun).with_counters([
            ("sent_messages", counts.sent),
            ("lost_messages", counts.lost),
            ("late_answers", counts.late_answers),
            ("duplicates", counts.duplicates),
            ("not_started", counts.not_started),
            ("unwatched", counts.unwatched),
            ("unfinished", counts.unfinished),
            ("outward_base_units", seen.base),
        ]);
        measured.findings.extend(lost(self, &counts));
        measured.findings.extend(not_started(counts.not_started, late_ns, "messages"));
        Ok(measured)
    }
}

fn address_of(text: &str) -> io::Result<SocketAddr> {
    text.to_socket_addrs()?.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

fn refused(net: &Net, error: &io::Error) -> TrialError {
    let listen = format!("start `stealtime-agent echo --listen {}` there, and look at firewalls between", net.peer);
    let (trouble, hint) = match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused => ("does not answer".to_owned(), listen),
        io::ErrorKind::InvalidData => {
            ("is no `stealtime-agent echo`: it answers with something else".to_owned(), listen)
        }
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            ("has ended the connection".to_owned(), "see what became of `stealtime-agent echo` there".to_owned())
        }
        _ if error.raw_os_error() == Some(libc::EMSGSIZE) => (
            format!("cannot be sent {} bytes at once", net.message_bytes),
            "send less (--size), or over TCP".to_owned(),
        ),
        _ => (
            format!("cannot be reached: {error}"),
            "look at the addresses and routes of this machine (ip route)".to_owned(),
        ),
    };
    TrialError::Target { target: net.peer.clone(), trouble, hint: Some(hint) }
}

fn lost(net: &Net, counts: &Counts) -> Option<Finding> {
    (counts.lost > 0).then(|| Finding {
        code: "messages_lost".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "{} of {} messages were not answered within {:.3} s: their samples are less than the truth",
            counts.lost,
            counts.sent,
            net.patience_ns as f64 * 1e-9
        ),
        hint: match net.transport {
            NetTransport::Udp => Some("see what drops datagrams on the way: ip -s link, nstat".to_owned()),
            NetTransport::Tcp => Some("see what the peer does, or be more patient".to_owned()),
        },
    })
}

/// What was counted besides the samples.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    sent: u64,
    lost: u64,
    late_answers: u64,
    duplicates: u64,
    not_started: u64,
    longest_not_started: u64,
    unwatched: u64,
    /// Those that were not answered when the trial was stopped.
    unfinished: u64,
}

/// What the warm-up has seen.
struct Seen {
    /// The shortest round trip, in cycles.
    shortest: u64,
    /// To be taken from a peer's reading less ours, in wrapping arithmetic.
    base: u64,
}

struct Talk<'a> {
    net: &'a Net,
    line: Line,
    message: Vec<u8>,
    asker: u64,
    pending: Pending,
}

impl<'a> Talk<'a> {
    fn new(net: &'a Net, line: Line) -> Self {
        // Answers to somebody before on the same port are not ours.
        let asker = realtime_ns() ^ u64::from(std::process::id()) << 40;
        let message = message::message(net.message_bytes as usize, asker);
        Self { net, line, message, asker, pending: Pending::with_room(net.depth as usize) }
    }

    /// Gives false if there was no room for the message.
    #[inline(always)]
    fn send(&mut self, due: Option<u64>) -> io::Result<bool> {
        set_number(&mut self.message, self.pending.next_number());
        let submitted = time_stamp_counter();
        let is_sent = self.line.send(&self.message)?;
        if is_sent {
            self.pending.push(Sent { due: due.unwrap_or(submitted), submitted });
        }
        Ok(is_sent)
    }

    /// # Errors
    /// Nobody answers, or something else does.
    fn warm_up(&mut self, stage: &Stage) -> io::Result<Seen> {
        let (mut shortest, mut least) = (u64::MAX, i64::MAX);
        let patience = stage.trial.rate.to_cycles(WARM_UP_NS);
        let mut silent = 0;
        for _ in 0..WARM_UP_MESSAGES {
            while !self.send(None)? {
                self.line.wait(true, LONGEST_WAIT_NS)?;
            }
            while let Some(oldest) = self.pending.oldest() {
                let now = time_stamp_counter();
                if self.pending.give_up(now.saturating_sub(patience)).is_some() {
                    silent += 1;
                    break;
                }
                self.line.wait(false, LONGEST_WAIT_NS)?;
                while let Some(answer) = self.line.receive()? {
                    let ended = time_stamp_counter();
                    if answer.asker == self.asker && matches!(self.pending.answer(answer.number), Met::Awaited(_)) {
                        shortest = shortest.min(ended.saturating_sub(oldest.submitted));
                        least = least.min(answer.received.wrapping_sub(oldest.submitted).cast_signed());
                    }
                }
            }
            if silent >= 3 || stage.trial.running.is_cancelled() {
                break;
            }
        }
        if shortest == u64::MAX {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Seen { shortest, base: least.cast_unsigned().wrapping_sub(BASE_MARGIN) })
    }

    /// Sends until the recorder has no more room or its deadline has passed.
    ///
    /// # Errors
    /// The connection is gone.
    fn measure(&mut self, stage: &Stage, recorder: &Recorder, base: u64) -> io::Result<Counts> {
        let (net, rate) = (self.net, stage.trial.rate);
        let duration_ns = stage.trial.request.duration_ns;
        let open = net.interval_ns.map(|interval_ns| OpenLoop::of(interval_ns, duration_ns, rate));
        let patience = rate.to_cycles(net.patience_ns);
        let depth = net.depth as usize;
        let mut counts = Counts::default();
        let mut ledger = Ledger::begin(recorder, open, stage.trial.duration_cycles());
        let mut last_issue = recorder.origin();
        // One that is due and for which the kernel had no room.
        let mut held: Option<u64> = None;
        loop {
            let now = time_stamp_counter();
            while let Some(sent) = self.pending.give_up(now.saturating_sub(patience)) {
                counts.lost += 1;
                ledger.write((sent.due, sent.submitted, now), &mut [0, 0, 0, 0], self.pending.count());
            }
            let turn = ledger.turn(now, self.pending.count());
            if turn == Turn::Over {
                break;
            }
            if turn == Turn::Issue {
                last_issue = now;
            } else if recorder.is_stopped() && now.saturating_sub(last_issue) > rate.to_cycles(WARM_UP_NS) {
                // Whoever has stopped the trial does not wait for an answer that may never come.
                counts.unfinished = self.pending.count() as u64;
                break;
            }
            let mut wait_ns = LONGEST_WAIT_NS;
            if turn == Turn::Issue {
                while self.pending.count() < depth {
                    let Some(due) = held.take().or_else(|| ledger.pace.take(now)) else { break };
                    if !self.send(open.map(|_| due))? {
                        held = Some(due);
                        break;
                    }
                    counts.sent += 1;
                }
                if held.is_none()
                    && self.pending.count() < depth
                    && let Some(cycles) = ledger.pace.until_next(now)
                {
                    wait_ns = wait_ns.min(rate.whole_ns(cycles));
                }
            }
            if let Some(oldest) = self.pending.oldest() {
                wait_ns = wait_ns.min(rate.whole_ns((oldest.submitted + patience).saturating_sub(now)) + 1);
            }
            self.line.wait(held.is_some(), wait_ns)?;
            while let Some(answer) = self.line.receive()? {
                let ended = time_stamp_counter();
                if answer.asker != self.asker {
                    continue;
                }
                match self.pending.answer(answer.number) {
                    Met::Awaited(Sent { due, submitted }) => {
                        let outward = answer.received.wrapping_sub(submitted).wrapping_sub(base);
                        let residence = answer.answered.saturating_sub(answer.received);
                        let further = &mut [0, outward, residence, 1];
                        ledger.write((due, submitted, ended), further, self.pending.count());
                    }
                    Met::Again => counts.duplicates += 1,
                    Met::Late => counts.late_answers += 1,
                }
                if self.pending.count() == 0 {
                    break;
                }
            }
        }
        (counts.not_started, counts.longest_not_started) = ledger.left();
        counts.unwatched = ledger.unwatched;
        Ok(counts)
    }
}

#[cfg(test)]
mod tests;
