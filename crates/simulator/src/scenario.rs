//! What comes when: the patterns that are bad for a deadline, and random ones.

use crate::machine::{Interrupt, Job, Machine, Order, Outcome};
use crate::random::Random;
use crate::service::{Reservation, Service};

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub cost: u64,
    pub period: u64,
    pub deadline: u64,
    pub jitter: u64,
    /// Under fixed priorities: lower goes first, and equal ones as they come.
    pub level: u64,
}

/// What the kernel takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// The most that a timer's interrupt is late.
    pub latency: u64,
    /// The interrupt that releases one job.
    pub release: u64,
    pub scheduling: u64,
    pub context_switch: u64,
    pub cache: u64,
    pub tick: u64,
    /// 0: there is none.
    pub tick_period: u64,
    /// From another CPU's request to its handler here.
    pub request: u64,
    /// Another CPU handles the timers and sends requests.
    pub elsewhere: bool,
    /// How long what is below all tasks may hold the CPU.
    pub blocking: u64,
}

/// Something that takes the CPU before all tasks: at most `ceil((w + jitter) / period)` times `cost` in any window w.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interferer {
    pub cost: u64,
    pub period: u64,
    pub jitter: u64,
}

/// In which order things come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// All at once, each as late after its arrival as may be, then each as early as may be; the worst service.
    Synchronous,
    /// The same, but one task so that one of its deadlines is that of another task's job.
    Placed,
    /// The same, but one task a little earlier than the others, whose section they find begun.
    Early,
    /// Everything at random within what is allowed.
    Random,
}

impl Pattern {
    pub const ALL: [Self; 4] = [Self::Synchronous, Self::Placed, Self::Early, Self::Random];
}

/// Jobs are given until about so many have come.
const MOST_JOBS: u64 = 250;

/// Simulate one pattern; by deadlines or by the levels of the tasks.
pub fn play(
    specs: &[Spec],
    kernel: &Kernel,
    reservation: Reservation,
    by_deadline: bool,
    pattern: Pattern,
    random: &mut Random,
) -> Outcome {
    play_beside(&[], specs, kernel, reservation, (by_deadline, pattern), random)
}

/// [`play`] beside what takes the CPU before all tasks.
pub fn play_beside(
    interferers: &[Interferer],
    specs: &[Spec],
    kernel: &Kernel,
    reservation: Reservation,
    (by_deadline, pattern): (bool, Pattern),
    random: &mut Random,
) -> Outcome {
    let late = kernel.latency + if kernel.elsewhere { kernel.release + kernel.request } else { 0 };
    // Before that everything may arrive that is released then, and a whole budget be given.
    let earliest = specs.iter().map(|one| one.jitter + 2 * one.period).max().unwrap_or(0);
    let earliest = interferers.iter().map(|one| one.jitter + one.period).fold(earliest, u64::max);
    let from = earliest + 2 * late + kernel.tick_period + reservation.period();
    let rate: f64 = specs.iter().map(|one| 1.0 / one.period as f64).sum();
    let longest = specs.iter().map(|one| one.period + one.jitter).max().unwrap_or(1);
    let span = ((MOST_JOBS as f64 / rate) as u64).min(20 * longest);
    let until = from + 2 * span;
    let mut interrupts = Vec::new();
    let moved = one_to_move(specs, late, pattern, random);
    for (task, one) in specs.iter().enumerate() {
        let first = from - one.jitter - late;
        match (pattern, moved) {
            (Pattern::Random, _) => random_jobs(one, (task, kernel, late), from + span, random, &mut interrupts),
            (Pattern::Early, Some((which, by))) if which == task => {
                regular_jobs(one, (task, kernel), first - by, (from - by, from + span), &mut interrupts);
            }
            (_, Some((which, by))) if which == task => {
                regular_jobs(one, (task, kernel), first + by, (from, from + span), &mut interrupts);
            }
            _ => regular_jobs(one, (task, kernel), first, (from, from + span), &mut interrupts),
        }
    }
    if kernel.tick > 0 && kernel.tick_period > 0 {
        ticks(kernel, from, until, pattern, random, &mut interrupts);
    }
    for one in interferers {
        takings(*one, (from, until), pattern, random, &mut interrupts);
    }
    // What fires at the same time is handled in any order of tasks, the jobs of each in their own.
    let places: Vec<u64> = (0..=specs.len()).map(|_| random.between(0, 1_000)).collect();
    let place = |one: &Interrupt| places[one.releases.map_or(specs.len(), |job| job.task)];
    interrupts.sort_by_key(|one| (one.fires, place(one)));
    let section = kernel.scheduling + kernel.context_switch;
    // The background has just been chosen, and then holds the CPU.
    let length = section + kernel.blocking;
    let starts: Vec<(u64, u64)> = match pattern {
        _ if length == 0 => Vec::new(),
        Pattern::Random => {
            (0..8).map(|number| (from + number * span / 8 + random.between(0, span / 8), length)).collect()
        }
        Pattern::Early => Vec::new(),
        _ => vec![(from, length)],
    };
    let service = match pattern {
        Pattern::Random => Service::random(reservation, until + 1, random),
        _ => Service::worst(reservation, from, until + 1),
    };
    let order = if by_deadline {
        Order::EarliestDeadline(specs.iter().map(|_| random.between(0, 1_000)).collect())
    } else {
        Order::FixedPriority(specs.iter().map(|one| one.level).collect())
    };
    let coalesces = random.once_in(2);
    let machine = Machine { order: &order, service: &service, section, cache: kernel.cache, coalesces };
    machine.run(&interrupts, &starts, specs.len(), until)
}

