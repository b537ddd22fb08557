//! Whether a thread of a load stays where it was put. A cpuset that shrinks or somebody's `taskset` moves it without a
//! word, and what it was to take from the machine beside it is taken elsewhere.
//!
//! The thread looks itself, between two rows: that takes a system call a second, or one a phase.

use std::io;

use stealtime_wire::{Finding, FindingLevel};

use crate::processor_sets::named;
use crate::scheduling;
use crate::sys::Affinity;

/// Follows the calling thread.
#[derive(Debug)]
pub struct Staying {
    put: Affinity,
    moved: Option<Moved>,
    /// When it was last seen where it belongs, by the time-stamp counter.
    seen: u64,
    migrations: Option<u64>,
}

/// A thread that was found elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub enum Moved {
    /// It may run there instead; (when it was last seen where it belongs, when it was not any more).
    To { put: Affinity, cpus: Affinity, between: (u64, u64) },
    /// The kernel has moved it so many times from the one CPU that it has.
    AndBack { put: Affinity, times: u64 },
}

impl Staying {
    /// Notes where the calling thread may run now, at `now` of the time-stamp counter.
    pub fn begin(now: u64) -> io::Result<Self> {
        Ok(Self { put: Affinity::here()?, moved: None, seen: now, migrations: scheduling::migrations() })
    }

    /// Looks whether it still may run there and nowhere else.
    pub fn look(&mut self, now: u64) {
        if self.moved.is_some() {
            return;
        }
        match Affinity::here() {
            Ok(cpus) if cpus != self.put => {
                self.moved = Some(Moved::To { put: self.put, cpus, between: (self.seen, now) });
            }
            _ => self.seen = now,
        }
    }

    /// What became of it. Of one that has one CPU the kernel's count tells whether it was away and is back.
    pub fn end(mut self, now: u64) -> Option<Moved> {
        self.look(now);
        let counts = scheduling::migrations().zip(self.migrations);
        let times = counts.map_or(0, |(after, before)| after.saturating_sub(before));
        let was_away = times > 0 && self.put.cpus().len() == 1;
        self.moved.or(was_away.then_some(Moved::AndBack { put: self.put, times }))
    }
}

/// What it means that a thread did not stay.
///
/// # Arguments
/// * `thread`: its id.
/// * `to_s`: seconds since the load began, of a reading of the time-stamp counter.
pub fn finding(thread: u32, moved: &Moved, to_s: impl Fn(u64) -> f64) -> Finding {
    let (put, what) = match moved {
        Moved::To { put, cpus, between: (seen, found) } => {
            let (seen_s, found_s) = (to_s(*seen), to_s(*found));
            let cpus = named(&cpus.cpus());
            let when = format!("between {seen_s:.2} s and {found_s:.2} s after the load began");
            (put, format!("was put on CPU {cpus} instead {when}"))
        }
        Moved::AndBack { put, times } => {
            (put, format!("was moved {times} times by the kernel meanwhile, when is not known"))
        }
    };
    Finding {
        code: "cpu_changed".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!("the load's thread {thread} was to run on CPU {}, and {what}", named(&put.cpus())),
        hint: Some("a cpuset or a taskset was changed under the load: load again when nobody does".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// On a thread of its own, which it may put where it likes.
    fn followed(what: impl FnOnce(&mut Staying) + Send) -> Option<Moved> {
        thread::scope(|scope| {
            let follow = || {
                let mut staying = Staying::begin(1_000).unwrap();
                what(&mut staying);
                staying.end(9_000)
            };
            scope.spawn(follow).join().unwrap()
        })
    }

    #[test]
    fn a_thread_that_stays_is_fine() {
        assert_eq!(followed(|staying| staying.look(2_000)), None);
    }

    #[test]
    fn a_thread_that_was_put_elsewhere_is_found_with_when() {
        let moved = followed(|staying| {
            // Whatever it has: it is not that any more.
            staying.put = Affinity::default();
            staying.look(2_000);
            staying.look(3_000);
        });
        let Some(Moved::To { between, .. }) = &moved else { panic!("{moved:?}") };
        assert_eq!(*between, (1_000, 2_000));
        let found = finding(7, &moved.unwrap(), |tsc| tsc as f64 * 1e-3);
        assert_eq!((found.code.as_str(), found.level), ("cpu_changed", FindingLevel::Invalidates));
        assert!(found.text.contains("between 1.00 s and 2.00 s after the load began"), "{}", found.text);
    }

    #[test]
    fn one_that_was_away_and_is_back_is_found_by_what_the_kernel_counted() {
        let told = |moved: &Moved| finding(7, moved, |_| 0.0).text;
        let put = Affinity::here().unwrap();
        assert!(told(&Moved::AndBack { put, times: 2 }).contains("moved 2 times by the kernel"));
    }
}
