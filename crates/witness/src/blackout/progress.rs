//! How far the watching is: in a line, or as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use stealtime_console::remarks::{self, ProgressLine};

use crate::blackout::settings::Blackout;
use crate::blackout::sight::{Sight, Watched, Way};
use crate::stamps::monotonic_ns;

/// From one state to the next, as JSON.
const JSON_PACE: Duration = Duration::from_millis(200);

pub struct Progress {
    is_quiet: bool,
    is_json: bool,
    line: ProgressLine,
    started_ns: u64,
    told_ns: u64,
}

#[derive(Serialize)]
struct State {
    elapsed_ns: u64,
    ways: Vec<WayState>,
}

#[derive(Serialize)]
struct WayState {
    way: Way,
    answered: u64,
    silent_ns: Option<u64>,
    longest_silence_ns: u64,
    violations: u64,
    connection_losses: usize,
}

impl WayState {
    fn of(sight: &Sight, now_ns: u64) -> Self {
        Self {
            way: sight.way,
            answered: sight.line.count_answered(),
            silent_ns: sight.line.silences.current_ns(now_ns),
            longest_silence_ns: sight.line.silences.longest_ns,
            violations: sight.violations.count,
            connection_losses: sight.losses.len(),
        }
    }
}

impl Progress {
    pub fn begin(settings: &Blackout) -> Self {
        let (is_quiet, is_json) = (settings.quiet, settings.json_progress);
        let now = monotonic_ns();
        Self { is_quiet, is_json, line: ProgressLine::begin(), started_ns: now, told_ns: now }
    }

    /// Tells the state if it is time to.
    pub fn show(&mut self, watched: &[Watched]) {
        let pace = if self.is_json { JSON_PACE } else { self.line.pace() };
        let now = monotonic_ns();
        if self.is_quiet || Duration::from_nanos(now - self.told_ns) < pace {
            return;
        }
        self.told_ns = now;
        let state = State {
            elapsed_ns: now - self.started_ns,
            ways: watched.iter().map(|one| WayState::of(&one.sight(), now)).collect(),
        };
        if self.is_json {
            let _ = serde_json::to_string(&state).map(remarks::say);
        } else {
            self.line.show(&line(&state));
        }
    }

    /// Leaves the last line as it stands.
    pub fn finish(&self) {
        self.line.finish();
    }
}

fn line(state: &State) -> String {
    let mut line = format!("{:6.1} s", state.elapsed_ns as f64 * 1e-9);
    for way in &state.ways {
        let silent_ms = way.silent_ns.unwrap_or(0) as f64 * 1e-6;
        let longest_ms = way.longest_silence_ns as f64 * 1e-6;
        // Writing into a String cannot fail.
        let _ = write!(line, "   {}: silent {silent_ms:.0} ms, longest {longest_ms:.1} ms", way.way);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_long_each_way_is_and_was_silent() {
        let way = WayState {
            way: Way::Udp,
            answered: 7,
            silent_ns: Some(12_000_000),
            longest_silence_ns: 20_500_000,
            violations: 0,
            connection_losses: 0,
        };
        let state = State { elapsed_ns: 1_500_000_000, ways: vec![way] };
        assert_eq!(line(&state).trim(), "1.5 s   UDP: silent 12 ms, longest 20.5 ms");
    }
}
