//! What `blackout` tells at the end: a document, or text.

use std::io::{self, Write};

use serde::Serialize;
use stealtime_console::document::{Head, finding, write_findings};
use stealtime_console::quantities::saturating_nanoseconds;
use stealtime_wire::{Finding, FindingLevel};

use crate::blackout::judging::{self, Judged, Stamps, Unjudged};
use crate::blackout::settings::Blackout;
use crate::blackout::sight::{Found, Loss, Sight, Way};
use crate::round_trips::RoundTrips;
use crate::silence::Moment;

/// A machine that leaves out more of its probes than this has not watched.
const MOST_MISSED: f64 = 0.1;

/// What `--json` prints.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    head: Head,
    started: Moment,
    duration_ns: u64,
    interval_ns: u64,
    max_gap_ns: Option<u64>,
    pub ways: Vec<WayReport>,
    #[serde(skip)]
    findings: Vec<Finding>,
}

#[derive(Serialize)]
pub struct WayReport {
    way: Way,
    to: String,
    /// From one probe to the next.
    interval_ns: u64,
    sent: u64,
    answered: u64,
    lost: u64,
    reordered: u64,
    duplicated: u64,
    /// Probes that the kernel refused, counted among those sent.
    unsent: u64,
    round_trip_ns: Option<RoundTrips>,
    longest_silence_ns: u64,
    /// By how much more than an interval 95 % of the answers came after the ones before; what is longer than the
    /// threshold is a blackout.
    usual_ns: u64,
    threshold_ns: u64,
    /// Answers that the kernel stamped, and that the process did.
    stamped_by_kernel: u64,
    stamped_by_process: u64,
    /// The last value of the counter; none where nobody counts.
    last_value: Option<u64>,
    violations_total: u64,
    violations: Vec<Found>,
    /// Whether the one TCP connection lived on.
    connection_lived: Option<bool>,
    connection_losses: Vec<Loss>,
    own_pauses: u64,
    longest_own_pause_ns: u64,
    /// Probes left out in them.
    missed: u64,
    blackouts: Vec<Placed>,
    unjudged: Vec<Unjudged>,
    /// Silences of which there were too many.
    not_kept: u64,
}

/// A blackout with its place on the calendar and in the run.
#[derive(Serialize)]
struct Placed {
    start_wall_ns: u64,
    since_start_ns: u64,
    #[serde(flatten)]
    blackout: judging::Blackout,
}

impl Report {
    /// From what was seen until `stopped`, when the last probe was sent.
    pub fn of(settings: &Blackout, started: Moment, stopped: Moment, sights: Vec<Sight>) -> Self {
        let threshold_ns = settings.threshold.map(saturating_nanoseconds);
        let findings: Vec<Finding> = sights.iter().flat_map(findings).collect();
        let ways = sights.into_iter().map(|sight| WayReport::of(sight, threshold_ns, started, stopped)).collect();
        Self {
            head: Head::of(&findings),
            started,
            duration_ns: stopped.since_ns(started),
            interval_ns: saturating_nanoseconds(settings.interval),
            max_gap_ns: settings.max_gap.map(saturating_nanoseconds),
            ways,
            findings,
        }
    }

    pub fn is_valid(&self) -> bool {
        self.head.valid
    }

    /// Whether something was forgotten, or a blackout was longer than it may be.
    pub fn is_over(&self) -> bool {
        let is_longer = |way: &WayReport| {
            way.blackouts.iter().any(|placed| Some(placed.blackout.length_ns) > self.max_gap_ns.or(Some(u64::MAX)))
        };
        self.ways.iter().any(|way| way.violations_total > 0 || is_longer(way))
    }

    /// Whether what may not be longer may have been while this machine stood still.
    pub fn is_unjudged(&self) -> bool {
        let limit_ns = self.max_gap_ns.unwrap_or(u64::MAX);
        self.ways.iter().any(|way| way.unjudged.iter().any(|unjudged| unjudged.silence_ns > limit_ns))
    }

