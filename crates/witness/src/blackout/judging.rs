//! From silences to blackouts: which are longer than is usual on the path, which this machine made itself, and within
//! which bounds the other side was gone.
//!
//! The last answer before a silence was given while all was well, and so was the first after it. In between lies what
//! is known of the other side's absence: it began after that answer, and at most a round trip *r* after the first
//! probe was sent that had none (it may have taken the answer of a probe that had passed). It ended after the last
//! probe was sent that had none, and before the first answer; if that was held, when it came. So it has a least and a
//! most length; the middle is told. They are 2 *i* + *r* apart (*i* is the interval; of held probes *i* + *r*), and
//! more if a probe at one of its ends was sent late. What the path's delay varies by comes on top.

use serde::Serialize;

use crate::blackout::line::{LEAST_INTERVALS, Line, ProbedSilence};
use crate::blackout::pace::Pause;
use crate::silence::Silence;

/// What is usual on a path: this share of its answers comes so little later than due, of those that do not come
/// together with others. A blackout makes one long step and then a burst, so that many of them do not change it.
const USUAL: f64 = 0.95;

/// No silence up to this is a blackout unless a shorter threshold is asked for, however short the interval is: a
/// scheduler or a hypervisor keeps an answer for as long.
const LEAST_NS: u64 = 3_000_000;

/// How often what is usual must be exceeded, besides the intervals.
const USUAL_TIMES: u64 = 2;

/// A time in which clients saw nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Blackout {
    /// The last answer before it, by the client's `CLOCK_MONOTONIC`.
    pub from_monotonic_ns: u64,
    /// The first answer after it, or the end of listening.
    pub to_monotonic_ns: u64,
    pub ended: bool,
    /// How long the other side was gone: the middle between the least and the most that it can be.
    pub length_ns: u64,
    pub at_least_ns: u64,
    pub at_most_ns: u64,
    /// How much of it this machine stood still itself, at its ends: what is longer than the threshold is not in
    /// `length_ns`.
    pub own_pause_ns: u64,
    /// Probes that were due in it.
    pub sent: u64,
    /// Of these, those that were never answered, came after a later one, or came again.
    pub lost: u64,
    pub reordered: u64,
    pub duplicated: u64,
}

/// A silence that may be this machine's own.
#[expect(clippy::struct_field_names, reason = "units are part of the names")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    pub from_monotonic_ns: u64,
    pub silence_ns: u64,
    /// How long this machine stood still in it.
    pub own_pause_ns: u64,
}

/// What was found on a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    pub usual_ns: u64,
    pub threshold_ns: u64,
    pub blackouts: Vec<Blackout>,
    pub unjudged: Vec<Unjudged>,
}

/// How a line's answers are stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// By the kernel, when they came.
    Kernel,
    /// By this process, when it was running; or by the kernel, for several of them together.
    Process,
}

/// Judges all silences of a line that has finished.
pub fn judge(line: &Line, stamps: Stamps, threshold_ns: Option<u64>) -> Judged {
    let usual_ns = line.excess.value_at_quantile(USUAL);
    let threshold_ns =
        threshold_ns.unwrap_or((LEAST_INTERVALS * line.interval_ns).max(LEAST_NS) + USUAL_TIMES * usual_ns);
    let pauses = pauses_as_seen(line, stamps);
    let mut judged = Judged { usual_ns, threshold_ns, blackouts: Vec::new(), unjudged: Vec::new() };
    for probed in line.long_silences.items.iter().filter(|probed| probed.silence.length_ns() > threshold_ns) {
        let silence = &probed.silence;
        let (from_ns, to_ns) = witnessed(silence, &pauses, threshold_ns);
        if to_ns.saturating_sub(from_ns) > threshold_ns {
            judged.blackouts.push(blackout(line, probed, to_ns - from_ns, threshold_ns));
        } else {
            judged.unjudged.push(Unjudged {
                from_monotonic_ns: silence.from_ns,
                silence_ns: silence.length_ns(),
                own_pause_ns: covered(silence, &pauses),
            });
        }
    }
    judged
}

