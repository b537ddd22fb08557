//! How far the streams are, in a line.

use std::time::Duration;

use stealtime_console::remarks::ProgressLine;

use crate::stamps::monotonic_ns;

/// Tells now and then how far it is.
pub struct Progress {
    is_quiet: bool,
    line: ProgressLine,
    started_ns: u64,
    told_ns: u64,
    packets: u64,
}

#[derive(Debug, Clone, Copy)]
pub struct State {
    pub streams: usize,
    pub packets: u64,
    /// Since the last packet came; of no sender.
    pub silent_ns: Option<u64>,
}

impl Progress {
    pub fn begin(is_quiet: bool) -> Self {
        let now_ns = monotonic_ns();
        Self { is_quiet, line: ProgressLine::begin(), started_ns: now_ns, told_ns: now_ns, packets: 0 }
    }

    /// Tells the state if it is time to.
    pub fn show(&mut self, state: impl FnOnce() -> State) {
        let now_ns = monotonic_ns();
        if self.is_quiet || Duration::from_nanos(now_ns - self.told_ns) < self.line.pace() {
            return;
        }
        let line = self.line(&state(), now_ns);
        self.line.show(&line);
    }

    /// Leaves the last line as it stands.
    pub fn finish(&self) {
        self.line.finish();
    }

    fn line(&mut self, state: &State, now_ns: u64) -> String {
        let seconds = |ns: u64| ns as f64 * 1e-9;
        let rate = state.packets.saturating_sub(self.packets) as f64 / seconds(now_ns - self.told_ns).max(1e-9);
        let elapsed_s = seconds(now_ns - self.started_ns);
        (self.told_ns, self.packets) = (now_ns, state.packets);
        let silent = state.silent_ns.map(|ns| format!("   silent {:6.3} s", seconds(ns))).unwrap_or_default();
        format!(
            "{elapsed_s:6.1} s   streams {:>5}   packets {:>9}   {rate:7.0}/s{silent}",
            state.streams, state.packets
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_streams_packets_rate_and_silence() {
        let mut progress = Progress { started_ns: 0, told_ns: 0, ..Progress::begin(true) };
        let state = State { streams: 2, packets: 50, silent_ns: Some(12_000_000) };
        let line = progress.line(&state, 500_000_000);
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words.join(" "), "0.5 s streams 2 packets 50 100/s silent 0.012 s");
        let next = progress.line(&State { packets: 60, silent_ns: None, ..state }, 1_000_000_000);
        assert!(next.ends_with(" 20/s"), "{next}");
    }
}