    pub fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        let ms = |ns: u64| ns as f64 * 1e-6;
        writeln!(output, "watched for {:.1} s", self.duration_ns as f64 * 1e-9)?;
        for way in &self.ways {
            write!(output, "{} {}: {} probes, {} lost", way.way, way.to, way.sent, way.lost)?;
            write!(output, ", {} reordered, {} duplicated", way.reordered, way.duplicated)?;
            writeln!(output, ", longest silence {:.3} ms", ms(way.longest_silence_ns))?;
            for Placed { since_start_ns, blackout, .. } in &way.blackouts {
                let after_s = *since_start_ns as f64 * 1e-9;
                let bound_ns =
                    (blackout.at_most_ns - blackout.length_ns).max(blackout.length_ns - blackout.at_least_ns);
                let (length_ms, bound_ms) = (ms(blackout.length_ns), ms(bound_ns));
                let end = if blackout.ended { "" } else { ", not ended" };
                let lost = blackout.lost;
                writeln!(output, "  after {after_s:.3} s: {length_ms:.3} ms (+- {bound_ms:.3}), {lost} lost{end}")?;
            }
            for unjudged in &way.unjudged {
                let (silence_ms, pause_ms) = (ms(unjudged.silence_ns), ms(unjudged.own_pause_ns));
                write!(output, "  not judged: {silence_ms:.3} ms, because this machine itself stood still for ")?;
                writeln!(output, "{pause_ms:.3} ms of it")?;
            }
            for loss in &way.connection_losses {
                writeln!(output, "  connection lost: {}", loss.reason)?;
            }
            for found in &way.violations {
                writeln!(output, "  violation: {:?}", found.violation)?;
            }
        }
        write_findings(&self.findings, output)
    }
}

impl WayReport {
    fn of(mut sight: Sight, threshold_ns: Option<u64>, started: Moment, stopped: Moment) -> Self {
        sight.line.finish(stopped.monotonic_ns);
        // Segments of a stream may be stamped together.
        let by_kernel = matches!(sight.way, Way::Udp | Way::Ping) && sight.by_process == 0;
        let stamps = if by_kernel { Stamps::Kernel } else { Stamps::Process };
        let Judged { usual_ns, threshold_ns, blackouts, unjudged } = judging::judge(&sight.line, stamps, threshold_ns);
        let line = &sight.line;
        let place = |blackout: judging::Blackout| {
            let from = started.at(blackout.from_monotonic_ns.max(started.monotonic_ns));
            Placed { start_wall_ns: from.wall_ns, since_start_ns: from.since_ns(started), blackout }
        };
        Self {
            way: sight.way,
            interval_ns: line.interval_ns,
            sent: line.count_sent(),
            answered: line.count_answered(),
            lost: line.lost_within(line.first(), u64::MAX),
            reordered: line.reordered.count,
            duplicated: line.duplicated.count,
            unsent: line.unsent,
            round_trip_ns: RoundTrips::of(&line.trips),
            longest_silence_ns: line.silences.longest_ns,
            usual_ns,
            threshold_ns,
            stamped_by_kernel: sight.by_kernel,
            stamped_by_process: sight.by_process,
            last_value: sight.last_value,
            violations_total: sight.violations.count,
            connection_lived: (sight.way == Way::Tcp).then_some(sight.losses.is_empty()),
            own_pauses: line.pauses.count,
            longest_own_pause_ns: line.longest_pause_ns,
            missed: line.missed,
            blackouts: blackouts.into_iter().map(place).collect(),
            unjudged,
            not_kept: line.long_silences.left_out(),
            to: sight.to,
            violations: sight.violations.items,
            connection_losses: sight.losses,
        }
    }
}

fn findings(sight: &Sight) -> Vec<Finding> {
    let (way, line) = (sight.way, &sight.line);
    let mut findings = Vec::new();
    let mut tell = |code: &str, level, text: String, hint: Option<&str>| {
        findings.push(finding(code, level, text, hint));
    };
    let sent = line.count_sent();
    let share = line.missed as f64 / ((sent + line.missed) as f64).max(1.0);
    if share > MOST_MISSED {
        let text = format!("{way}: this machine left out {:.0} % of its probes, because it was late", share * 100.0);
        tell("late_sender", FindingLevel::Invalidates, text, Some("take a longer --interval, or --priority 50 (root)"));
    }
    if sight.overflowed > 0 {
        let text = format!("{way}: {} answers had no room in this machine's socket", sight.overflowed);
        tell("socket_overflow", FindingLevel::Invalidates, text, Some("take a longer --interval"));
    }
    let not_kept = line.long_silences.left_out();
    if not_kept > 0 {
        let text = format!("{way}: {not_kept} more silences were not kept");
        tell("silences_not_kept", FindingLevel::Invalidates, text, Some("take a longer --interval or --threshold"));
    }
    if sight.last_value.is_none() {
        let text = format!("{way}: nobody counts there, so that forgotten values cannot be seen");
        tell("no_counter", FindingLevel::Limits, text, None);
    }
    if matches!(way, Way::Tcp | Way::Udp | Way::Ping) && sight.by_process > 0 {
        let text = format!("{way}: {} answers were not stamped by the kernel", sight.by_process);
        tell("no_kernel_stamps", FindingLevel::Limits, text, None);
    }
    findings
}
