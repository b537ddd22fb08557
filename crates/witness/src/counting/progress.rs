//! How far the counting is, in a line.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use stealtime_console::remarks::ProgressLine;

use crate::counting::record::{Protocol, Record};
use crate::silence::Moment;

pub struct Progress {
    line: ProgressLine,
    started: Moment,
    last: Moment,
    acknowledged: BTreeMap<Protocol, u64>,
}

impl Progress {
    pub fn begin() -> Self {
        let now = Moment::now();
        Self { line: ProgressLine::begin(), started: now, last: now, acknowledged: BTreeMap::new() }
    }

    /// How long to wait before the next line.
    pub fn pace(&self) -> Duration {
        self.line.pace()
    }

    /// Shows what the flows have seen.
    pub fn show(&mut self, records: &[Record]) {
        let line = self.line(records, Moment::now());
        self.line.show(&line);
    }

    /// Leaves the last line as it stands.
    pub fn finish(&self) {
        self.line.finish();
    }

    fn line(&mut self, records: &[Record], now: Moment) -> String {
        let since = |moment: Moment| now.since_ns(moment) as f64 * 1e-9;
        let (elapsed_s, interval_s) = (since(self.started), since(self.last));
        let mut line = format!("{elapsed_s:6.1} s");
        for protocol in [Protocol::Tcp, Protocol::Udp] {
            let flows: Vec<&Record> = records.iter().filter(|record| record.protocol == protocol).collect();
            if flows.is_empty() {
                continue;
            }
            let acknowledged: u64 = flows.iter().map(|flow| flow.acknowledged).sum();
            let before = self.acknowledged.insert(protocol, acknowledged).unwrap_or_default();
            let rate = (acknowledged - before) as f64 / interval_s.max(1e-9);
            let value = flows.iter().map(|flow| flow.last_value).max().unwrap_or_default();
            let silent_s =
                flows.iter().filter_map(|flow| flow.silences.current_ns(now.monotonic_ns)).max().unwrap_or_default()
                    as f64
                    * 1e-9;
            // Writing into a String cannot fail.
            let _ = write!(line, "   {protocol} {rate:6.0}/s  value {value:>8}  silent {silent_s:6.3} s");
        }
        let violations: u64 = records.iter().map(|record| record.findings.count).sum();
        let _ = write!(line, "   violations {violations}");
        self.last = now;
        line
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;

    use super::*;
    use crate::judge::tests::right_answer;

    #[test]
    fn a_line_tells_rate_value_silence_and_violations() {
        let start = Moment { monotonic_ns: 1_000_000_000, wall_ns: 0 };
        let mut progress = Progress { started: start, last: start, ..Progress::begin() };
        let mut record = Record::new(Protocol::Udp, 1, 100, Histogram::new(3).unwrap());
        for value in 1..=50 {
            let moment = Moment { monotonic_ns: start.monotonic_ns + value * 10_000_000, wall_ns: 0 };
            record.answered(moment, &right_answer(value), Vec::new());
        }
        let now = Moment { monotonic_ns: start.monotonic_ns + 1_000_000_000, wall_ns: 0 };
        let line = progress.line(&[record], now);
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.join(" "), "1.0 s udp 50/s value 50 silent 0.500 s violations 0");
    }
}
