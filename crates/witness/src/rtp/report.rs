//! What is told at the end, as a document; `table` tells the same to people.

use hdrhistogram::Histogram;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;
use stealtime_console::document::{Head, finding};
use stealtime_media::{Basis, Strangers, StreamFigures, Total};
use stealtime_wire::{Finding, FindingLevel};

use crate::rtp::receiving::{Ended, Receiving};
use crate::rtp::sending::Sending;
use crate::rtp::settings::Judging;

/// A sender that is later than this at the 99th percentile spoils the figures of a path that is faster.
const OWN_JITTER_NS: u64 = 500_000;

/// Streams that are more than this share of their packets a whole packet late are no steady streams.
const BROKEN_PERCENT: f64 = 1.0;

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document<P> {
    #[serde(flatten)]
    pub head: Head,
    #[serde(flatten)]
    pub part: P,
    /// User and kernel time of this process.
    pub cpu_ns: u64,
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

#[derive(Serialize)]
pub struct Reception {
    pub ended: Ended,
    /// By the receiver's `CLOCK_MONOTONIC`, as all times of the streams.
    pub started_monotonic_ns: u64,
    pub duration_ns: u64,
    pub buffer_ns: u64,
    /// Bpl of the E-model.
    pub loss_robustness: f64,
    pub stamps: Stamps,
    /// Datagrams that came and for which this process had no room: not the path's fault.
    pub overflowed: u64,
    /// Packets that were sent back.
    pub reflected: u64,
    pub strangers: Strangers,
    pub total: Total,
    pub streams: Vec<StreamFigures>,
}

/// Whose stamps tell when a packet came.
#[derive(Serialize)]
pub struct Stamps {
    /// Of the kernel, in its network stack.
    pub by_kernel: u64,
    /// Of this process, after it had been woken.
    pub by_process: u64,
    /// How often the real-time clock was set meanwhile.
    pub clock_steps: u64,
    /// From the kernel's stamp to this process: what the former leave out. None without them.
    pub waited_ns: Option<Tail>,
}

#[derive(Serialize)]
pub struct Transmission {
    pub streams: usize,
    /// Packets of voice, those too that the kernel refused to send.
    pub sent: u64,
    pub refused: u64,
    pub first_refusal: Option<String>,
    pub duration_ns: u64,
    /// How much later than due each packet was handed to the kernel.
    pub lateness_ns: Option<Tail>,
    /// Sent when the next packet of the same stream was due already.
    pub a_packet_late: u64,
    /// What came back, with `--reflected`.
    pub came_back: Option<Reception>,
}

/// What was sent and received on the same ports.
#[derive(Serialize)]
pub struct Conversation {
    pub spoken: Transmission,
    pub heard: Reception,
}

/// The upper end of a distribution, in nanoseconds, to three digits; the maximum too.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Tail {
    pub median: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Tail {
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self { median: at(0.5), p99: at(0.99), p999: at(0.999), max: histogram.max() })
    }
}

/// What is told at the end.
pub trait Part: Serialize {
    /// Whether a threshold is exceeded.
    fn is_over(&self, judging: &Judging) -> bool;

    /// What a reader must know.
    fn findings(&self) -> Vec<Finding>;
}

impl<P: Part> Document<P> {
    pub fn new(part: P) -> Self {
        let findings = part.findings();
        Self { head: Head::of(&findings), part, cpu_ns: cpu_ns(), findings }
    }
}

fn cpu_ns() -> u64 {
    let of = |usage: nix::sys::resource::Usage| {
        usage.user_time().num_microseconds() + usage.system_time().num_microseconds()
    };
    // It is refused to nobody.
    u64::try_from(getrusage(UsageWho::RUSAGE_SELF).map_or(0, of)).unwrap_or(0) * 1000
}

impl Reception {
    pub fn of(receiving: &Receiving, ended: Ended, now_ns: u64, judging: &Judging, buffer_ns: u64) -> Self {
        // Waiting whether more would come is no silence of the path, unless nobody had told the end.
        let (streams, total) = receiving.receiver.figures(now_ns);
        Self {
            ended,
            started_monotonic_ns: receiving.started_ns,
            duration_ns: now_ns.saturating_sub(receiving.started_ns),
            buffer_ns,
            loss_robustness: judging.concealment.loss_robustness(),
            stamps: Stamps {
                by_kernel: receiving.bridge.by_kernel,
                by_process: receiving.bridge.by_process,
                clock_steps: receiving.bridge.steps,
                waited_ns: Tail::of(&receiving.waits),
            },
            overflowed: receiving.overflowed(),
            reflected: receiving.reflected,
            strangers: receiving.receiver.strangers(),
            total,
            streams,
        }
    }
}

impl Part for Reception {
    fn is_over(&self, judging: &Judging) -> bool {
        let silence_ns = self.total.longest_silence.map_or(0, |silence| silence.length_ns);
        judging.max_loss.is_some_and(|most| self.total.counts.lost_percent > most)
            || judging.max_silence.is_some_and(|most| u128::from(silence_ns) > most.as_nanos())
            || judging.min_mos.is_some_and(|least| self.total.mos.is_none_or(|mos| mos.min < least))
    }

