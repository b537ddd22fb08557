//! Sends all streams on their schedule, then tells how much that was.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsFd;

use hdrhistogram::Histogram;
use nix::sys::socket::SockaddrStorage;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use stealtime_media::{Header, Kind, Mark, Numbers, PACKET_BYTES, PACKET_NS, PACKET_SAMPLES, Schedule, write};

use crate::rtp::sockets::{Outgoing, OutgoingSockets};
use crate::stamps::monotonic_ns;
use crate::sys::send_each;

/// Packets that are stamped together on one socket: sending them takes some 30 us.
const MOST_TOGETHER: usize = 16;

/// How long a sleeping sender does not look whether it should stop.
const PATIENCE_NS: u64 = PACKET_NS;

/// Closing reports of each stream: one gets through unless the path is silent for longer than all of them take.
const CLOSINGS: u64 = 11;

/// From one closing report to the next, in packets: 100 ms, so that all of them take a second.
const CLOSING_STEP: u64 = 5;

/// A packet that is to be sent.
#[derive(Debug, Clone, Copy)]
struct Planned {
    stream: u32,
    index: u64,
    due_ns: u64,
    kind: Kind,
}

/// What all packets of a sender have in common.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    /// Drawn at random.
    pub number: u64,
    pub clock: u64,
    pub grain_ns: u64,
}

/// A sender and what has become of its packets.
pub struct Sending {
    outgoing: Outgoing,
    numbers: Vec<Numbers>,
    schedule: Schedule,
    origin: Origin,
    /// By stream: packets of voice, those that the kernel refused too.
    sent: Vec<u64>,
    pub refused: u64,
    pub first_refusal: Option<io::Error>,
    /// How much later than due each packet of voice was handed to the kernel.
    pub lateness: Histogram<u64>,
    /// Later than the next one of the same stream was due.
    pub a_packet_late: u64,
    woke_ns: u64,
}

impl Sending {
    /// Ready to begin at this moment.
    pub fn new(outgoing: Outgoing, numbers: Vec<Numbers>, origin: Origin, start_ns: u64) -> anyhow::Result<Self> {
        let streams = outgoing.destinations.len();
        Ok(Self {
            outgoing,
            numbers,
            schedule: Schedule::new(start_ns, u32::try_from(streams)?),
            origin,
            sent: vec![0; streams],
            refused: 0,
            first_refusal: None,
            lateness: Histogram::new(3)?,
            a_packet_late: 0,
            woke_ns: 0,
        })
    }

    /// Sends so many packets of each stream, then closing reports. `stop` ends the voice, `halt` everything.
    pub fn run(&mut self, packets: u64, stop: &dyn Fn() -> bool, halt: &dyn Fn() -> bool, mut show: impl FnMut(&Self)) {
        let schedule = self.schedule;
        let voice = (0..schedule.slots(packets)).map(|number| {
            let slot = schedule.slot(number);
            Planned { stream: slot.stream, index: slot.index, due_ns: slot.due_ns, kind: Kind::Voice }
        });
        self.pace(voice, stop, &mut show);
        let (sent, sender_sent) = (self.sent.clone(), self.sent());
        let first = sent.iter().copied().max().unwrap_or(0);
        let closings = (0..CLOSINGS).flat_map(|number| {
            let slots = (0_u64..).zip(&sent).map(move |(stream, &stream_sent)| {
                let slot = schedule.slot(schedule.slots(first + number * CLOSING_STEP) + stream);
                let kind = Kind::Closing { stream_sent, sender_sent };
                Planned { stream: slot.stream, index: stream_sent + number, due_ns: slot.due_ns, kind }
            });
            slots.collect::<Vec<_>>()
        });
        self.pace(closings, halt, &mut show);
    }

    /// Packets of voice of all streams.
    pub fn sent(&self) -> u64 {
        self.sent.iter().sum()
    }

    pub fn streams(&self) -> usize {
        self.sent.len()
    }

    fn pace(&mut self, planned: impl Iterator<Item = Planned>, stop: &dyn Fn() -> bool, show: &mut impl FnMut(&Self)) {
        let mut planned = planned.peekable();
        let mut batch = Vec::with_capacity(MOST_TOGETHER);
        while let Some(&Planned { due_ns, .. }) = planned.peek() {
            if stop() {
                return;
            }
            let now_ns = monotonic_ns();
            if due_ns > now_ns {
                show(self);
                // Each time is absolute: what one sleep is too long does not add to the next.
                let until_ns = due_ns.max(self.woke_ns + self.origin.grain_ns);
                sleep_until(until_ns.min(now_ns + PATIENCE_NS));
                self.woke_ns = monotonic_ns();
                continue;
            }
            batch.clear();
            while let Some(one) = planned.next_if(|one| one.due_ns <= now_ns && batch.len() < MOST_TOGETHER) {
                batch.push(one);
            }
            self.send(&batch);
        }
    }

