//! What is said to a person.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use rustix::fs::OFlags;
use stealtime_capture::bound_appended;
use stealtime_outputhold::PortFault;
use stealtime_shipping::{LinkError, ProtocolVersion};
use stealtime_succession::Term;

use crate::registers::Trouble;

/// An error with everything that led to it, in one sentence.
pub fn in_full(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        // Some say their cause themselves.
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}

/// Why there is no link, and what may be done about it.
pub fn of_link(error: &LinkError) -> String {
    match error.hint() {
        Some(hint) => format!("{} (hint: {hint})", in_full(error)),
        None => in_full(error),
    }
}

/// What a register holds that was put back to an older state.
pub fn of_register_that_went_back(held: Term, found: Option<Term>) -> String {
    let found = found.map_or_else(|| "nothing".to_owned(), |term| term.to_string());
    format!("the register went back: it holds {found}, and {held} was granted; was it restored from a backup?")
}

/// What is the matter with the register, and what follows from it for an active member.
pub fn of_register(trouble: &Trouble, is_protected: bool) -> String {
    let (what, reason) = match trouble {
        Trouble::Silent(reason) => ("gives no answer", reason),
        Trouble::ReadOnly(reason) => ("takes no writes", reason),
        Trouble::Odd(reason) => return of_odd_register(reason),
    };
    let follows = match (is_protected, trouble) {
        (true, _) => "if the standby is lost now, the guest stops until it does",
        (false, Trouble::Silent(_)) => "the guest stops until it does",
        (false, Trouble::ReadOnly(_)) => "no standby is looked for until it does",
        (false, Trouble::Odd(_)) => "no standby can be named until it does",
    };
    format!("the register {what}: {reason}; {follows}")
}

/// The same for a standby, which only reads.
pub fn of_standbys_register(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Silent(reason) | Trouble::ReadOnly(reason) => {
            format!("the register gives no answer: {reason}; nothing can be taken over until it does")
        }
        Trouble::Odd(reason) => of_odd_register(reason),
    }
}

fn of_odd_register(reason: &str) -> String {
    format!("the register answers, and not all of it is used: {reason}")
}

/// That a standby's guest would reach nobody, on its own host.
pub fn of_port_of_standby(fault: &PortFault, pid: u32) -> String {
    let hint = if fault.is_for_good() {
        format!(" (hint: kill {pid}, which is this standby: another one makes its TAP anew)")
    } else {
        String::new()
    };
    format!("the guest would reach nobody from here: {fault}{hint}")
}

/// The same, where the guest runs.
pub fn of_standbys_port(host: &str, fault: &str) -> String {
    format!("{host} could take the guest over, which would reach nobody from there: {fault}")
}

/// How long output has waited that should not.
pub fn of_hold(waited: Duration, longest: Duration) -> String {
    format!(
        "the guest's output has waited for up to {} ms for its standby to have what it tells of, longer than {} ms \
         (hint: a faster link or standby, a guest that writes less, a shorter `interval`, or a larger `longest_hold`)",
        waited.as_millis(),
        longest.as_millis()
    )
}

/// That a standby could not stage a large epoch, by what its host has left.
pub fn of_memory(usable_bytes: u64, machine_bytes: u64) -> Option<String> {
    let wanted = machine_bytes / 8;
    (usable_bytes < wanted).then(|| {
        format!(
            "this host has {} MiB of memory left, and epochs of the machine may need {}: a standby that gets none ends",
            usable_bytes >> 20,
            wanted >> 20
        )
    })
}

pub fn of_leaving_standby(host: &str, has_others: bool) -> String {
    let follows = if has_others { "another host is looked for in its place" } else { "there is no other host for it" };
    format!(
        "{host}, which stands by, is to go down: it does not move there, and {follows} (hint: if {host} is to stay, \
         `stealtime protect leave --back` there)"
    )
}

/// That the guest is held back, if it is so for more than a hundredth of the time.
pub fn of_held_back(ppm: f64, standby: &str) -> Option<String> {
    let percent = ppm / 1e4;
    (percent >= 1.0)
        .then(|| format!("the guest is held back for {percent:.0} % of the time: it writes more than {standby} takes"))
}

/// That a host's stealtime is to be updated, too.
pub fn of_older_release(host: &str, spoken: ProtocolVersion) -> Option<String> {
    let (spoken, newest) = (spoken.number(), ProtocolVersion::NEWEST.number());
    (spoken < newest).then(|| {
        format!(
            "{host} has an older stealtime, of protocol version {spoken} instead of {newest} (hint: update it there, too)"
        )
    })
}

