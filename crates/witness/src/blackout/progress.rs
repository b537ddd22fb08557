//! Progress on standard error: one line that is written over at a terminal, one a second otherwise; or JSON.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};

use serde::Serialize;
use stealtime_console::remarks;

use crate::blackout::settings::Blackout;
use crate::blackout::sight::{Sight, Watched, Way, now_ns};

pub struct Progress {
    is_quiet: bool,
    is_json: bool,
    at_terminal: bool,
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
        let now = now_ns();
        Self { is_quiet, is_json, at_terminal: io::stderr().is_terminal(), started_ns: now, told_ns: now }
    }

    /// Tells the state if it is time to. A terminal that is gone is no reason to stop.
    pub fn show(&mut self, watched: &[Watched]) {
        let pace_ns = if self.at_terminal || self.is_json { 200_000_000 } else { 1_000_000_000 };
        let now = now_ns();
        if self.is_quiet || now - self.told_ns < pace_ns {
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
            let end = if self.at_terminal { "\x1b[K\r" } else { "\n" };
            remarks::write(&format!("{}{end}", line(&state)));
        }
    }

    /// Leaves the last line as it stands.
    pub fn finish(&self) {
        if !self.is_quiet && !self.is_json && self.at_terminal && self.told_ns != self.started_ns {
            remarks::say("");
        }
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
