//! How things are said: quantities, names of others, failures.

use std::io::{self, Write};

use crate::check::arguments::Format;
use crate::check::judge::State;

/// node-problem-detector cuts messages off there (`max_output_length`).
pub const NPD_LENGTH: usize = 80;

/// A duration with the unit that fits, three digits at most: `4.2 ms`.
pub fn shown(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 * 1e-3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 * 1e-6, "ms"),
        _ => (ns as f64 * 1e-9, "s"),
    };
    let digits = usize::from(value < 9.95);
    let text = format!("{value:.digits$}");
    format!("{} {unit}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A text of others on one line: Nagios ends a message at `|`, and no terminal should be told what to do.
pub fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter == '|' || letter.is_control() { '?' } else { letter }).collect()
}

/// The first so many bytes, with dots where there were more. Only ASCII is left, so that nobody cuts in a character.
pub fn cut(text: &str, most: usize) -> String {
    let text: String = text.chars().map(|letter| if letter.is_ascii() { letter } else { '?' }).collect();
    if text.len() <= most {
        return text;
    }
    format!("{}...", text[..most.saturating_sub(3)].trim_end())
}

/// Says for a program that the check failed.
pub fn failure(format: Format, why: &str) {
    let why = plain(why);
    let line = match format {
        Format::Nagios => format!("STEALTIME {} - {why}", State::NotJudged.word()),
        Format::Npd => cut(&why, NPD_LENGTH),
        Format::Gcm | Format::Text | Format::Json => format!("{}: {why}", State::NotJudged.word()),
    };
    // Nobody reads it; the exit code still says so.
    let _ = writeln!(io::stdout(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        let pairs = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1 us"),
            (40_000, "40 us"),
            (9_960, "10 us"),
            (4_230_000, "4.2 ms"),
            (999_900_000, "1000 ms"),
            (1_500_000_000, "1.5 s"),
        ];
        for (ns, text) in pairs {
            assert_eq!(shown(ns), text);
        }
    }

    #[test]
    fn what_others_are_called_cannot_end_a_message() {
        assert_eq!(plain("a|b\nc\x1b[31m"), "a?b?c?[31m");
    }

    #[test]
    fn a_long_message_is_cut() {
        assert_eq!(cut("short", 80), "short");
        let long = cut(&"\u{e4}".repeat(100), 80);
        assert_eq!((long.len(), long.ends_with("?...")), (80, true));
    }
}
