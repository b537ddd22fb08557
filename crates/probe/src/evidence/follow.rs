//! Who ran on a CPU while the probe could have, from the kernel's events in the order of time.
//!
//! Linux 6.18 leaves switches away from idling out of its events without a word (seen: all of them); that a
//! thread came then is told all the same, and who it was with the next switch. So a stretch only ends where
//! something tells that it was still going on.

/// Twelve days of pauses; more is counted as lost.
const STRETCHES_MOST: usize = 1 << 20;

/// Idling has this id.
const IDLE_THREAD: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Switch {
        previous: u32,
        /// It did not wait for anything.
        previous_could_run: bool,
        previous_is_ordinary: bool,
        next: u32,
        next_is_ordinary: bool,
    },
    /// A thread came to the CPU; numbered as this process knows it, so perhaps 0.
    Came { thread: u32 },
    Idle {
        /// Or it leaves idling.
        enters: bool,
    },
    /// Some events are missing from here on.
    Lost,
}

/// What a CPU does while the probe waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// Not known, or nothing that an ordinary thread may do.
    Else,
    Ordinary {
        thread: u32,
        since_ns: u64,
    },
    Idling {
        since_ns: u64,
    },
    /// It runs somebody who came after idling.
    Somebody {
        since_ns: u64,
    },
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// (from, to) by `CLOCK_MONOTONIC_RAW`.
    pub stretches: Vec<(u64, u64)>,
    /// How often events were lost.
    pub lost: u64,
}

/// Follows the events of some CPUs.
pub struct Follower {
    cpus: Vec<Doing>,
    /// The CPU on which the probe could run and does not.
    waits_on: Option<usize>,
    /// There is always a thread of the probe that could run.
    always_waits: bool,
    seen: Seen,
}

impl Follower {
    pub fn new(cpus: usize, always_waits: bool) -> Self {
        Self { cpus: vec![Doing::Else; cpus], waits_on: None, always_waits, seen: Seen::default() }
    }

    pub fn into_seen(self) -> Seen {
        self.seen
    }

    /// Takes the next event of the CPU at a place; `probe` is the thread that is watched.
    pub fn take(&mut self, at_ns: u64, cpu: usize, event: Event, probe: Option<u32>) {
        let doing = self.cpus[cpu];
        if let Event::Came { thread } = event
            && Some(thread) == probe
        {
            self.runs_again(at_ns, cpu);
        }
        match (event, doing) {
            (Event::Lost, _) => {
                self.seen.lost += 1;
                self.cpus[cpu] = Doing::Else;
                self.waits_on = None;
            }
            (Event::Came { thread }, Doing::Idling { since_ns }) if thread != IDLE_THREAD => {
                self.push(since_ns, at_ns);
                self.cpus[cpu] = Doing::Somebody { since_ns: at_ns };
            }
            (Event::Idle { enters: true }, _) if self.always_waits => {
                self.cpus[cpu] = Doing::Idling { since_ns: at_ns };
            }
            (Event::Idle { enters: false }, Doing::Idling { since_ns }) if self.always_waits => {
                self.push(since_ns, at_ns);
                self.cpus[cpu] = Doing::Else;
            }
            (Event::Came { .. } | Event::Idle { .. }, _) => {}
            (Event::Switch { previous, previous_could_run, previous_is_ordinary, next, next_is_ordinary }, _) => {
                match doing {
                    Doing::Ordinary { thread, since_ns } if thread == previous => self.push(since_ns, at_ns),
                    Doing::Idling { since_ns } if previous == IDLE_THREAD => self.push(since_ns, at_ns),
                    Doing::Somebody { since_ns } if previous_is_ordinary => self.push(since_ns, at_ns),
                    _ => {}
                }
                if Some(previous) == probe {
                    self.waits_on = previous_could_run.then_some(cpu);
                }
                if Some(next) == probe {
                    self.runs_again(at_ns, cpu);
                }
                self.cpus[cpu] = match (self.waits_on == Some(cpu), next) {
                    (true, IDLE_THREAD) => Doing::Idling { since_ns: at_ns },
                    (true, thread) if next_is_ordinary => Doing::Ordinary { thread, since_ns: at_ns },
                    _ => Doing::Else,
                };
            }
        }
    }

    /// The probe runs on `cpu`; where it waited on another one, what that one does is of no interest any more.
    fn runs_again(&mut self, at_ns: u64, cpu: usize) {
        let Some(place) = self.waits_on.take().filter(|&place| place != cpu) else { return };
        if let Doing::Idling { since_ns } | Doing::Ordinary { since_ns, .. } =
            std::mem::replace(&mut self.cpus[place], Doing::Else)
        {
            self.push(since_ns, at_ns);
        }
    }

