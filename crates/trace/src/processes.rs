//! A recording of some processes alone: of their threads, and of all that these start meanwhile.
//!
//! The kernel compares each event's thread with a list of its own (`set_event_pid`), so that what others do costs them
//! a look at that list, and no room. Of switches and wake-ups either side may be on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::error::TraceError;
use crate::instance::Instance;

/// Looks for threads that began while the ones before were written down. Each finds those of some microseconds.
const MOST_LOOKS: u32 = 16;

/// Has the kernel record only these processes; their ids are those of `/proc`.
///
/// # Errors
/// The kernel has no such list, or one of them has no thread.
pub fn follow(instance: &Instance, processes: &[u32]) -> Result<(), TraceError> {
    // First, so that no thread begins unseen between the list and this.
    instance.write("options/event-fork", "1")?;
    let mut known = BTreeSet::new();
    for _ in 0..MOST_LOOKS {
        let now: BTreeSet<u32> = family(processes).into_iter().flat_map(threads_of).collect();
        let new: Vec<String> = now.difference(&known).map(ToString::to_string).collect();
        if new.is_empty() {
            break;
        }
        instance.write("set_event_pid", &new.join(" "))?;
        known.extend(now);
    }
    if known.is_empty() {
        let value = processes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(TraceError::Parameter { parameter: "processes", value, expected: "running".to_owned() });
    }
    Ok(())
}

/// These processes and all that came of them, as far as they are still related.
pub fn family(processes: &[u32]) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return processes.to_vec() };
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for id in ids {
        let parent = fs::read_to_string(format!("/proc/{id}/stat")).ok().and_then(|stat| parent_of(&stat));
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(id);
        }
    }
    let mut found: Vec<u32> = processes.to_vec();
    let mut next = 0;
    while let Some(&id) = found.get(next) {
        next += 1;
        let new = children.remove(&id).unwrap_or_default();
        found.extend(new.into_iter().filter(|child| !processes.contains(child)));
    }
    found
}

/// The threads of a process; none once it is gone.
pub fn threads_of(process: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The fourth field of `/proc/PID/stat`; the second, the name, may hold anything.
fn parent_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_parent_is_found_behind_any_name() {
        assert_eq!(parent_of("42 (a) b (c) S 7 42 42"), Some(7));
        assert_eq!(parent_of("42 S 7"), None);
    }

    #[test]
    fn a_program_that_is_started_belongs_to_the_family() {
        let own = std::process::id();
        let mut child = Command::new("sleep").arg("10").spawn().unwrap();
        let found = family(&[own]);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&own) && found.contains(&child.id()), "{found:?}");
        assert!(threads_of(own).contains(&own));
        assert_eq!(threads_of(0), Vec::<u32>::new());
    }
}