/// That a host's QEMU is not the same.
pub fn of_other_qemu(host: &str, theirs: Option<&str>, ours: Option<&str>) -> Option<String> {
    let (theirs, ours) = (theirs?, ours?);
    (theirs != ours).then(|| {
        format!("QEMU is {ours:?} here and {theirs:?} on {host}: that it can resume the guest is known by trials only")
    })
}

/// What a log may take that standard error goes to, and QEMU's.
pub const LOG_BYTES: u64 = 16 << 20;

/// A text in which nothing steers a terminal, whoever wrote it: a peer, or the register. Control characters but line
/// feeds, separators of lines and what turns the direction of a line are written as JSON does, so that a line of JSON
/// stays one (`visible.py` names the same).
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for one in text.chars() {
        if steers(one) {
            let _ = write!(shown, "\\u{:04x}", u32::from(one));
        } else {
            shown.push(one);
        }
    }
    Cow::Owned(shown)
}

fn steers(one: char) -> bool {
    (one.is_control() && one != '\n')
        || matches!(one, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Write a line to standard error, with nothing in it that steers a terminal. Where that is a file on a full disk the
/// line is lost, and nothing else: `eprintln!` would panic, and a protected guest would end for the sake of its log.
/// Where it is a log that is appended to, it is kept within its bound.
pub fn say(line: &str) {
    static LOG: LazyLock<Option<PathBuf>> = LazyLock::new(appended_log);
    let _ = io::stderr().write_all(format!("{}\n", visible(line)).as_bytes());
    if let Some(log) = LOG.as_deref() {
        let _ = bound_appended(log, LOG_BYTES);
    }
}

/// The file that standard error goes to, if it is one that all append to; not a terminal, a pipe or a journal.
fn appended_log() -> Option<PathBuf> {
    let appends = rustix::fs::fcntl_getfl(io::stderr()).ok()?.contains(OFlags::APPEND);
    let path = fs::read_link("/proc/self/fd/2").ok()?;
    (appends && fs::metadata(&path).ok()?.is_file()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is {0}")]
    struct Inner(&'static str);

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("it cannot be written")]
        Silent(#[source] Inner),
        #[error("it cannot be written, as {0}")]
        Quoting(#[source] Inner),
    }

    #[test]
    fn what_a_peer_or_the_register_says_steers_no_terminal() {
        assert_eq!(visible("a\u{1b}[31m\r\t\u{7f}\u{9b}b"), "a\\u001b[31m\\u000d\\u0009\\u007f\\u009bb");
        assert_eq!(visible("\u{2028}\u{202e}\u{2066}\u{2069}"), "\\u2028\\u202e\\u2066\\u2069");
        let plain = "error: größer\nhint: none";
        assert!(matches!(visible(plain), Cow::Borrowed(text) if text == plain));
        let line = serde_json::to_string("a\\\u{9b}").unwrap();
        assert_eq!(serde_json::from_str::<String>(&visible(&line)).unwrap(), "a\\\u{9b}");
    }

    #[test]
    fn each_cause_is_said_once() {
        assert_eq!(in_full(&Outer::Silent(Inner("full"))), "it cannot be written: the disk is full");
        assert_eq!(in_full(&Outer::Quoting(Inner("full"))), "it cannot be written, as the disk is full");
    }

    #[test]
    fn what_is_older_or_other_on_the_standbys_host_is_said() {
        assert_eq!(of_older_release("b", ProtocolVersion::NEWEST), None);
        let older = of_older_release("b", ProtocolVersion::PREVIOUS).unwrap();
        assert!(older.starts_with("b has an older stealtime, of protocol version "), "{older}");
        assert_eq!(of_other_qemu("b", Some("7.2.22"), Some("7.2.22")), None);
        assert_eq!(of_other_qemu("b", None, Some("7.2.22")), None);
        let other = of_other_qemu("b", Some("7.2.19"), Some("7.2.22")).unwrap();
        assert!(other.starts_with("QEMU is \"7.2.22\" here and \"7.2.19\" on b: "), "{other}");
    }

    #[test]
    fn a_link_that_is_not_there_says_why_and_what_to_do() {
        let source = io::ErrorKind::ConnectionRefused.into();
        let text = of_link(&LinkError::Connect { peer: "tcp:b:7460".to_owned(), source });
        assert!(text.starts_with("cannot connect to tcp:b:7460: connection refused (hint: is "), "{text}");
    }
}