    fn push(&mut self, from_ns: u64, to_ns: u64) {
        let is_full = self.seen.stretches.len() == STRETCHES_MOST;
        match self.seen.stretches.last_mut() {
            // One ordinary thread after the other.
            Some(last) if last.1 == from_ns => last.1 = to_ns,
            _ if is_full => self.seen.lost += 1,
            _ => self.seen.stretches.push((from_ns, to_ns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROBE: u32 = 70;
    const THIEF: u32 = 90;
    const HOG: u32 = 30;
    const OTHER: u32 = 31;

    fn switch(previous: u32, next: u32) -> Event {
        let [previous_is_ordinary, next_is_ordinary] = [previous, next].map(|thread| thread < 50);
        Event::Switch { previous, previous_could_run: true, previous_is_ordinary, next, next_is_ordinary }
    }

    fn followed(cpus: usize, events: &[(u64, usize, Event)]) -> Seen {
        let mut follower = Follower::new(cpus, false);
        for &(at_ns, cpu, event) in events {
            follower.take(at_ns, cpu, event, Some(PROBE));
        }
        follower.into_seen()
    }

    fn stretches(events: &[(u64, Event)]) -> Vec<(u64, u64)> {
        followed(1, &events.iter().map(|&(at_ns, event)| (at_ns, 0, event)).collect::<Vec<_>>()).stretches
    }

    #[test]
    fn ordinary_threads_and_idling_in_place_of_the_probe_are_evidence() {
        let idle = [(10, switch(PROBE, 0)), (60, switch(0, PROBE))];
        assert_eq!(stretches(&idle), [(10, 60)]);
        let served = [(10, switch(PROBE, HOG)), (30, switch(HOG, OTHER)), (60, switch(OTHER, PROBE))];
        assert_eq!(stretches(&served), [(10, 60)], "one after the other is one stretch");
    }

    #[test]
    fn a_thief_of_higher_priority_is_none() {
        assert!(stretches(&[(10, switch(PROBE, THIEF)), (50, switch(THIEF, PROBE))]).is_empty());
        let within =
            [(10, switch(PROBE, HOG)), (20, switch(HOG, THIEF)), (60, switch(THIEF, HOG)), (70, switch(HOG, PROBE))];
        assert_eq!(stretches(&within), [(10, 20), (60, 70)]);
    }

    #[test]
    fn who_runs_while_the_probe_waits_for_something_tells_nothing() {
        // Stopped by a signal, say.
        let Event::Switch { previous, previous_is_ordinary, next, next_is_ordinary, .. } = switch(PROBE, 0) else {
            unreachable!()
        };
        let stopped =
            Event::Switch { previous, previous_could_run: false, previous_is_ordinary, next, next_is_ordinary };
        assert!(stretches(&[(10, stopped), (60, switch(0, PROBE))]).is_empty());
        // Before the probe is there at all.
        assert!(stretches(&[(10, switch(HOG, 0)), (60, switch(0, HOG))]).is_empty());
    }

    #[test]
    fn who_comes_after_idling_is_told_by_the_switch_away_from_it() {
        let came = |at, thread| (at, Event::Came { thread });
        // Idling, an ordinary thread, idling, the probe again; the switches away from idling are left out.
        let pause = [
            (10, switch(PROBE, 0)),
            came(10, 0),
            came(20, HOG),
            (30, switch(HOG, 0)),
            came(60, PROBE),
            (900, switch(PROBE, THIEF)),
            came(900, THIEF),
        ];
        assert_eq!(stretches(&pause), [(10, 60)]);
        let thief = [(10, switch(PROBE, 0)), came(20, THIEF), (60, switch(THIEF, PROBE)), came(60, PROBE)];
        assert_eq!(stretches(&thief), [(10, 20)]);
    }

    #[test]
    fn what_nothing_tells_the_end_of_proves_nothing() {
        assert!(stretches(&[(10, switch(PROBE, 0)), (300, switch(THIEF, PROBE))]).is_empty());
        assert!(stretches(&[(10, switch(PROBE, HOG)), (300, switch(THIEF, PROBE))]).is_empty());
        assert!(stretches(&[(10, switch(PROBE, HOG))]).is_empty());
    }

    #[test]
    fn lost_events_end_what_is_known() {
        let seen = followed(1, &[(10, 0, switch(PROBE, 0)), (20, 0, Event::Lost), (60, 0, switch(0, PROBE))]);
        assert_eq!(seen, Seen { stretches: vec![], lost: 1 });
    }

    #[test]
    fn a_probe_that_goes_to_another_cpu_waits_no_longer() {
        for arrival in [switch(OTHER, PROBE), Event::Came { thread: PROBE }] {
            let events = [(10, 0, switch(PROBE, HOG)), (15, 1, arrival), (90, 0, switch(HOG, OTHER))];
            assert_eq!(followed(2, &events).stretches, [(10, 15)], "{arrival:?}");
        }
    }

    #[test]
    fn a_ring_is_stopped_where_its_cpu_idles() {
        let mut follower = Follower::new(1, true);
        for (at_ns, enters) in [(5, false), (10, true), (60, false), (70, true)] {
            follower.take(at_ns, 0, Event::Idle { enters }, None);
        }
        assert_eq!(follower.into_seen().stretches, [(10, 60)]);
    }
}
