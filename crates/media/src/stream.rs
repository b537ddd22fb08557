//! What a receiver knows of one stream.

use std::net::SocketAddr;

use crate::delay::{Basis, Delays};
use crate::emodel::{Conversation, mos, rating};
use crate::figures::{Counts, Jitters, LossBursts, Quality, StreamFigures};
use crate::g711::PACKET_NS;
use crate::jitter::Jitter;
use crate::packet::{Header, Mark};
use crate::silence::Longest;
use crate::window::{Place, Window};

/// How a receiver listens and judges.
#[derive(Debug, Clone, Copy)]
pub struct Listening {
    /// The same number wherever `CLOCK_MONOTONIC` is the same clock.
    pub clock: u64,
    /// How long after the fastest packet, counted from when each was due, one can still be played.
    pub buffer_ns: u64,
    /// Bpl of ITU-T G.113 appendix I.
    pub loss_robustness: f64,
}

/// A stream, or the same one sent back by a reflector, which is another path.
#[derive(Debug, Clone)]
pub struct Stream {
    basis: Basis,
    mark: Mark,
    header: Header,
    /// By how much the sequence number is above the number of the packet, modulo 2^16.
    offset: u16,
    source: SocketAddr,
    window: Window,
    received: u64,
    duplicated: u64,
    reordered: u64,
    late: u64,
    too_old: u64,
    pub delays: Delays,
    jitter: Jitter,
    path_jitter: Jitter,
    silence: Longest,
    /// The smallest arrival minus due time so far.
    fastest_ns: Option<i64>,
    closing_sent: Option<u64>,
    source_changes: u64,
    ssrc_changes: u64,
    renumbered: u64,
}

impl Stream {
    /// Begins with its first packet, which is still to be counted.
    pub fn new(listening: &Listening, header: Header, mark: Mark, source: SocketAddr) -> Self {
        let basis = match (mark.clock == listening.clock, mark.turn) {
            (true, None) => Basis::OneWay,
            (true, Some(_)) => Basis::RoundTrip,
            (false, _) => Basis::Variation,
        };
        Self {
            basis,
            mark,
            header,
            offset: offset(&header, &mark),
            source,
            window: Window::new(),
            received: 0,
            duplicated: 0,
            reordered: 0,
            late: 0,
            too_old: 0,
            delays: Delays::new(),
            jitter: Jitter::default(),
            path_jitter: Jitter::default(),
            silence: Longest::default(),
            fastest_ns: None,
            closing_sent: None,
            source_changes: 0,
            ssrc_changes: 0,
            renumbered: 0,
        }
    }

    pub fn basis(&self) -> Basis {
        self.basis
    }

    pub fn ssrc(&self) -> u32 {
        self.header.ssrc
    }

    pub fn is_closed(&self) -> bool {
        self.closing_sent.is_some()
    }

    /// One of its packets came, of whatever kind: notes what others have changed on the way.
    pub fn came(&mut self, header: Header, mark: &Mark, source: SocketAddr) {
        self.source_changes += u64::from(source != self.source);
        self.ssrc_changes += u64::from(header.ssrc != self.header.ssrc);
        let offset = offset(&header, mark);
        self.renumbered += u64::from(offset != self.offset);
        (self.source, self.header, self.offset) = (source, header, offset);
    }

    /// A packet of voice came.
    pub fn voice(&mut self, listening: &Listening, mark: &Mark, arrival_ns: u64) {
        match self.window.place(mark.index) {
            Place::Duplicate => self.duplicated += 1,
            Place::TooOld => self.too_old += 1,
            Place::New { reordered } => {
                self.received += 1;
                self.reordered += u64::from(reordered);
                self.timed(listening, mark, arrival_ns);
            }
        }
    }

    /// A closing report came: for the first time if true.
    pub fn closing(&mut self, stream_sent: u64, arrival_ns: u64) -> bool {
        let is_first = self.closing_sent.is_none();
        if is_first {
            self.silence.arrived(arrival_ns);
        }
        self.closing_sent = Some(stream_sent.max(self.closing_sent.unwrap_or(0)));
        is_first
    }