/// In which times answers fail to come because of our own pauses: what was not asked is not answered a trip later, and
/// where the process stamps what it takes in, that is late too.
fn pauses_as_seen(line: &Line, stamps: Stamps) -> Vec<Pause> {
    let trip_ns = line.fastest_ns();
    let from_ns = |pause: &Pause| pause.from_ns + if stamps == Stamps::Kernel { trip_ns } else { 0 };
    let seen = line.pauses.items.iter().map(|pause| Pause { from_ns: from_ns(pause), to_ns: pause.to_ns + trip_ns });
    seen.collect()
}

/// The part of a silence in which this machine asked, and was not answered. A pause at one of its ends is cut off: what
/// lies before or after it is no longer than what is usual, and so proves nothing. A pause between two times of
/// proven silence changes nothing.
fn witnessed(silence: &Silence, pauses: &[Pause], slack_ns: u64) -> (u64, u64) {
    let (mut from_ns, mut to_ns) = (silence.from_ns, silence.to_ns);
    let beside = around(silence, pauses);
    for pause in beside {
        if pause.from_ns <= from_ns + slack_ns {
            from_ns = from_ns.max(pause.to_ns);
        }
    }
    for pause in beside.iter().rev() {
        if pause.to_ns + slack_ns >= to_ns {
            to_ns = to_ns.min(pause.from_ns);
        }
    }
    (from_ns, to_ns)
}

fn covered(silence: &Silence, pauses: &[Pause]) -> u64 {
    let within = |pause: &Pause| pause.to_ns.min(silence.to_ns).saturating_sub(pause.from_ns.max(silence.from_ns));
    around(silence, pauses).iter().map(within).sum()
}

/// The pauses that touch a silence; they are in their order, and do not overlap but for the time of a trip.
fn around<'pauses>(silence: &Silence, pauses: &'pauses [Pause]) -> &'pauses [Pause] {
    let first = pauses.partition_point(|pause| pause.to_ns <= silence.from_ns);
    let end = pauses.partition_point(|pause| pause.from_ns < silence.to_ns);
    &pauses[first..end.max(first)]
}

