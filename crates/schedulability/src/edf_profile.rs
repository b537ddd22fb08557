//! The responses under EDF: how late the work of each deadline ends in the one schedule that is worst for all of them.
//!
//! M. Spuri, "Analysis of Deadline Scheduled Real-Time Systems" (INRIA RR-2772, 1996): the longest response of a task
//! is that of a job somewhere in a busy period of all jobs whose deadline is not later, which the *other* tasks begin
//! all at once, each as late after its arrival as it may be. Spuri searches each task's place in it. That busy period
//! depends on the deadline alone and not on whose it is: for a deadline `t` after the begin it is the first moment at
//! which EDF, given the synchronous jobs of all tasks, has none left that is due by `t`. So one such schedule gives
//! the ends for all `t`, and with them all responses: `R = D + max(end(t) - t)` over `t >= D - J`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::error::{Error, MOST_STEPS};
use crate::load::Load;
use crate::supply::Supply;
use crate::task::Task;

/// So many arrivals are followed at most: what waits for long work is kept in memory, and most works for as long as it
/// takes to come.
const MOST_ARRIVALS: u32 = 8 * MOST_STEPS;

/// A step of the function from a deadline to the end of the busy period of jobs that are due by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// From this deadline on, counted from the begin of the busy period: before it, if the jitter exceeds the deadline.
    deadline_ns: i64,
    end_ns: u64,
}

/// Bound the response, from arrival to end, of each task; deadlines may be missed.
///
/// The load must not exceed the supply in the long run.
///
/// # Errors
/// [`Error::Overflow`], [`Error::NotConverged`] or [`Error::NotObserved`]: of all tasks alike.
pub fn edf_responses<'a, S: Supply + ?Sized>(load: impl Into<Load<'a>>, supply: &S) -> Vec<Result<u64, Error>> {
    let load = load.into();
    let steps = match steps(load, supply, |_| true) {
        Ok(steps) => steps,
        Err(error) => return vec![Err(error); load.tasks.len()],
    };
    // The most that an end exceeds its deadline, of this step and all later ones.
    let mut latest = vec![i64::MIN; steps.len()];
    let mut most = i64::MIN;
    for (late, step) in latest.iter_mut().zip(&steps).rev() {
        most = most.max(step.end_ns.cast_signed().saturating_sub(step.deadline_ns));
        *late = most;
    }
    let one = |task: &Task| {
        let deadline = signed(task.deadline_ns)?;
        let first = deadline.checked_sub(signed(task.jitter_ns)?).ok_or(Error::Overflow)?;
        // The first step is at the least of all these.
        let at = steps.partition_point(|step| step.deadline_ns <= first).saturating_sub(1);
        let Some(step) = steps.get(at) else { return Err(Error::Overflow) };
        let own = step.end_ns.cast_signed().checked_sub(first).ok_or(Error::Overflow)?;
        let late = latest.get(at + 1).map_or(own, |&later| own.max(later));
        let response = deadline.checked_add(late).ok_or(Error::Overflow)?;
        u64::try_from(response).map_err(|_| Error::Overflow)
    };
    load.tasks.iter().map(one).collect()
}

/// What may hold the CPU when a busy period begins, in windows from `from_ns` on and shorter than `until_ns`.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_field_names, reason = "each says its unit")]
pub(crate) struct Blocked {
    pub from_ns: u64,
    /// None: all longer windows.
    pub until_ns: Option<u64>,
    pub blocking_ns: u64,
}