    fn findings(&self) -> Vec<Finding> {
        let (mut findings, total) = (Vec::new(), &self.total);
        let mut find = |code: &str, level, text: String, hint: Option<&str>| {
            findings.push(finding(code, level, text, hint));
        };
        if total.streams_heard == 0 {
            let text = "no packet of any stream came".to_owned();
            let hint = "is the sender running, and does the path lead to this address and these ports?";
            find("nothing_came", FindingLevel::Invalidates, text, Some(hint));
        }
        if self.overflowed > 0 {
            let text = format!("{} datagrams came and found no room in this process's sockets", self.overflowed);
            let hint = "they count as lost: give the receiver a CPU or a priority of its own (-a, -p)";
            find("overflow", FindingLevel::Invalidates, text, Some(hint));
        }
        if total.streams_closed < total.streams_announced {
            let open = total.streams_announced - total.streams_closed;
            let text = format!("of {open} streams of {} no closing report came", total.streams_announced);
            let hint = "what was lost at their ends is not counted, or not all of it; the sender tells what it sent";
            find("not_closed", FindingLevel::Limits, text, Some(hint));
        }
        if total.delay_is == Some(Basis::Variation) {
            let text = "the sender's clock is another one: told is by how much packets were slower than the fastest";
            let hint = "for the delay there and back: rtp receive --reflect there, rtp send --reflected here";
            find("other_clock", FindingLevel::Limits, text.to_owned(), Some(hint));
        }
        if self.stamps.by_process > 0 {
            let all = self.stamps.by_kernel + self.stamps.by_process;
            let text = format!(
                "{} of {all} packets have no stamp of the kernel: this process's own delay is in theirs",
                self.stamps.by_process
            );
            find("process_stamps", FindingLevel::Limits, text, None);
        }
        let impossible: u64 = self.streams.iter().map(|stream| stream.impossible_delays).sum();
        if impossible > 0 {
            let text = format!("{impossible} packets came before they were sent, if the stamps are true");
            find("impossible_delays", FindingLevel::Limits, text, None);
        }
        if total.ssrc_collisions > 0 {
            let text = format!("{} streams used the source number (SSRC) of another one", total.ssrc_collisions);
            find("ssrc_collisions", FindingLevel::Limits, text, None);
        }
        let changed = |of: fn(&StreamFigures) -> u64| -> u64 { self.streams.iter().map(of).sum() };
        let [sources, ssrcs, sequences] =
            [changed(|one| one.source_changes), changed(|one| one.ssrc_changes), changed(|one| one.renumbered)];
        if sources + ssrcs + sequences > 0 {
            let text = format!(
                "streams changed on the way: the address {sources} times, the source number (SSRC) {ssrcs}, the \
                 numbering {sequences}"
            );
            find("changed_on_the_way", FindingLevel::Limits, text, None);
        }
        if self.strangers.total() > 0 {
            let Strangers { not_rtp, other_rtp, rtcp, corrupted, of_too_many_streams } = self.strangers;
            let text = format!(
                "not counted: {not_rtp} datagrams that are no RTP, {other_rtp} of other RTP, {rtcp} of RTCP, \
                 {corrupted} of ours but corrupted, {of_too_many_streams} of more streams than fit"
            );
            find("strangers", FindingLevel::Limits, text, None);
        }
        findings
    }
}

impl Transmission {
    pub fn of(sending: &Sending, duration_ns: u64, came_back: Option<Reception>) -> Self {
        Self {
            streams: sending.streams(),
            sent: sending.sent(),
            refused: sending.refused,
            first_refusal: sending.first_refusal.as_ref().map(ToString::to_string),
            duration_ns,
            lateness_ns: Tail::of(&sending.lateness),
            a_packet_late: sending.a_packet_late,
            came_back,
        }
    }
}

impl Part for Transmission {
    fn is_over(&self, judging: &Judging) -> bool {
        self.came_back.as_ref().is_some_and(|reception| reception.is_over(judging))
    }

    fn findings(&self) -> Vec<Finding> {
        let (mut findings, hint) = (Vec::new(), "give the sender a CPU or a priority of its own (-a, -p)");
        let mut find = |code: &str, level, text: String, hint: Option<&str>| {
            findings.push(finding(code, level, text, hint));
        };
        if let Some(first) = &self.first_refusal {
            let text = format!("the kernel refused to send {} packets: {first}", self.refused);
            let hint = "a receiver counts them as lost; is one listening, and is there a route?";
            find("refused", FindingLevel::Invalidates, text, Some(hint));
        }
        let late_percent = 100.0 * self.a_packet_late as f64 / self.sent.max(1) as f64;
        let p99_ns = self.lateness_ns.map_or(0, |lateness| lateness.p99);
        if late_percent > BROKEN_PERCENT {
            let text = format!("{late_percent:.1} % of the packets were sent 20 ms too late or later");
            find("not_steady", FindingLevel::Invalidates, text, Some(hint));
        } else if p99_ns > OWN_JITTER_NS {
            let text = format!("one packet in a hundred was sent {:.3} ms too late or later", p99_ns as f64 * 1e-6);
            find("own_jitter", FindingLevel::Limits, text, Some(hint));
        }
        findings.extend(self.came_back.iter().flat_map(Reception::findings));
        findings
    }
}

impl Part for Conversation {
    fn is_over(&self, judging: &Judging) -> bool {
        self.heard.is_over(judging)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = self.spoken.findings();
        findings.extend(self.heard.findings());
        findings
    }
}
