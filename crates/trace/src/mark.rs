//! The name of a tracing instance, by which a later start recognizes it and its owner.

use std::io;

use stealtime_owner::{Fate, Owner, Processes};

const PREFIX: &str = "stealtime-";

/// The name of this process's `number`-th instance.
pub fn own(number: u32) -> io::Result<String> {
    Ok(format!("{PREFIX}{}-{number}", Owner::this_process()?))
}

/// Whether a name is one of ours whose process is gone.
pub fn is_left_over(name: &str) -> bool {
    let mark = name.strip_prefix(PREFIX).and_then(|rest| Some(rest.rsplit_once('-')?.0));
    mark.and_then(|mark| mark.parse().ok()).is_some_and(|owner| Processes::default().fate(&owner) == Fate::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_owns_is_not_left_over() {
        assert!(!is_left_over(&own(0).unwrap()));
    }

    #[test]
    fn what_an_earlier_process_with_this_id_owned_is_left_over() {
        let this = Owner::this_process().unwrap();
        let earlier = Owner { start_ticks: this.start_ticks - 2, ..this };
        assert!(is_left_over(&format!("{PREFIX}{earlier}-0")), "{earlier}");
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for name in ["osnoise", "stealtime", "stealtime-mine", "stealtime-1:2-0", "stealtime-1:2:x-0"] {
            assert!(!is_left_over(name), "{name}");
        }
    }
}
