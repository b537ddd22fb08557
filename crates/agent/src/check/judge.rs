//! From what was seen to a verdict; pure.

use std::process::ExitCode;

use serde::Serialize;
use stealtime_console::document::{NOT_VALID, OVER_THRESHOLD};

use crate::check::arguments::Format;

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    Warning,
    Critical,
    NotJudged,
}

impl State {
    /// The word that monitoring has for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::NotJudged => "UNKNOWN",
        }
    }

    pub fn exit(self, format: Format) -> ExitCode {
        let code = match (format, self) {
            (_, Self::Ok) | (Format::Text | Format::Json | Format::Npd, Self::Warning) => 0,
            (Format::Nagios | Format::Gcm, Self::Warning) | (Format::Npd, Self::Critical) => 1,
            (Format::Nagios | Format::Gcm, Self::Critical) | (Format::Npd, Self::NotJudged) => 2,
            (Format::Nagios | Format::Gcm, Self::NotJudged) => 3,
            (Format::Text | Format::Json, Self::Critical) => OVER_THRESHOLD,
            (Format::Text | Format::Json, Self::NotJudged) => NOT_VALID,
        };
        ExitCode::from(code)
    }
}

/// What the verdict rests on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence {
    /// How late the latest wake-up was.
    pub longest_ns: u64,
    /// By how much ordinary threads alone may have made it late, where real-time priority was wanted and refused.
    pub excused_ns: u64,
    pub samples: u64,
    /// It was stopped before its time.
    pub is_cut_short: bool,
}

/// The two levels.
#[derive(Debug, Clone, Copy)]
pub struct Levels {
    pub warning_ns: u64,
    pub critical_ns: u64,
}

impl Levels {
    fn of(self, late_ns: u64) -> State {
        if late_ns > self.critical_ns {
            State::Critical
        } else if late_ns > self.warning_ns {
            State::Warning
        } else {
            State::Ok
        }
    }
}

/// Why nothing is judged.
pub const NO_SAMPLES: &str = "nothing was measured";
pub const CUT_SHORT: &str = "it was stopped before its time";
pub const BUSY: &str = "real-time priority was refused, and ordinary threads that ran before it may be why it was late";

/// Judges. What is beyond a level stays so, however short it was watched and whatever else may be said of it; only
/// what is within has to be seen for the whole time.
pub fn judge(evidence: Evidence, levels: Levels) -> (State, Option<&'static str>) {
    if evidence.samples == 0 && evidence.longest_ns == 0 {
        return (State::NotJudged, Some(NO_SAMPLES));
    }
    let seen = levels.of(evidence.longest_ns);
    let proven = levels.of(evidence.longest_ns.saturating_sub(evidence.excused_ns));
    if proven == State::Critical {
        (State::Critical, None)
    } else if evidence.is_cut_short {
        (State::NotJudged, Some(CUT_SHORT))
    } else if proven == seen {
        (seen, None)
    } else if seen == State::Critical {
        (State::NotJudged, Some(BUSY))
    } else {
        // Within the bar even so.
        (State::Warning, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: Levels = Levels { warning_ns: 500, critical_ns: 1_000 };

    fn seen(longest_ns: u64) -> Evidence {
        Evidence { longest_ns, samples: 10, ..Evidence::default() }
    }

    #[test]
    fn a_level_is_what_is_beyond_it() {
        let state = |longest_ns| judge(seen(longest_ns), LEVELS).0;
        assert_eq!([state(500), state(501), state(1_000)], [State::Ok, State::Warning, State::Warning]);
        assert_eq!(state(1_001), State::Critical);
    }

    #[test]
    fn nothing_seen_or_cut_short_is_no_pass_but_a_failure_stays_one() {
        assert_eq!(judge(Evidence::default(), LEVELS), (State::NotJudged, Some(NO_SAMPLES)));
        let cut = |longest_ns| judge(Evidence { is_cut_short: true, ..seen(longest_ns) }, LEVELS);
        assert_eq!(cut(10), (State::NotJudged, Some(CUT_SHORT)));
        assert_eq!(cut(2_000), (State::Critical, None));
        // A CPU on which nothing ran at all.
        assert_eq!(judge(Evidence { samples: 0, ..seen(2_000) }, LEVELS).0, State::Critical);
    }

    #[test]
    fn without_real_time_priority_only_what_ordinary_threads_cannot_explain_is_critical() {
        let state = |longest_ns, excused_ns| judge(Evidence { excused_ns, ..seen(longest_ns) }, LEVELS);
        assert_eq!(state(400, 300), (State::Ok, None), "with real-time priority it would be better still");
        assert_eq!(state(5_000, 4_500), (State::NotJudged, Some(BUSY)));
        assert_eq!(state(5_000, 3_000), (State::Critical, None));
        assert_eq!(state(900, 800), (State::Warning, None));
    }

    #[test]
    fn each_reader_gets_its_own_exit_codes() {
        let states = [State::Ok, State::Warning, State::Critical, State::NotJudged];
        let codes = |format| states.map(|state| format!("{:?}", state.exit(format)));
        let expected = |codes: [u8; 4]| codes.map(|code| format!("{:?}", ExitCode::from(code)));
        for format in [Format::Nagios, Format::Gcm] {
            assert_eq!(codes(format), expected([0, 1, 2, 3]));
        }
        for format in [Format::Text, Format::Json] {
            assert_eq!(codes(format), expected([0, 0, 3, 4]));
        }
        assert_eq!(codes(Format::Npd), expected([0, 0, 1, 2]));
    }
}