    fn send(&mut self, batch: &[Planned]) {
        let Outgoing { sockets, destinations } = &self.outgoing;
        let handed = match sockets {
            OutgoingSockets::Shared(socket) => self.hand_over_together(batch, socket),
            OutgoingSockets::Own(sockets) => {
                self.hand_over_each(batch, |stream, packet| send_connected(&sockets[stream], packet))
            }
            OutgoingSockets::Open(sockets) => self.hand_over_each(batch, |stream, packet| {
                sockets[stream].send_to(packet, destinations[stream]).map(drop)
            }),
        };
        for (one, (sent_ns, result)) in batch.iter().zip(handed) {
            self.note(one, sent_ns);
            result.unwrap_or_else(|error| self.refuse(error));
        }
    }

    /// Gives when each packet was handed to the kernel, and whether it took it.
    fn hand_over_together(&self, batch: &[Planned], socket: &UdpSocket) -> Vec<(u64, io::Result<()>)> {
        let sent_ns = monotonic_ns();
        let packets: Vec<[u8; PACKET_BYTES]> = batch.iter().map(|one| self.packet(one, sent_ns)).collect();
        let address = |one: &Planned| SockaddrStorage::from(self.outgoing.destinations[one.stream as usize]);
        let addresses: Vec<SockaddrStorage> = batch.iter().map(address).collect();
        let mut handed = Vec::with_capacity(batch.len());
        while handed.len() < packets.len() {
            let done = handed.len();
            match send_each(socket.as_fd(), &packets[done..], &addresses[done..]) {
                Ok(count) => handed.extend((0..count.max(1)).map(|_| (sent_ns, Ok(())))),
                // It is that of the first; the others are still to be tried.
                Err(error) => handed.push((sent_ns, Err(error))),
            }
        }
        handed
    }

    /// The same where each stream has a socket of its own.
    fn hand_over_each(
        &self,
        batch: &[Planned],
        send: impl Fn(usize, &[u8; PACKET_BYTES]) -> io::Result<()>,
    ) -> Vec<(u64, io::Result<()>)> {
        let hand_over = |one: &Planned| {
            let sent_ns = monotonic_ns();
            (sent_ns, send(one.stream as usize, &self.packet(one, sent_ns)))
        };
        batch.iter().map(hand_over).collect()
    }

    fn packet(&self, planned: &Planned, sent_ns: u64) -> [u8; PACKET_BYTES] {
        let numbers = &self.numbers[planned.stream as usize];
        // Both numbers of RTP begin anew when they have no room any more.
        let [.., a, b, c, d] = planned.index.to_be_bytes();
        let header = Header {
            ssrc: numbers.ssrc,
            sequence: numbers.sequence.wrapping_add(u16::from_be_bytes([c, d])),
            timestamp: numbers.timestamp.wrapping_add(u32::from_be_bytes([a, b, c, d]).wrapping_mul(PACKET_SAMPLES)),
            marker: planned.index == 0,
        };
        let mark = Mark {
            kind: planned.kind,
            sender: self.origin.number,
            stream: planned.stream,
            streams: u32::try_from(self.sent.len()).unwrap_or(u32::MAX),
            clock: self.origin.clock,
            index: planned.index,
            due_ns: planned.due_ns,
            sent_ns,
            turn: None,
        };
        write(&header, &mark)
    }

    fn note(&mut self, planned: &Planned, sent_ns: u64) {
        if planned.kind != Kind::Voice {
            return;
        }
        self.sent[planned.stream as usize] = planned.index + 1;
        let late_ns = sent_ns.saturating_sub(planned.due_ns);
        // It grows with the latest.
        let _ = self.lateness.record(late_ns);
        self.a_packet_late += u64::from(late_ns > PACKET_NS);
    }

    fn refuse(&mut self, error: io::Error) {
        self.refused += 1;
        self.first_refusal.get_or_insert(error);
    }
}

/// Sends over a connected socket. Its first error may be that of an earlier packet, to which somebody answered that
/// nobody is there.
fn send_connected(socket: &UdpSocket, packet: &[u8; PACKET_BYTES]) -> io::Result<()> {
    match socket.send(packet) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => socket.send(packet).map(drop),
        result => result.map(drop),
    }
}

fn sleep_until(deadline_ns: u64) {
    let parts = (i64::try_from(deadline_ns / 1_000_000_000), i64::try_from(deadline_ns % 1_000_000_000));
    let (Ok(seconds), Ok(nanoseconds)) = parts else { return };
    let deadline = TimeSpec::new(seconds, nanoseconds);
    // A signal ends it early; then the caller sleeps again.
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &deadline);
}