    /// At least so many were sent.
    pub fn sent(&self) -> u64 {
        self.closing_sent.unwrap_or(0).max(self.window.next())
    }

    /// What has come of it until now.
    pub fn figures(&self, listening: &Listening, now_ns: u64) -> StreamFigures {
        let unplayed = self.window.runs(self.sent());
        let closed = self.is_closed();
        let counts = Counts {
            duplicated: self.duplicated,
            reordered: self.reordered,
            late: self.late,
            too_old: self.too_old,
            ..Counts::new(self.sent(), self.received)
        };
        let bursts = LossBursts { burst_ratio: unplayed.burst_ratio(), longest_packets: unplayed.longest() };
        let jitters = |((last, max), (path_last, path_max))| Jitters { last, max, path_last, path_max };
        StreamFigures {
            stream: self.mark.stream,
            sender: format!("{:016x}", self.mark.sender),
            ssrc: format!("{:08x}", self.header.ssrc),
            source: self.source.to_string(),
            closed,
            counts,
            unplayed: bursts,
            delay_is: self.basis,
            delay_ns: self.delays.quartiles(),
            jitter_ns: self.jitter.figures().zip(self.path_jitter.figures()).map(jitters),
            longest_silence: if closed { self.silence.ended() } else { self.silence.until(now_ns) },
            quality: self.quality(listening, unplayed.lost_percent(), bursts.burst_ratio),
            source_changes: self.source_changes,
            ssrc_changes: self.ssrc_changes,
            renumbered: self.renumbered,
            impossible_delays: self.delays.impossible,
        }
    }

    /// A packet came for the first time.
    fn timed(&mut self, listening: &Listening, mark: &Mark, arrival_ns: u64) {
        // The clocks may be two, so that differences may be negative, and of any size.
        let since = |stamp_ns: u64| arrival_ns.wrapping_sub(stamp_ns).cast_signed();
        let (since_due_ns, since_sent_ns) = (since(mark.due_ns), since(mark.sent_ns));
        let turned_ns = mark.turn.map_or(0, |turn| turn.sent_ns.wrapping_sub(turn.received_ns).cast_signed());
        self.delays.add(self.basis, since_sent_ns.wrapping_sub(turned_ns));
        self.jitter.arrived(since_due_ns);
        self.path_jitter.arrived(since_sent_ns);
        self.silence.arrived(arrival_ns);
        let fastest_ns = self.fastest_ns.map_or(since_due_ns, |fastest_ns| fastest_ns.min(since_due_ns));
        self.fastest_ns = Some(fastest_ns);
        if since_due_ns.abs_diff(fastest_ns) > listening.buffer_ns {
            self.late += 1;
        } else {
            self.window.in_time(mark.index);
        }
    }

    fn quality(&self, listening: &Listening, loss_percent: f64, burst_ratio: Option<f64>) -> Quality {
        let path_ns = match self.basis {
            Basis::OneWay => self.fastest_ns.map(|ns| ns.max(0).unsigned_abs()),
            // Half of it, as if both ways were alike.
            Basis::RoundTrip => self.delays.quartiles().map(|delays| delays.min / 2),
            Basis::Variation => None,
        };
        let mouth_to_ear_ms = (path_ns.unwrap_or(0) as f64 + listening.buffer_ns as f64 + PACKET_NS as f64) * 1e-6;
        let r_factor = rating(&Conversation {
            one_way_ms: mouth_to_ear_ms,
            loss_percent,
            burst_ratio: burst_ratio.unwrap_or(1.0),
            loss_robustness: listening.loss_robustness,
            ..Conversation::undisturbed()
        });
        Quality { mouth_to_ear_ms, path_delay_known: path_ns.is_some(), r_factor, mos: mos(r_factor) }
    }
}

/// The sequence number has 16 bits and begins anywhere.
fn offset(header: &Header, mark: &Mark) -> u16 {
    let [.., high, low] = mark.index.to_be_bytes();
    header.sequence.wrapping_sub(u16::from_be_bytes([high, low]))
}