/// Which task does not begin with the others, and by how much it is moved.
fn one_to_move(specs: &[Spec], late: u64, pattern: Pattern, random: &mut Random) -> Option<(usize, u64)> {
    let any = |random: &mut Random| random.between(0, specs.len() as u64 - 1) as usize;
    let which = any(random);
    let one = specs[which];
    match pattern {
        Pattern::Synchronous | Pattern::Random => None,
        Pattern::Early => Some((which, random.between(1, 1 + one.cost.min(one.period - 1)))),
        Pattern::Placed => {
            // One of its deadlines is to be that of some job of another: both count from the common begin.
            let other = specs[any(random)];
            let due =
                i128::from(random.between(0, 5) * other.period + other.deadline) - i128::from(other.jitter + late);
            let own = i128::from(one.deadline) - i128::from(one.jitter + late);
            u64::try_from(due - own).ok().map(|place| (which, place % one.period))
        }
    }
}

/// Jobs with the least separation; none is released before a time, and all others at once.
fn regular_jobs(
    one: &Spec,
    (task, kernel): (usize, &Kernel),
    first: u64,
    (released_from, until): (u64, u64),
    into: &mut Vec<Interrupt>,
) {
    let arrivals = (0..).map(|number| first + number * one.period).take_while(|&arrival| arrival < until);
    into.extend(arrivals.map(|arrival| interrupt_of(one, task, kernel, arrival, arrival.max(released_from))));
}

/// Jobs with random phase, separation, jitter and latency.
fn random_jobs(
    one: &Spec,
    (task, kernel, late): (usize, &Kernel, u64),
    until: u64,
    random: &mut Random,
    into: &mut Vec<Interrupt>,
) {
    let lazy = if random.once_in(2) { 0 } else { random.between(0, one.period) };
    let mut arrival = random.between(0, 2 * one.period);
    let mut last = 0;
    while arrival < until {
        let delay = match random.between(0, 3) {
            0 => 0,
            1 => one.jitter + late,
            _ => random.between(0, one.jitter + late),
        };
        last = (arrival + delay).max(last);
        into.push(interrupt_of(one, task, kernel, arrival, last));
        arrival += one.period + random.between(0, lazy);
    }
}

fn interrupt_of(one: &Spec, task: usize, kernel: &Kernel, arrival: u64, fires: u64) -> Interrupt {
    let job = Job { task, arrival, deadline: arrival + one.deadline, cost: one.cost };
    Interrupt { fires, cost: if kernel.elsewhere { 0 } else { kernel.release }, releases: Some(job), is_tick: false }
}

/// As early as may be from a time on, or at random: each at its own time or late by up to the jitter.
fn takings(
    one: Interferer,
    (from, until): (u64, u64),
    pattern: Pattern,
    random: &mut Random,
    into: &mut Vec<Interrupt>,
) {
    let mut arrival = if pattern == Pattern::Random { random.between(0, one.period) } else { from - one.jitter };
    while arrival < until {
        let late = if random.once_in(3) { one.jitter } else { random.between(0, one.jitter) };
        let fires = if pattern == Pattern::Random { arrival + late } else { arrival.max(from) };
        into.push(Interrupt { fires, cost: one.cost, releases: None, is_tick: false });
        let lazy = if pattern == Pattern::Random && random.once_in(2) { random.between(0, one.period) } else { 0 };
        arrival += one.period + lazy;
    }
}

fn ticks(kernel: &Kernel, from: u64, until: u64, pattern: Pattern, random: &mut Random, into: &mut Vec<Interrupt>) {
    let is_random = pattern == Pattern::Random;
    let first = if is_random { random.between(0, kernel.tick_period) } else { from - kernel.latency.min(from) };
    let mut last = 0;
    for number in 0.. {
        let due = first + number * kernel.tick_period;
        if due >= until {
            break;
        }
        let fires = if is_random { due + random.between(0, kernel.latency) } else { due.max(from) };
        last = fires.max(last);
        into.push(Interrupt { fires: last, cost: kernel.tick, releases: None, is_tick: true });
    }
}
