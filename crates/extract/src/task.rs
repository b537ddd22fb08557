//! Jobs of a thread, and what is to be said of all of them.

use crate::activation::Thread;
use crate::arrival::{Arrivals, arrivals};
use crate::clock::Clock;

/// One job. Times in cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Job {
    pub woken: u64,
    /// When its timer was to expire, where one woke it.
    pub expiry_ns: Option<i64>,
    /// Where its own instructions began, and where they ended.
    pub own_started: u64,
    pub own_ended: u64,
    pub ended: u64,
    pub own: u64,
    pub ran: u64,
    pub interrupts: u64,
    pub taken: u64,
    /// Waits inside it.
    pub suspended: u64,
    /// How many activations it has: one more than waits.
    pub activations: u32,
    pub preemptions: u32,
    /// So many places of the grid until the next job: more than one, and it may hold several jobs.
    pub periods: u64,
    pub holed: bool,
    pub may_be_taken: bool,
    pub unseen_switch: bool,
}

impl Job {
    /// Whether its figures are those of one job, and whole.
    pub fn counts(&self, tells_calls: bool) -> bool {
        // Where calls are told its own instructions are known to have begun with the return of one.
        !self.holed && self.periods == 1 && (!self.unseen_switch || tells_calls)
    }
}

/// The most that a figure was, and what it was in each half of the jobs: one that still grows is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Most {
    pub most_ns: u64,
    pub first_half_ns: u64,
    pub second_half_ns: u64,
}

/// A thread as a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    pub thread: Thread,
    pub arrivals: Arrivals,
    pub jobs: Vec<Job>,
    /// Jobs that the figures are of: whole, and untouched by the host where enough are.
    pub counted: u64,
    /// Jobs with a hole in the trace.
    pub holed: u64,
    /// Jobs that ran into the next period, or whose successor never came.
    pub merged: u64,
    /// Jobs whose first switch was not told.
    pub unseen: u64,
    /// Jobs of which the host may have taken some, and what the longest took without what it certainly did.
    pub touched: u64,
    pub touched_most_ns: u64,
    /// Whether jobs that the host touched are among those counted, as too few others are left.
    pub counts_touched: bool,
    pub own: Most,
    /// With the way out of the call in which it waited, and into the next.
    pub ran: Most,
    pub interrupts_most_ns: u64,
    pub taken_most_ns: u64,
    /// The longest wait, or waits together, inside a job.
    pub suspended_most_ns: u64,
    /// Jobs with a wait inside.
    pub suspending: u64,
    /// From the programmed expiry, or else the wake-up, to the end.
    pub response_most_ns: u64,
    /// From the programmed expiry to the wake-up, where timers are known.
    pub lateness_most_ns: Option<u64>,
    pub lateness_median_ns: Option<u64>,
}

/// So many jobs that the host did not touch are enough to leave the others out.
const LEAST_UNTOUCHED: usize = 10;

/// Makes tasks of threads.
pub fn tasks(threads: Vec<Thread>, clock: &Clock) -> Vec<Task> {
    threads.into_iter().map(|thread| task(thread, clock)).collect()
}

fn task(thread: Thread, clock: &Clock) -> Task {
    let arrivals = arrivals(&thread.activations, clock);
    let jobs = jobs(&thread, &arrivals);
    let whole: Vec<&Job> = jobs.iter().filter(|job| job.counts(thread.tells_calls)).collect();
    let untouched: Vec<&Job> = whole.iter().copied().filter(|job| !job.may_be_taken).collect();
    let touched: Vec<&Job> = whole.iter().copied().filter(|job| job.may_be_taken).collect();
    let counts_touched = untouched.len() < LEAST_UNTOUCHED && !touched.is_empty();
    let counted = if counts_touched { &whole } else { &untouched };
    let most = |of: fn(&Job) -> u64| clock.ns(counted.iter().map(|job| of(job)).max().unwrap_or(0));
    let mut lateness: Vec<u64> = jobs.iter().filter(|job| !job.holed).filter_map(|job| late_ns(job, clock)).collect();
    lateness.sort_unstable();
    let response = |job: &&Job| {
        let late_ns = late_ns(job, clock).unwrap_or(0);
        late_ns + clock.ns(job.ended.saturating_sub(job.woken))
    };
    let count = |is: fn(&Job) -> bool| jobs.iter().filter(|job| is(job)).count() as u64;
    Task {
        counted: counted.len() as u64,
        holed: count(|job| job.holed),
        merged: count(|job| !job.holed && job.periods > 1),
        unseen: count(|job| job.unseen_switch),
        touched: touched.len() as u64,
        touched_most_ns: clock.ns(touched.iter().map(|job| job.own).max().unwrap_or(0)),
        counts_touched,
        own: halves(counted, |job| job.own, clock),
        ran: halves(counted, |job| job.ran, clock),
        interrupts_most_ns: most(|job| job.interrupts),
        taken_most_ns: clock.ns(whole.iter().map(|job| job.taken).max().unwrap_or(0)),
        suspended_most_ns: most(|job| job.suspended),
        suspending: counted.iter().filter(|job| job.activations > 1).count() as u64,
        response_most_ns: whole.iter().map(response).max().unwrap_or(0),
        lateness_most_ns: lateness.last().copied(),
        lateness_median_ns: lateness.get(lateness.len() / 2).copied(),
        thread,
        arrivals,
        jobs,
    }
}

fn late_ns(job: &Job, clock: &Clock) -> Option<u64> {
    Some((clock.monotonic_ns(job.woken) - job.expiry_ns?).max(0).unsigned_abs())
}

fn halves(jobs: &[&Job], of: impl Fn(&Job) -> u64, clock: &Clock) -> Most {
    let most = |jobs: &[&Job]| clock.ns(jobs.iter().map(|job| of(job)).max().unwrap_or(0));
    let (first, second) = jobs.split_at(jobs.len() / 2);
    Most { most_ns: most(jobs), first_half_ns: most(first), second_half_ns: most(second) }
}

/// All but what comes before the first arrival, and the last job, of which nobody knows whether it was over.
fn jobs(thread: &Thread, arrivals: &Arrivals) -> Vec<Job> {
    let pairs = arrivals.starts.windows(2).zip(arrivals.slots.windows(2));
    let jobs = pairs.filter_map(|(starts, slots)| {
        let within = &thread.activations[starts[0]..starts[1]];
        let (first, last) = (within.first()?, within.last()?);
        let waits = within.windows(2).map(|pair| pair[1].woken.saturating_sub(pair[0].ended));
        Some(Job {
            woken: first.woken,
            expiry_ns: first.expiry_ns,
            own_started: first.own_started,
            own_ended: last.own_ended,
            ended: last.ended,
            own: within.iter().map(|one| one.own).sum(),
            ran: within.iter().map(|one| one.ran).sum(),
            interrupts: within.iter().map(|one| one.interrupts).sum(),
            taken: within.iter().map(|one| one.taken).sum(),
            suspended: waits.sum(),
            activations: u32::try_from(within.len()).unwrap_or(u32::MAX),
            preemptions: within.iter().map(|one| one.preemptions).sum(),
            periods: slots[1] - slots[0],
            holed: within.iter().any(|one| one.holed),
            may_be_taken: within.iter().any(|one| one.may_be_taken),
            unseen_switch: within.iter().any(|one| one.unseen_switch),
        })
    });
    jobs.collect()
}
