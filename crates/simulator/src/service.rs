//! When the CPU is there.

use crate::random::Random;

/// What somebody has been promised of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    Whole,
    /// `budget` in every `period`, within `deadline` of its begin.
    Periodic {
        period: u64,
        budget: u64,
        deadline: u64,
    },
    /// At least `(window - delay) service / span` in every window.
    Bounded {
        service: u64,
        span: u64,
        delay: u64,
    },
}

impl Reservation {
    /// After which it repeats itself.
    pub fn period(self) -> u64 {
        match self {
            Self::Whole => 0,
            Self::Periodic { period, .. } => period,
            Self::Bounded { span, .. } => span,
        }
    }
}

/// Stretches of time in which the CPU is there, in order.
#[derive(Clone, Debug)]
pub enum Service {
    Always,
    Stretches(Vec<(u64, u64)>),
}

impl Service {
    /// As bad as the reservation allows from `from` on, which is a period or later; before it the CPU was there as
    /// early as it could be.
    pub fn worst(reservation: Reservation, from: u64, until: u64) -> Self {
        match reservation {
            Reservation::Whole => Self::Always,
            Reservation::Periodic { period, budget, deadline } => {
                // All budgets until then are as early as they may be, all others as late.
                let mut stretches = vec![(from - budget, from)];
                let mut begin = from - budget + period;
                while let Some(earlier) = stretches[stretches.len() - 1].0.checked_sub(period) {
                    stretches.push((earlier, earlier + budget));
                }
                stretches.reverse();
                while begin < until {
                    stretches.push((begin + deadline - budget, begin + deadline));
                    begin += period;
                }
                Self::Stretches(joined(stretches))
            }
            Reservation::Bounded { service, span, delay } => {
                let mut stretches = vec![(0, from)];
                // One unit after the other, each when the line from the delay's end on has reached it.
                for unit in 1.. {
                    let end = from + delay + (unit * span).div_ceil(service);
                    if end > until {
                        break;
                    }
                    stretches.push((end - 1, end));
                }
                Self::Stretches(joined(stretches))
            }
        }
    }

    /// At some phase, each budget anywhere in its period, whole or in two pieces.
    pub fn random(reservation: Reservation, until: u64, random: &mut Random) -> Self {
        let (period, budget, deadline) = match reservation {
            Reservation::Whole => return Self::Always,
            Reservation::Periodic { period, budget, deadline } => (period, budget, deadline),
            Reservation::Bounded { service, span, delay } => {
                if service == span {
                    return Self::Always;
                }
                // A periodic one whose longest wait, twice what is left of its period, is no longer than the delay.
                let most = (delay / 2 / (span - service)).max(1);
                let times = random.between(1, most);
                if 2 * times * (span - service) > delay {
                    return Self::worst(reservation, 0, until);
                }
                (times * span, times * service, times * span)
            }
        };
        let mut stretches = Vec::new();
        let mut begin = random.between(0, period);
        stretches.push((0, begin));
        while begin < until {
            let room = deadline - budget;
            let first = if random.once_in(3) { random.between(0, budget) } else { budget };
            let wait = random.between(0, room);
            let again = random.between(0, room - wait);
            stretches.push((begin + wait, begin + wait + first));
            stretches.push((begin + wait + first + again, begin + wait + again + budget));
            begin += period;
        }
        Self::Stretches(joined(stretches))
    }
}

/// Without empty stretches; those that touch become one.
fn joined(stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(stretches.len());
    for (start, end) in stretches.into_iter().filter(|(start, end)| start < end) {
        match all.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => all.push((start, end)),
        }
    }
    all
}

/// Goes through a service in the order of time.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    service: &'a Service,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn of(service: &'a Service) -> Self {
        Self { service, at: 0 }
    }

    /// Do `work` from `now` on, but not beyond `limit`: how much was done, and when that was over.
    ///
    /// None where the service is not known so far.
    pub(crate) fn advance(&mut self, now: u64, work: u64, limit: u64) -> Option<(u64, u64)> {
        let Service::Stretches(stretches) = self.service else {
            let done = work.min(limit - now);
            return Some((done, now + done));
        };
        let mut now = now;
        let mut left = work;
        loop {
            let &(start, end) = stretches.get(self.at)?;
            if end <= now {
                self.at += 1;
                continue;
            }
            now = now.max(start.min(limit));
            let done = left.min(end.min(limit).saturating_sub(now));
            now += done;
            left -= done;
            if left == 0 || now >= limit {
                return Some((work - left, now));
            }
        }
    }
}
