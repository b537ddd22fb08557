//! The final report of a client.

use std::collections::BTreeMap;
use std::io::{self, Write};

use hdrhistogram::Histogram;
use serde::Serialize;
use stealtime_console::document::{AGENT_VERSION, SCHEMA_VERSION};

use crate::counter::protocol::Answer;
use crate::counting::record::{Finding, Outage, Protocol, Record};
use crate::counting::settings::Count;
use crate::round_trips::RoundTrips;
use crate::silence::Moment;

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub struct Report {
    schema_version: u32,
    agent_version: &'static str,
    settings: Count,
    started: Moment,
    duration_ns: u64,
    requests: u64,
    acknowledged: u64,
    violations_total: u64,
    violations: Vec<Finding>,
    /// None if no flow was over TCP.
    tcp_lived: Option<bool>,
    longest_outage_ns: BTreeMap<Protocol, u64>,
    round_trip_ns: BTreeMap<Protocol, RoundTrips>,
    flows: Vec<FlowReport>,
    /// With `--check`, if the counter answered.
    check: Option<Answer>,
}

#[derive(Debug, Default)]
pub struct Check {
    /// What the counter said, if it was asked and answered.
    pub state: Option<Answer>,
    /// What was wrong with that.
    pub finding: Option<Finding>,
}

#[derive(Debug, Serialize)]
struct FlowReport {
    protocol: Protocol,
    client: String,
    requests: u64,
    acknowledged: u64,
    last_value: u64,
    resent: u64,
    late_answers: u64,
    connection_lost: bool,
    violations: u64,
    round_trip_ns: Option<RoundTrips>,
    longest_silence_ns: u64,
    silences_total: u64,
    silences: Vec<Outage>,
}

impl Report {
    /// From what the flows have seen until `stopped`, and a check at the end.
    pub fn of(count: &Count, started: Moment, stopped: Moment, mut records: Vec<Record>, check: Check) -> Self {
        for record in &mut records {
            record.finish(stopped);
        }
        let lives: Vec<bool> =
            of_protocol(&records, Protocol::Tcp).map(|record| !record.lost && record.acknowledged > 0).collect();
        let of_check = u64::from(check.finding.is_some());
        let mut violations: Vec<Finding> =
            records.iter().flat_map(|record| record.findings.items.iter().cloned()).chain(check.finding).collect();
        violations.sort_by_key(|finding| finding.at.monotonic_ns);
        Self {
            schema_version: SCHEMA_VERSION,
            agent_version: AGENT_VERSION,
            settings: count.clone(),
            started,
            duration_ns: stopped.since_ns(started),
            requests: records.iter().map(|record| record.requests).sum(),
            acknowledged: records.iter().map(|record| record.acknowledged).sum(),
            violations_total: records.iter().map(|record| record.findings.count).sum::<u64>() + of_check,
            violations,
            tcp_lived: (!lives.is_empty()).then(|| lives.iter().all(|&lives| lives)),
            longest_outage_ns: by_protocol(&records, |records| {
                records.iter().map(|record| record.silences.longest_ns).max()
            }),
            round_trip_ns: by_protocol(&records, |records| RoundTrips::of(&merged(records)?)),
            flows: records.into_iter().map(FlowReport::of).collect(),
            check: check.state,
        }
    }

    /// Whether anything happened that must not.
    pub fn is_violated(&self) -> bool {
        self.violations_total > 0
    }

    pub fn write_text(&self, output: &mut impl Write) -> io::Result<()> {
        writeln!(
            output,
            "asked {} times in {:.1} s, answered {} times",
            self.requests,
            self.duration_ns as f64 * 1e-9,
            self.acknowledged
        )?;
        for flow in &self.flows {
            let value = flow.last_value;
            let longest_ms = flow.longest_silence_ns as f64 * 1e-6;
            write!(output, "{}  value {value:>9}  longest silence {longest_ms:>9.3} ms", flow.protocol)?;
            if let Some(trips) = &flow.round_trip_ns {
                let [min, p50, p99, max] = [trips.min, trips.p50, trips.p99, trips.max].map(|ns| ns as f64 * 1e-6);
                write!(output, "  round trip {min:.3} / {p50:.3} / {p99:.3} / {max:.3} ms (min/p50/p99/max)")?;
            }
            writeln!(output, "{}", if flow.connection_lost { "  connection lost" } else { "" })?;
        }
        if let Some(check) = &self.check {
            writeln!(
                output,
                "memory: {} pages, verified {} times, {} mismatches",
                check.pages, check.verified, check.mismatches
            )?;
        }
        writeln!(output, "violations: {}", self.violations_total)?;
        for finding in &self.violations {
            let seconds = finding.at.since_ns(self.started) as f64 * 1e-9;
            writeln!(output, "  after {seconds:.3} s, {}: {:?}", finding.protocol, finding.violation)?;
        }
        Ok(())
    }
}

impl FlowReport {
    fn of(record: Record) -> Self {
        Self {
            protocol: record.protocol,
            round_trip_ns: RoundTrips::of(&record.round_trips),
            client: record.client,
            requests: record.requests,
            acknowledged: record.acknowledged,
            last_value: record.last_value,
            resent: record.effort.resent,
            late_answers: record.effort.late,
            connection_lost: record.lost,
            violations: record.findings.count,
            longest_silence_ns: record.silences.longest_ns,
            silences_total: record.outages.count,
            silences: record.outages.items,
        }
    }
}

fn of_protocol(records: &[Record], protocol: Protocol) -> impl Iterator<Item = &Record> {
    records.iter().filter(move |record| record.protocol == protocol)
}

fn by_protocol<Value>(
    records: &[Record],
    of_records: impl Fn(&[&Record]) -> Option<Value>,
) -> BTreeMap<Protocol, Value> {
    let each = |protocol| {
        let records: Vec<&Record> = of_protocol(records, protocol).collect();
        Some((protocol, of_records(&records)?))
    };
    [Protocol::Tcp, Protocol::Udp].into_iter().filter_map(each).collect()
}

fn merged(records: &[&Record]) -> Option<Histogram<u64>> {
    let (first, others) = records.split_first()?;
    let mut merged = first.round_trips.clone();
    for record in others {
        // They are all made alike, so that each value fits.
        merged.add(&record.round_trips).ok()?;
    }
    Some(merged)
}