/// As [`edf_responses`], where of a busy period of jobs that are due by `t` something may be in front that is due
/// later: what `blocked` has for the window `t`. All windows from the shortest on must be in one of these.
///
/// The end of such a busy period is that of the synchronous schedule which first does what blocks; between the
/// deadlines of jobs it stays, so that the response is longest at the first window of a step or of `blocked`.
pub(crate) fn blocked_edf_responses<S: Supply + ?Sized>(
    load: Load<'_>,
    supply: &S,
    blocked: &[Blocked],
) -> Result<Vec<Result<u64, Error>>, Error> {
    // Of each task the most that an end exceeds the deadline of its busy period.
    let mut latest = vec![i64::MIN; load.tasks.len()];
    let mut shortest = Vec::with_capacity(load.tasks.len());
    for task in load.tasks {
        shortest.push(signed(task.deadline_ns)?.checked_sub(signed(task.jitter_ns)?).ok_or(Error::Overflow)?);
    }
    for one in blocked {
        // Windows before the begin are of jobs that are late already when they are released.
        let from = if one.from_ns == 0 { i64::MIN } else { signed(one.from_ns)? };
        let until = one.until_ns.map_or(Ok(i64::MAX), signed)?;
        let steps = blocked_steps(load, supply, one.blocking_ns, |step| step.deadline_ns < until)?;
        for (late, &own) in latest.iter_mut().zip(&shortest) {
            let first = own.max(from);
            if first >= until {
                continue;
            }
            let at = steps.partition_point(|step| step.deadline_ns <= first).saturating_sub(1);
            let Some(step) = steps.get(at) else { return Err(Error::Overflow) };
            let begins = steps[at + 1..].iter().map(|step| (step.deadline_ns, step.end_ns));
            for (deadline, end_ns) in begins.chain([(first, step.end_ns)]).filter(|&(deadline, _)| deadline < until) {
                *late = (*late).max(signed(end_ns)?.saturating_sub(deadline));
            }
        }
    }
    let one = |(task, &late): (&Task, &i64)| {
        let response = signed(task.deadline_ns)?.checked_add(late).ok_or(Error::Overflow)?;
        u64::try_from(response).map_err(|_| Error::Overflow)
    };
    Ok(load.tasks.iter().zip(&latest).map(one).collect())
}

/// The shortest window in which jobs are due that end after it; None where all are in time.
pub(crate) fn first_late_window<S: Supply + ?Sized>(load: Load<'_>, supply: &S) -> Result<Option<u64>, Error> {
    let in_time = |step: &Step| step.end_ns.cast_signed() <= step.deadline_ns;
    let found = steps(load, supply, in_time)?;
    let last = found.last().filter(|step| !in_time(step));
    Ok(last.map(|step| u64::try_from(step.deadline_ns).unwrap_or(0)))
}

/// What is to be done at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Arriving {
    Interrupt(usize),
    Job(usize, i64),
}

/// The synchronous schedule, in the order of deadlines; it ends with the busy period, or after a step that is not
/// `wanted`.
fn steps<S: Supply + ?Sized>(load: Load<'_>, supply: &S, wanted: impl Fn(&Step) -> bool) -> Result<Vec<Step>, Error> {
    blocked_steps(load, supply, 0, wanted)
}

/// [`steps`] of a schedule that first has something else to do.
fn blocked_steps<S: Supply + ?Sized>(
    load: Load<'_>,
    supply: &S,
    blocking_ns: u64,
    wanted: impl Fn(&Step) -> bool,
) -> Result<Vec<Step>, Error> {
    let mut coming: BinaryHeap<Reverse<(u64, Arriving)>> = BinaryHeap::new();
    coming.extend((0..load.interrupts.len()).map(|index| Reverse((0, Arriving::Interrupt(index)))));
    let mut from = i64::MAX;
    for (index, task) in load.tasks.iter().enumerate() {
        let deadline = signed(task.deadline_ns)?.checked_sub(signed(task.jitter_ns)?).ok_or(Error::Overflow)?;
        from = from.min(deadline);
        coming.push(Reverse((0, Arriving::Job(index, deadline))));
    }
    let mut schedule = Schedule {
        coming,
        jobs: BinaryHeap::new(),
        interrupts_ns: blocking_ns,
        served_ns: 0,
        number: Numbers::of(load),
        arrived: 0,
    };
    let mut found = Vec::new();
    for count in 0.. {
        let Some(end_ns) = schedule.next_completion(load, supply)? else { break };
        let next = schedule.jobs.peek().map_or(i64::MAX, |one| one.0.0);
        if next > from && schedule.interrupts_ns == 0 {
            let step = Step { deadline_ns: from, end_ns };
            found.push(step);
            if !wanted(&step) {
                break;
            }
            from = next;
        }
        if count >= MOST_STEPS {
            return Err(Error::NotConverged { steps: count, window_ns: end_ns });
        }
    }
    Ok(found)
}

