//! Which window decides under EDF: the first one whose demand exceeds the supply, or the one with the least slack.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::edf::{Demand, busy_period, deadline_after_release, demand_in};
use crate::error::{Error, MOST_STEPS};
use crate::load::Load;
use crate::supply::Supply;

/// A window at whose end a deadline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub window_ns: u64,
    /// What must be done in it: the jobs due, and the interrupts until they are done.
    pub demand_ns: u64,
    /// What is certainly served in it.
    pub service_ns: u64,
}

/// Find the window that decides a verdict: the shortest whose demand exceeds the service, or else that in which the
/// service exceeds the demand by least, the shortest of equal ones. None where none decides: an overload.
///
/// On a dedicated CPU no longer window has less slack than those up to the busy period and the latest deadline: what
/// is released in the busy period is done at its end, and a window from there on demands no more than one that begins
/// with all releases at once. On another supply the windows of the busy period are looked at.
pub fn deciding_window<'a, S: Supply + ?Sized>(
    load: impl Into<Load<'a>>,
    supply: &S,
    verdict: &Demand,
) -> Result<Option<Window>, Error> {
    let load = load.into();
    let Some(shortest) = load.tasks.iter().map(deadline_after_release).min() else { return Ok(None) };
    let last = match verdict {
        Demand::Overloaded => return Ok(None),
        Demand::Exceeded { window_ns, .. } => *window_ns,
        Demand::Met => {
            let latest = load.tasks.iter().map(deadline_after_release).max().unwrap_or(shortest);
            let beyond = if supply.is_dedicated() { latest } else { 0 };
            busy_period(load, supply)?.checked_add(beyond).ok_or(Error::Overflow)?.max(shortest)
        }
    };
    let mut tightest: Option<Window> = None;
    let mut deadlines = Deadlines::until(load, shortest)?;
    let mut interrupts = Interrupts::of(load);
    let mut end_ns = 0;
    for steps in 0.. {
        let window_ns = deadlines.window_ns;
        if steps >= MOST_STEPS {
            return Err(Error::NotConverged { steps, window_ns });
        }
        // When what is due is done: from where the jobs due in the last window were.
        let demand_ns = loop {
            let demand = deadlines.demand_ns.checked_add(interrupts.until(load, end_ns)?).ok_or(Error::Overflow)?;
            let longer = supply.window_for(demand)?;
            if longer > window_ns {
                let demand = deadlines.demand_ns.checked_add(load.interrupts_in(window_ns)?).ok_or(Error::Overflow)?;
                let service_ns = supply.service_in(window_ns)?;
                return Ok(Some(Window { window_ns, demand_ns: demand, service_ns }));
            }
            if longer <= end_ns {
                break demand;
            }
            end_ns = longer;
        };
        let one = Window { window_ns, demand_ns, service_ns: supply.service_in(window_ns)? };
        let slack = |one: &Window| one.service_ns - one.demand_ns;
        if tightest.as_ref().is_none_or(|least| slack(&one) < slack(least)) {
            tightest = Some(one);
        }
        if deadlines.next_window(load)?.is_none_or(|next| next > last) {
            break;
        }
    }
    Ok(tightest)
}

/// The jobs due in a window that only grows.
struct Deadlines {
    window_ns: u64,
    demand_ns: u64,
    /// Each task's next deadline.
    next: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Deadlines {
    fn until(load: Load<'_>, window_ns: u64) -> Result<Self, Error> {
        let mut next = BinaryHeap::with_capacity(load.tasks.len());
        for (index, task) in load.tasks.iter().enumerate() {
            let reach = window_ns.checked_add(task.jitter_ns).ok_or(Error::Overflow)?;
            let count = reach.checked_sub(task.deadline_ns).map_or(0, |left| left / task.period_ns + 1);
            let deadline = count.checked_mul(task.period_ns).and_then(|ns| ns.checked_add(task.deadline_ns));
            next.push(Reverse((deadline.ok_or(Error::Overflow)? - task.jitter_ns, index)));
        }
        Ok(Self { window_ns, demand_ns: demand_in(load.tasks, window_ns)?, next })
    }

    /// Let the window grow up to the next deadline, and give it.
    fn next_window(&mut self, load: Load<'_>) -> Result<Option<u64>, Error> {
        let Some(window_ns) = self.next.peek().map(|one| one.0.0) else { return Ok(None) };
        self.window_ns = window_ns;
        while let Some(mut first) = self.next.peek_mut().filter(|first| first.0.0 == window_ns) {
            let task = load.tasks[first.0.1];
            self.demand_ns = self.demand_ns.checked_add(task.cost_ns).ok_or(Error::Overflow)?;
            first.0.0 = window_ns.checked_add(task.period_ns).ok_or(Error::Overflow)?;
        }
        Ok(Some(window_ns))
    }
}

/// The interrupts in a window that only grows.
struct Interrupts {
    demand_ns: u64,
    /// Up to which window each has no more.
    unchanged_until_ns: BinaryHeap<Reverse<(u64, usize)>>,
}

impl Interrupts {
    fn of(load: Load<'_>) -> Self {
        // The one at the window's very begin is in all windows but the empty one.
        Self { demand_ns: 0, unchanged_until_ns: (0..load.interrupts.len()).map(|index| Reverse((0, index))).collect() }
    }

    fn until(&mut self, load: Load<'_>, window_ns: u64) -> Result<u64, Error> {
        while let Some(mut first) = self.unchanged_until_ns.peek_mut().filter(|first| first.0.0 < window_ns) {
            let one = load.interrupts[first.0.1];
            let counted = if first.0.0 == 0 { 0 } else { (first.0.0 + one.jitter_ns) / one.period_ns };
            let count = one.arrivals_in(window_ns)?;
            let more = (count - counted).checked_mul(one.cost_ns).ok_or(Error::Overflow)?;
            self.demand_ns = self.demand_ns.checked_add(more).ok_or(Error::Overflow)?;
            first.0.0 = count.checked_mul(one.period_ns).ok_or(Error::Overflow)? - one.jitter_ns;
        }
        Ok(self.demand_ns)
    }
}