fn blackout(line: &Line, probed: &ProbedSilence, witnessed_ns: u64, slack_ns: u64) -> Blackout {
    let ProbedSilence { silence, first_sent_ns, lasted_until_ns, first, end } = *probed;
    let at_least_ns = lasted_until_ns.saturating_sub(first_sent_ns + line.fastest_ns()).min(witnessed_ns);
    let own_pause_ns = silence.length_ns() - witnessed_ns;
    // A short pause of our own leaves an end of it unsure, as an interval does. A long one would be blamed on them.
    let longest_ns = if own_pause_ns <= slack_ns { silence.length_ns() } else { witnessed_ns };
    Blackout {
        from_monotonic_ns: silence.from_ns,
        to_monotonic_ns: silence.to_ns,
        ended: silence.ended,
        length_ns: at_least_ns.midpoint(longest_ns),
        at_least_ns,
        at_most_ns: silence.length_ns(),
        own_pause_ns,
        sent: line.sent_within(first, end),
        lost: line.lost_within(first, end),
        reordered: line.reordered.within(first, end),
        duplicated: line.duplicated.within(first, end),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::blackout::line::tests::{late_line_of, line_of};
    use crate::blackout::pace::Pace;

    const MS: u64 = 1_000_000;

    fn lengths(judged: &Judged) -> Vec<u64> {
        judged.blackouts.iter().map(|blackout| blackout.length_ns).collect()
    }

    #[test]
    fn an_even_path_has_no_blackout() {
        let mut line = line_of(10_000, |number| Some(200_000 + number % 7 * 10_000));
        line.finish(9_999 * MS + 300_000);
        let judged = judge(&line, Stamps::Kernel, None);
        assert_eq!((judged.blackouts.len(), judged.unjudged.len()), (0, 0));
        assert!((3 * MS..4 * MS).contains(&judged.threshold_ns), "{}", judged.threshold_ns);
    }

    #[test]
    fn answers_that_come_in_bursts_are_usual_where_they_always_do() {
        // As of a guest whose output is held until its checkpoint, which is taken ten times a second.
        let burst_ns = |number: u64| Some((100 - number % 100) * MS);
        let line = line_of(10_000, burst_ns);
        let judged = judge(&line, Stamps::Kernel, None);
        assert_eq!((judged.usual_ns / MS, judged.blackouts.len()), (99, 0), "{judged:?}");
        assert_eq!(judge(&line, Stamps::Kernel, Some(50 * MS)).blackouts.len(), 99, "but it can be asked for");
        // A failover of which the output of three epochs is held.
        let failover =
            |number: u64| Some(if (1000..1300).contains(&number) { (1300 - number) * MS } else { burst_ns(number)? });
        let judged = judge(&line_of(10_000, failover), Stamps::Kernel, None);
        assert_eq!((judged.blackouts.len(), lengths(&judged)[0] / MS), (1, 299), "{judged:?}");
    }

    #[test]
    fn many_blackouts_do_not_become_usual() {
        let line = line_of(10_000, |number| (number % 60 >= 5).then_some(0));
        assert_eq!(judge(&line, Stamps::Kernel, None).blackouts.len(), 166);
    }

    #[test]
    fn an_end_that_nobody_saw_is_said() {
        let mut line = line_of(1000, |number| (number < 900).then_some(0));
        line.finish(1000 * MS);
        let judged = judge(&line, Stamps::Kernel, None);
        let [blackout] = judged.blackouts[..] else { panic!("{judged:?}") };
        assert!(!blackout.ended);
        assert_eq!((blackout.length_ns, blackout.lost), (100 * MS, 100));
    }

    #[test]
    fn what_any_scheduler_does_is_no_blackout_however_short_the_interval_is() {
        let mut line = Line::new(0, MS / 2).unwrap();
        let mut pace = Pace::new(0, MS / 2);
        for number in 0..1000 {
            let turn = pace.take(number * MS / 2).unwrap();
            line.sent(&turn, turn.due_ns, true);
            if !(100..104).contains(&number) {
                line.answered(number, turn.due_ns);
            }
        }
        assert_eq!(judge(&line, Stamps::Kernel, None).blackouts, []);
        assert_eq!(lengths(&judge(&line, Stamps::Kernel, Some(2 * MS))), [2 * MS]);
    }

    /// A line whose client stands still in `pause` (numbers of probes), and whose other side in `gap`.
    fn paused_line(pause: std::ops::Range<u64>, gap: std::ops::Range<u64>) -> Line {
        let mut line = Line::new(0, MS).unwrap();
        let mut pace = Pace::new(0, MS);
        for number in (0..1000).filter(|number| !pause.contains(number)) {
            let turn = pace.take(number * MS + 10).unwrap();
            line.sent(&turn, turn.due_ns + 10, true);
            if !gap.contains(&number) {
                line.answered(number, turn.due_ns + 200_000);
            }
        }
        line
    }

    #[test]
    fn our_own_pause_is_no_blackout() {
        let judged = judge(&paused_line(100..150, 0..0), Stamps::Kernel, None);
        assert_eq!(judged.blackouts, []);
        let [unjudged] = judged.unjudged[..] else { panic!("{judged:?}") };
        assert_eq!(unjudged.silence_ns, 51 * MS);
        assert!((49 * MS..=51 * MS).contains(&unjudged.own_pause_ns), "{unjudged:?}");
    }

    #[test]
    fn of_a_blackout_beside_our_own_pause_only_what_was_witnessed_is_told() {
        let judged = judge(&paused_line(100..150, 150..170), Stamps::Kernel, None);
        let [blackout] = judged.blackouts[..] else { panic!("{judged:?}") };
        assert!((18 * MS..=20 * MS).contains(&blackout.length_ns), "{blackout:?}");
        assert_eq!(blackout.at_most_ns, 71 * MS);
        assert!(blackout.own_pause_ns >= 49 * MS);
        // A short one leaves the end unsure: the middle is told.
        let judged = judge(&paused_line(117..119, 100..117), Stamps::Kernel, None);
        let [blackout] = judged.blackouts[..] else { panic!("{judged:?}") };
        assert!(blackout.own_pause_ns > MS, "{blackout:?}");
        assert!(blackout.at_least_ns.midpoint(blackout.at_most_ns).abs_diff(blackout.length_ns) <= 1, "{blackout:?}");
        // Between two times of proven silence it proves nothing, and takes nothing away.
        let judged = judge(&paused_line(150..160, 100..200), Stamps::Process, None);
        assert_eq!((judged.blackouts.len(), judged.blackouts[0].at_most_ns), (1, 101 * MS), "{judged:?}");
        assert!(judged.blackouts[0].at_least_ns > 98 * MS, "{judged:?}");
    }

    #[test]
    fn the_first_lost_and_then_the_others_held_is_a_hold() {
        let line = line_of(1000, |number| match number {
            100 => None,
            101..150 => Some((150 - number) * MS),
            _ => Some(0),
        });
        let judged = judge(&line, Stamps::Kernel, None);
        let [found] = judged.blackouts[..] else { panic!("{judged:?}") };
        assert_eq!((found.at_least_ns, found.at_most_ns, found.lost), (50 * MS, 51 * MS, 1));
    }

    #[test]
    fn what_was_sent_late_is_known_by_when_it_was_sent() {
        // The first that is lost, and the first that is answered again.
        let late_ns = |number| match number {
            101 => 300_000,
            120 => 900_000,
            _ => 0,
        };
        let line = late_line_of(1000, late_ns, |number| (!(101..120).contains(&number)).then_some(0));
        let judged = judge(&line, Stamps::Kernel, None);
        let [found] = judged.blackouts[..] else { panic!("{judged:?}") };
        assert_eq!((found.at_least_ns, found.length_ns, found.at_most_ns), (17_700_000, 19_300_000, 20_900_000));
    }

    #[test]
    fn the_least_length_takes_the_fastest_round_trip_to_the_nanosecond() {
        let (from_ns, to_ns, trip_ns) = (145_480_464, 149_480_464, 2_469_889);
        let late_ns = |number: u64| number * 7919 * 7919 % 23_591;
        let line = late_line_of(1000, late_ns, |number| {
            let leaves_ns = number * MS + late_ns(number) + trip_ns;
            let is_in_it = (from_ns..to_ns).contains(&leaves_ns);
            Some(if is_in_it { trip_ns + to_ns - leaves_ns } else { trip_ns })
        });
        let judged = judge(&line, Stamps::Kernel, None);
        let [found] = judged.blackouts[..] else { panic!("{judged:?}") };
        assert!(found.at_least_ns <= to_ns - from_ns, "{found:?}");
    }

    proptest! {
        /// Whenever the other side goes and comes back, whether it holds or drops: what is told is within its bounds.
        #[test]
        fn a_blackout_is_within_its_bounds(
            from_ns in 100 * MS..200 * MS, length_ns in 4 * MS..300 * MS, trip_ns in 0..5 * MS, holds: bool,
            latest_ns in 1..MS / 2,
        ) {
            let to_ns = from_ns + length_ns;
            // Sent late by this and that, but less than half an interval.
            let late_ns = |number: u64| number * 7919 * 7919 % latest_ns;
            let leaves_ns = |number: u64| number * MS + late_ns(number) + trip_ns;
            let line = late_line_of(1000, late_ns, |number| {
                // It is the answer that is not let through.
                let leaves_ns = leaves_ns(number);
                let is_in_it = (from_ns..to_ns).contains(&leaves_ns);
                if is_in_it { holds.then_some(trip_ns + to_ns - leaves_ns) } else { Some(trip_ns) }
            });
            let judged = judge(&line, Stamps::Kernel, None);
            prop_assert_eq!(judged.blackouts.len(), 1);
            let found = judged.blackouts[0];
            prop_assert!(found.at_least_ns <= length_ns && length_ns <= found.at_most_ns);
            prop_assert!(found.length_ns.abs_diff(length_ns) <= MS + latest_ns / 2 + trip_ns / 2 + 1);
            prop_assert!(found.from_monotonic_ns <= from_ns && to_ns <= found.to_monotonic_ns);
            let lost = (0..1000).filter(|number| (from_ns..to_ns).contains(&leaves_ns(*number))).count() as u64;
            prop_assert_eq!(found.lost, if holds { 0 } else { lost });
            prop_assert_eq!(found.reordered, 0);
        }
    }
}