/// How many of each source have come.
struct Numbers {
    interrupts: Vec<u64>,
    jobs: Vec<u64>,
}

impl Numbers {
    fn of(load: Load<'_>) -> Self {
        Self { interrupts: vec![0; load.interrupts.len()], jobs: vec![0; load.tasks.len()] }
    }
}

struct Schedule {
    coming: BinaryHeap<Reverse<(u64, Arriving)>>,
    /// Deadline, and what is left to do.
    jobs: BinaryHeap<Reverse<(i64, u64)>>,
    /// What is left of interrupts, and of what blocks.
    interrupts_ns: u64,
    /// All work done.
    served_ns: u64,
    number: Numbers,
    arrived: u32,
}

impl Schedule {
    /// Go on until a job or all interrupts are done, and give the time; None where nothing is left.
    fn next_completion<S: Supply + ?Sized>(&mut self, load: Load<'_>, supply: &S) -> Result<Option<u64>, Error> {
        loop {
            let left = match (self.interrupts_ns, self.jobs.peek()) {
                (0, Some(&Reverse((_, left)))) => left,
                (0, None) => 0,
                (interrupts, _) => interrupts,
            };
            let until = self.served_ns.checked_add(left).ok_or(Error::Overflow)?;
            let end_ns = supply.window_for(until)?;
            // What comes at the very end begins another busy period, unless there is something left.
            let next = self.coming.peek().map(|one| one.0.0).filter(|&at| at < end_ns || (at == 0 && end_ns == 0));
            let Some(at) = next else {
                if left == 0 {
                    return Ok(None);
                }
                self.work(left);
                return Ok(Some(end_ns));
            };
            let served = supply.service_in(at)?.clamp(self.served_ns, until) - self.served_ns;
            self.work(served);
            self.arrive(load, at)?;
        }
    }

    fn work(&mut self, served: u64) {
        self.served_ns += served;
        if self.interrupts_ns > 0 {
            self.interrupts_ns -= served;
        } else if let Some(mut first) = self.jobs.peek_mut() {
            first.0.1 -= served;
            if first.0.1 == 0 {
                std::collections::binary_heap::PeekMut::pop(first);
            }
        }
    }

    /// Take all that comes at a time.
    fn arrive(&mut self, load: Load<'_>, at: u64) -> Result<(), Error> {
        while let Some(mut first) = self.coming.peek_mut().filter(|first| first.0.0 == at) {
            self.arrived += 1;
            if self.arrived > MOST_ARRIVALS {
                return Err(Error::NotConverged { steps: self.arrived, window_ns: at });
            }
            let following = match first.0.1 {
                Arriving::Interrupt(index) => {
                    let one = load.interrupts[index];
                    self.interrupts_ns = self.interrupts_ns.checked_add(one.cost_ns).ok_or(Error::Overflow)?;
                    let number = &mut self.number.interrupts[index];
                    *number += 1;
                    (after(*number, one.period_ns, one.jitter_ns)?, Arriving::Interrupt(index))
                }
                Arriving::Job(index, deadline) => {
                    let task = load.tasks[index];
                    self.jobs.push(Reverse((deadline, task.cost_ns)));
                    let number = &mut self.number.jobs[index];
                    *number += 1;
                    let next = deadline.checked_add(signed(task.period_ns)?).ok_or(Error::Overflow)?;
                    (after(*number, task.period_ns, task.jitter_ns)?, Arriving::Job(index, next))
                }
            };
            first.0 = following;
        }
        Ok(())
    }
}

/// When the arrival with so many before it comes, the first as late as it may and the others as early.
fn after(number: u64, period_ns: u64, jitter_ns: u64) -> Result<u64, Error> {
    Ok(number.checked_mul(period_ns).ok_or(Error::Overflow)?.saturating_sub(jitter_ns))
}

fn signed(ns: u64) -> Result<i64, Error> {
    i64::try_from(ns).map_err(|_| Error::Overflow)
}
