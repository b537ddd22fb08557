//! What is told of the streams, with units in the names.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::delay::{Basis, Quartiles};
use crate::silence::Silence;

/// How many packets there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts {
    /// By the closing report; without one, at least so many: the highest that came, and all before it.
    pub sent: u64,
    /// Different ones, whenever they came.
    pub received: u64,
    pub lost: u64,
    pub lost_percent: f64,
    /// Copies of one that had come.
    pub duplicated: u64,
    /// Came after one that was sent later (RFC 4737 section 3.3); a duplicate is none of them.
    pub reordered: u64,
    /// Received, but too late to be played.
    pub late: u64,
    /// Came so late that it cannot be told whether they were duplicates; they count as lost.
    pub too_old: u64,
}

/// How what could not be played, lost or late, came together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LossBursts {
    /// 1 where losses are independent of each other (ITU-T G.107); None without loss, or without anything else.
    pub burst_ratio: Option<f64>,
    pub longest_packets: u64,
}

/// Interarrival jitter (RFC 3550 section 6.4.1), in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Jitters {
    /// At the end, from the RTP timestamps, as a receiver's report would have it.
    pub last: f64,
    /// The most that it has been.
    pub max: f64,
    /// The same from the times when the packets were really sent: without the sender's own delays.
    pub path_last: f64,
    pub path_max: f64,
}

/// The estimate of the E-model (ITU-T G.107).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quality {
    /// The fastest packet's delay, the play-out buffer and 20 ms of packetization: what each packet that is played
    /// has taken.
    pub mouth_to_ear_ms: f64,
    /// Whether the delay of the path is in that; between two clocks it is not known.
    pub path_delay_known: bool,
    pub r_factor: f64,
    pub mos: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamFigures {
    pub stream: u32,
    /// In hexadecimal.
    pub sender: String,
    /// In hexadecimal, as it came last.
    pub ssrc: String,
    /// Where it came from last.
    pub source: String,
    /// Whether a closing report came: without it loss at the end is not seen.
    pub closed: bool,
    #[serde(flatten)]
    pub counts: Counts,
    pub unplayed: LossBursts,
    pub delay_is: Basis,
    pub delay_ns: Option<Quartiles>,
    pub jitter_ns: Option<Jitters>,
    pub longest_silence: Option<Silence>,
    pub quality: Quality,
    /// The relay, or somebody else, gave the stream another source address, number of source, or sequence.
    pub source_changes: u64,
    pub ssrc_changes: u64,
    pub renumbered: u64,
    /// Came before they were sent, if the stamps are true.
    pub impossible_delays: u64,
}

/// Of one figure of many streams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Total {
    /// As many as the senders say that they have.
    pub streams_announced: u64,
    /// At least one packet came.
    pub streams_heard: u64,
    pub streams_closed: u64,
    #[serde(flatten)]
    pub counts: Counts,
    /// None if the streams differ in it.
    pub delay_is: Option<Basis>,
    pub delay_ns: Option<Quartiles>,
    /// The delays themselves, to 1 %: the most that a packet of a bucket took, and how many there are.
    pub delay_buckets_ns: BTreeMap<u64, u64>,
    /// Over the streams: the jitter of each at its end, and the most of each.
    pub jitter_last_ns: Option<Spread>,
    pub jitter_max_ns: Option<Spread>,
    pub path_jitter_max_ns: Option<Spread>,
    pub longest_silence: Option<Silence>,
    pub longest_silence_stream: Option<u32>,
    /// The longest time in which no packet of any stream came.
    pub longest_silence_of_all: Option<Silence>,
    pub mos: Option<Spread>,
    /// Streams that used the source number (SSRC) of another one at the same time (RFC 3550 section 8.2).
    pub ssrc_collisions: u64,
}

impl Counts {
    /// From what can be counted; the rest follows.
    pub fn new(sent: u64, received: u64) -> Self {
        let lost = sent.saturating_sub(received);
        let lost_percent = if sent == 0 { 0.0 } else { 100.0 * lost as f64 / sent as f64 };
        Self { sent, received, lost, lost_percent, ..Self::default() }
    }

    pub(crate) fn sum<'a>(sent: u64, of: impl Iterator<Item = &'a Self>) -> Self {
        let (mut received, mut sum) = (0_u64, Self::default());
        for one in of {
            received = received.saturating_add(one.received);
            sum.duplicated = sum.duplicated.saturating_add(one.duplicated);
            sum.reordered = sum.reordered.saturating_add(one.reordered);
            sum.late = sum.late.saturating_add(one.late);
            sum.too_old = sum.too_old.saturating_add(one.too_old);
        }
        let Self { duplicated, reordered, late, too_old, .. } = sum;
        Self { duplicated, reordered, late, too_old, ..Self::new(sent, received) }
    }
}

impl Spread {
    /// None of none.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) };
        Some(Self { min, median, max })
    }
}
