//! The name by which a later start knows an instance of ours, and whose it is.

use std::fs;

const PREFIX: &str = "stealtime-";

/// A process, told from a later one with the same id by when it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    process: u32,
    start_ticks: u64,
}

impl Owner {
    /// The process with this id, if it lives.
    fn living(process: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        Some(Self { process, start_ticks: living_since(&stat)? })
    }
}

/// When a process started, in clock ticks since boot; `None` for one that has ended and waits for its parent's look.
fn living_since(stat: &str) -> Option<u64> {
    // The name is in parentheses and may hold any character (proc_pid_stat(5)): count from the last one on.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(start)
}

/// The name of this process's `number`-th instance.
pub fn own(number: u32) -> String {
    let owner = Owner::living(std::process::id());
    format!("{PREFIX}{}-{}-{number}", std::process::id(), owner.map_or(0, |owner| owner.start_ticks))
}

/// Whether a name is one of ours whose process is gone.
pub fn is_left_over(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else { return false };
    let mut parts = rest.split('-');
    let (Some(process), Some(start)) = (parts.next(), parts.next()) else { return false };
    match (process.parse(), start.parse()) {
        (Ok(process), Ok(start_ticks)) => Owner::living(process) != Some(Owner { process, start_ticks }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_owns_is_not_left_over() {
        assert!(!is_left_over(&own(0)));
    }

    #[test]
    fn what_an_earlier_process_with_this_id_owned_is_left_over() {
        let name = own(0);
        let mut parts: Vec<&str> = name.split('-').collect();
        parts[2] = "1";
        assert!(is_left_over(&parts.join("-")), "{parts:?}");
        // Process ids end at 2^22 (PID_MAX_LIMIT), so this one never lives.
        assert!(is_left_over("stealtime-4194305-1-0"));
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for name in ["osnoise", "stealtime", "stealtime-mine", "stealtime-x-1-0"] {
            assert!(!is_left_over(name), "{name}");
        }
    }

    #[test]
    fn a_process_that_has_ended_owns_nothing() {
        let stat =
            |state: &str| format!("7 (a) b) {state} 1 7 7 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4242 0 0");
        assert_eq!(living_since(&stat("S")), Some(4242));
        assert_eq!(living_since(&stat("Z")), None);
    }
}
