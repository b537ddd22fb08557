//! A receiver of many streams, of any number of senders.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::delay::Delays;
use crate::figures::{Counts, Spread, StreamFigures, Total};
use crate::packet::{Datagram, Kind, Mark, read};
use crate::silence::Longest;
use crate::strangers::Strangers;
use crate::stream::{Listening, Stream};

/// More streams are counted, but not kept in mind: some 10 kB each.
const MOST_STREAMS: usize = 65_536;

/// More senders are not kept in mind either.
const MOST_SENDERS: usize = 4_096;

/// A stream of a sender, sent back by a reflector or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    sender: u64,
    stream: u32,
    turned: bool,
}

/// What is known of a sender as a whole.
#[derive(Debug, Clone, Copy, Default)]
struct Sender {
    streams: u32,
    closed: u32,
    /// Of all streams together, by any closing report.
    sent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// One of a stream.
    Ours(Mark),
    /// Counted among [`Strangers`].
    Stranger,
}

/// Takes datagrams, gives figures.
#[derive(Debug, Clone)]
pub struct Receiver {
    listening: Listening,
    streams: HashMap<Key, Stream>,
    /// What came back by a reflector is counted apart.
    senders: HashMap<(u64, bool), Sender>,
    /// Who uses which source number.
    sources: HashMap<u32, Key>,
    ssrc_collisions: u64,
    silence: Longest,
    strangers: Strangers,
    packets: u64,
}

impl Receiver {
    /// Has heard nothing yet.
    pub fn new(listening: Listening) -> Self {
        Self {
            listening,
            streams: HashMap::new(),
            senders: HashMap::new(),
            sources: HashMap::new(),
            ssrc_collisions: 0,
            silence: Longest::default(),
            strangers: Strangers::default(),
            packets: 0,
        }
    }

    /// A datagram came, at this time of the receiver's `CLOCK_MONOTONIC`.
    pub fn datagram(&mut self, bytes: &[u8], arrival_ns: u64, source: SocketAddr) -> Heard {
        let datagram = read(bytes);
        self.strangers.count(&datagram);
        let Datagram::Ours(header, mark) = datagram else { return Heard::Stranger };
        let key = Key { sender: mark.sender, stream: mark.stream, turned: mark.turn.is_some() };
        let sender_key = (key.sender, key.turned);
        let is_new = !self.streams.contains_key(&key);
        let is_too_many = self.streams.len() >= MOST_STREAMS
            || (self.senders.len() >= MOST_SENDERS && !self.senders.contains_key(&sender_key));
        if is_new && is_too_many {
            self.strangers.of_too_many_streams += 1;
            return Heard::Stranger;
        }
        self.packets += 1;
        let stream = self.streams.entry(key).or_insert_with(|| Stream::new(&self.listening, header, mark, source));
        if is_new || stream.ssrc() != header.ssrc {
            let other = self.sources.insert(header.ssrc, key);
            self.ssrc_collisions += u64::from(other.is_some_and(|other| other != key));
        }
        stream.came(header, &mark, source);
        let sender = self.senders.entry(sender_key).or_default();
        sender.streams = sender.streams.max(mark.streams);
        match mark.kind {
            Kind::Voice => {
                stream.voice(&self.listening, &mark, arrival_ns);
                self.silence.arrived(arrival_ns);
            }
            Kind::Closing { stream_sent, sender_sent } => {
                sender.closed += u32::from(stream.closing(stream_sent, arrival_ns));
                sender.sent = sender.sent.max(sender_sent);
            }
        }
        Heard::Ours(mark)
    }

    /// Whether every stream that was announced has ended, by its own report.
    pub fn is_complete(&self) -> bool {
        !self.senders.is_empty() && self.senders.values().all(|sender| sender.closed >= sender.streams)
    }

    /// Packets of streams that have come, of any kind, copies too.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// What else has come.
    pub fn strangers(&self) -> Strangers {
        self.strangers
    }

    /// How many streams have been heard.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// All streams by sender and number, and their total, as it is now.
    pub fn figures(&self, now_ns: u64) -> (Vec<StreamFigures>, Total) {
        let mut keys: Vec<&Key> = self.streams.keys().collect();
        keys.sort();
        let streams: Vec<StreamFigures> =
            keys.into_iter().map(|key| self.streams[key].figures(&self.listening, now_ns)).collect();
        let total = self.total(&streams, now_ns);
        (streams, total)
    }

    fn total(&self, streams: &[StreamFigures], now_ns: u64) -> Total {
        let mut bases = self.streams.values().map(Stream::basis);
        let first = bases.next();
        let delay_is = first.filter(|first| bases.all(|other| other == *first));
        let mut delays = Delays::new();
        if delay_is.is_some() {
            self.streams.values().for_each(|stream| delays.merge(&stream.delays));
        }
        let jitter = |of: fn(&crate::Jitters) -> f64| {
            Spread::of(streams.iter().filter_map(|stream| stream.jitter_ns.as_ref().map(of)))
        };
        let longest = streams
            .iter()
            .filter_map(|stream| Some((stream.longest_silence?, stream.stream)))
            .max_by_key(|(silence, _)| silence.length_ns);
        Total {
            streams_announced: self.senders.values().map(|sender| u64::from(sender.streams)).sum(),
            streams_heard: streams.len() as u64,
            streams_closed: self.senders.values().map(|sender| u64::from(sender.closed)).sum(),
            counts: Counts::sum(self.sent(), streams.iter().map(|stream| &stream.counts)),
            delay_is,
            delay_ns: delays.quartiles(),
            delay_buckets_ns: delays.buckets(),
            jitter_last_ns: jitter(|jitters| jitters.last),
            jitter_max_ns: jitter(|jitters| jitters.max),
            path_jitter_max_ns: jitter(|jitters| jitters.path_max),
            longest_silence: longest.map(|(silence, _)| silence),
            longest_silence_stream: longest.map(|(_, stream)| stream),
            longest_silence_of_all: if self.is_complete() { self.silence.ended() } else { self.silence.until(now_ns) },
            mos: Spread::of(streams.iter().map(|stream| stream.quality.mos)),
            ssrc_collisions: self.ssrc_collisions,
        }
    }

    /// A closing report also tells of streams that were never heard.
    fn sent(&self) -> u64 {
        let mut of_streams: HashMap<(u64, bool), u64> = HashMap::new();
        for (key, stream) in &self.streams {
            let sum = of_streams.entry((key.sender, key.turned)).or_default();
            *sum = sum.saturating_add(stream.sent());
        }
        let of_sender =
            |(key, sum): (&(u64, bool), &u64)| self.senders.get(key).map_or(*sum, |sender| sender.sent.max(*sum));
        of_streams.iter().map(of_sender).fold(0, u64::saturating_add)
    }
}
