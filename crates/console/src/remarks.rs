//! What is said on standard error, where perhaps nobody is left to hear it.
//!
//! A terminal that was closed answers a write with `EIO`, a pipe that nobody reads with `EPIPE`. `eprintln!` panics
//! then, and a measurement would lose its figures for a line about how far it is.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

pub fn say(line: impl Display) {
    write(&format!("{line}\n"));
}

/// Writes a text as it stands, in one piece.
pub fn write(text: &str) {
    // Nowhere is left to say that it failed.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Says what went wrong, for a person.
pub fn error(error: &anyhow::Error) {
    say(format_args!("error: {}", in_full(error)));
}

/// An error with all that led to it, in one sentence. Some say their cause themselves; nothing is said twice.
pub fn in_full(error: &anyhow::Error) -> String {
    let mut causes = error.chain().map(ToString::to_string);
    let first = causes.next().unwrap_or_default();
    causes.fold(first, |told, cause| if told.contains(&cause) { told } else { format!("{told}: {cause}") })
}

/// How far it is: a line that is written over at a terminal, and one a second otherwise.
pub struct ProgressLine {
    at_terminal: bool,
    is_shown: bool,
}

impl ProgressLine {
    pub fn begin() -> Self {
        Self { at_terminal: io::stderr().is_terminal(), is_shown: false }
    }

    /// How long to wait before it is shown again.
    pub fn pace(&self) -> Duration {
        if self.at_terminal { Duration::from_millis(200) } else { Duration::from_secs(1) }
    }

    pub fn show(&mut self, line: &str) {
        write(&format!("{line}{}", if self.at_terminal { "\x1b[K\r" } else { "\n" }));
        self.is_shown = true;
    }

    /// Leaves the last one as it stands.
    pub fn finish(&self) {
        if self.at_terminal && self.is_shown {
            say("");
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no memory for 1 samples (4 bytes): {source}")]
    struct SaysItsCause {
        source: io::Error,
    }

    #[test]
    fn a_cause_that_an_error_says_itself_is_not_said_again() {
        let error = SaysItsCause { source: io::Error::other("the disk is full") };
        let error = Err::<(), _>(error).context("nothing was measured").unwrap_err();
        assert_eq!(in_full(&error), "nothing was measured: no memory for 1 samples (4 bytes): the disk is full");
        let plain = Err::<(), _>(io::Error::other("the disk is full")).context("nothing was written").unwrap_err();
        assert_eq!(in_full(&plain), "nothing was written: the disk is full");
    }
}
