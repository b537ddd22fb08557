//! One set drawn by the simulator, what the analysis says of it, and what the simulator shows of that.

#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of random sets are far below 2^53")]

use stealtime_schedulability::{
    Accounting, Constrained, Dedicated, Demand, Error, Interrupts, Linear, Overheads, Response, Solver, Supply, Task,
    Workload, charge_fixed_priority, demand_verdict, edf_responses,
};
use stealtime_simulator::{Drawn, Kernel, Pattern, Random, Reservation, Scale, Spec, draw, play};

/// Something that an analysis could get wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Interrupts are counted as if each came when its job arrives.
    InterruptsWithoutJitter,
    NoTick,
    NoReleases,
    /// Latency and release do not make a job late.
    NoLatency,
    /// A response is counted from the release on, as in `SchedCAT`'s fixed-priority test.
    FromRelease,
    /// A job costs one switch instead of two.
    OneSwitch,
    NoCaches,
    NoBlocking,
    /// The share of the CPU comes without any wait.
    NoWait,
    /// `SchedCAT`'s preemption-centric accounting, in which interrupts slow jobs down: EDF here before 2026-11-27.
    SlowedDown,
}

impl Fault {
    pub const ALL: [Self; 10] = [
        Self::InterruptsWithoutJitter,
        Self::NoTick,
        Self::NoReleases,
        Self::NoLatency,
        Self::FromRelease,
        Self::OneSwitch,
        Self::NoCaches,
        Self::NoBlocking,
        Self::NoWait,
        Self::SlowedDown,
    ];
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Case {
    pub drawn: Drawn,
    pub accounting: Accounting,
    /// EDF; otherwise fixed priorities.
    pub by_deadline: bool,
}

/// What an analysis says.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// None: it does not know.
    pub accepted: Option<bool>,
    /// Of the responses, where there is one.
    pub bounds: Vec<Option<u64>>,
}

/// What the simulator shows.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Of each task.
    pub longest: Vec<u64>,
    pub missed: bool,
    /// What contradicts the analysis.
    pub contradictions: Vec<String>,
}

impl Case {
    pub fn draw(random: &mut Random, scale: Scale) -> Self {
        let accounting = if random.once_in(4) { Accounting::Stretch } else { Accounting::Job };
        Self { drawn: draw(random, scale), accounting, by_deadline: false }
    }

    /// Ten tasks of implicit deadlines and the overheads of an ordinary kernel on a whole CPU, under EDF.
    pub fn ordinary(random: &mut Random, percent: u32) -> Self {
        let kernel = Kernel {
            latency: 30_000,
            release: 10_000,
            scheduling: 5_000,
            context_switch: 5_000,
            cache: 10_000,
            tick: 5_000,
            tick_period: 1_000_000,
            ..Kernel::default()
        };
        let mut specs = Vec::new();
        let mut left = f64::from(percent) / 100.0;
        for number in 0..10 {
            let rest = if number == 9 { 0.0 } else { left * random.share().powf(1.0 / f64::from(9 - number)) };
            let period = random.between(10, 100) * 1_000_000;
            let cost = (((left - rest) * period as f64) as u64).max(1);
            specs.push(Spec { cost, period, deadline: period, jitter: 0, level: 0 });
            left = rest;
        }
        let drawn = Drawn { specs, kernel, reservation: Reservation::Whole };
        Self { drawn, accounting: Accounting::Job, by_deadline: true }
    }

    pub fn tasks(&self) -> Vec<Task> {
        let blocking_ns = if self.by_deadline { 0 } else { self.drawn.kernel.blocking };
        let task = |one: &Spec| Task {
            cost_ns: one.cost,
            period_ns: one.period,
            deadline_ns: one.deadline,
            jitter_ns: one.jitter,
            blocking_ns,
        };
        self.drawn.specs.iter().map(task).collect()
    }

    pub fn levels(&self) -> Vec<u32> {
        self.drawn.specs.iter().map(|one| u32::try_from(one.level).unwrap()).collect()
    }

    pub fn overheads(&self) -> Overheads {
        let kernel = self.drawn.kernel;
        Overheads {
            event_latency_ns: kernel.latency,
            release_ns: kernel.release,
            scheduling_ns: kernel.scheduling,
            context_switch_ns: kernel.context_switch,
            tick_ns: kernel.tick,
            tick_period_ns: kernel.tick_period,
            inter_processor_interrupt_ns: kernel.request,
            cache_preemption_ns: kernel.cache,
        }
    }

    pub fn interrupts(&self) -> Interrupts {
        if self.drawn.kernel.elsewhere { Interrupts::OnAnotherCpu } else { Interrupts::Here }
    }

    pub fn supply(&self) -> Box<dyn Supply> {
        match self.drawn.reservation {
            Reservation::Whole => Box::new(Dedicated),
            Reservation::Periodic { period, budget, deadline } => {
                Box::new(Constrained::new(period, budget, deadline).unwrap())
            }
            Reservation::Bounded { service, span, delay } => Box::new(Linear::new(service, span, delay).unwrap()),
        }
    }

    /// Ask the analysis.
    pub fn analyse(&self) -> Ruling {
        self.rule(&self.workload(), &*self.supply())
    }

    /// Ask the analysis with a fault in it.
    pub fn analyse_with(&self, fault: Fault) -> Ruling {
        let mut workload = self.workload();
        let mut supply = self.supply();
        let kernel = self.drawn.kernel;
        let switch = kernel.scheduling + kernel.context_switch;
        let has_tick = kernel.tick > 0;
        match fault {
            Fault::InterruptsWithoutJitter => workload.interrupts.iter_mut().for_each(|one| one.jitter_ns = 0),
            Fault::NoTick => drop(workload.interrupts.drain(..usize::from(has_tick))),
            Fault::NoReleases => workload.interrupts.truncate(usize::from(has_tick)),
            Fault::NoLatency => {
                for (task, spec) in workload.tasks.iter_mut().zip(&self.drawn.specs) {
                    task.jitter_ns = spec.jitter;
                }
            }
            Fault::OneSwitch => workload.tasks.iter_mut().for_each(|task| task.cost_ns -= switch.min(task.cost_ns - 1)),
            Fault::NoCaches => {
                workload.tasks.iter_mut().for_each(|task| task.cost_ns -= kernel.cache.min(task.cost_ns - 1));
            }
            Fault::NoBlocking => workload.tasks.iter_mut().for_each(|task| task.blocking_ns = 0),
            Fault::NoWait => {
                supply = match self.drawn.reservation {
                    Reservation::Whole => Box::new(Dedicated),
                    Reservation::Periodic { period, budget, .. } => Box::new(Linear::new(budget, period, 0).unwrap()),
                    Reservation::Bounded { service, span, .. } => Box::new(Linear::new(service, span, 0).unwrap()),
                }
            }
            Fault::SlowedDown => workload = self.slowed_down(),
            Fault::FromRelease => {}
        }
        let mut ruling = self.rule(&workload, &*supply);
        if fault == Fault::FromRelease {
            for (bound, task) in ruling.bounds.iter_mut().zip(&workload.tasks) {
                *bound = bound.map(|ns| ns - task.jitter_ns.min(ns));
            }
        }
        ruling
    }

    pub fn workload(&self) -> Workload {
        // What is charged per stretch is charged under fixed priorities alone.
        let accounting = if self.by_deadline { Accounting::Job } else { self.accounting };
        let workload = charge_fixed_priority(&self.tasks(), &self.overheads(), self.interrupts(), accounting).unwrap();
        Workload { levels: self.levels(), ..workload }
    }

    /// Costs divided by what interrupts leave on the average, with their worst twice.
    fn slowed_down(&self) -> Workload {
        let kernel = self.drawn.kernel;
        let specs = &self.drawn.specs;
        let tick = if kernel.tick > 0 { kernel.tick as f64 / kernel.tick_period as f64 } else { 0.0 };
        let (releases, number): (f64, f64) = if kernel.elsewhere {
            (0.0, 0.0)
        } else {
            (specs.iter().map(|one| kernel.release as f64 / one.period as f64).sum(), specs.len() as f64)
        };
        let left = (1.0 - tick - releases).max(0.01);
        let worst =
            (kernel.tick as f64 + number * kernel.release as f64 + kernel.latency as f64 * (tick + releases)) / left;
        let per_job = 2 * (kernel.scheduling + kernel.context_switch) + kernel.cache;
        let request = if kernel.elsewhere { kernel.request + kernel.release } else { 0 };
        let charged = |task: &Task| Task {
            cost_ns: ((task.cost_ns + per_job) as f64 / left + 2.0 * worst).ceil() as u64 + request,
            period_ns: task.period_ns.saturating_sub(kernel.latency).max(1),
            deadline_ns: task.deadline_ns.saturating_sub(kernel.latency).max(1),
            ..*task
        };
        Workload { tasks: self.tasks().iter().map(charged).collect(), levels: self.levels(), ..Workload::default() }
    }

    fn rule(&self, workload: &Workload, supply: &dyn Supply) -> Ruling {
        if self.by_deadline {
            let verdict = demand_verdict(workload, supply);
            let is_bounded = !matches!(verdict, Ok(Demand::Overloaded));
            let bounds = if is_bounded {
                edf_responses(workload, supply)
            } else {
                vec![Err(Error::Overloaded); workload.tasks.len()]
            };
            return Ruling {
                accepted: verdict.ok().map(|one| one == Demand::Met),
                bounds: bounds.into_iter().map(Result::ok).collect(),
            };
        }
        let mut responses = Vec::new();
        let mut solver = Solver::default();
        solver.responses(workload, supply, &mut responses);
        let bound = |one: &Response| if let Response::Bounded(ns) = *one { Some(ns) } else { None };
        Ruling { accepted: solver.meets_all(workload, supply).ok(), bounds: responses.iter().map(bound).collect() }
    }

    /// Play patterns, and compare.
    pub fn show(&self, ruling: &Ruling, random: &mut Random) -> Shown {
        let mut shown = Shown { longest: vec![0; ruling.bounds.len()], missed: false, contradictions: Vec::new() };
        let Drawn { specs, kernel, reservation } = &self.drawn;
        // Under EDF it is judged by windows, and bounds no responses.
        let blocking = if self.by_deadline { 0 } else { kernel.blocking };
        let kernel = &Kernel { blocking, ..*kernel };
        for pattern in Pattern::ALL.into_iter().chain([Pattern::Placed]) {
            let outcome = play(specs, kernel, *reservation, self.by_deadline, pattern, random);
            shown.missed |= outcome.missed.is_some();
            if let (Some(true), Some((task, arrival))) = (ruling.accepted, outcome.missed) {
                shown
                    .contradictions
                    .push(format!("{pattern:?}: task {task} misses its deadline, arrived at {arrival}"));
            }
            for (task, (&seen, bound)) in outcome.longest.iter().zip(&ruling.bounds).enumerate() {
                shown.longest[task] = shown.longest[task].max(seen);
                if let Some(bound) = bound.filter(|&bound| seen > bound) {
                    shown.contradictions.push(format!("{pattern:?}: task {task} responds after {seen}, bound {bound}"));
                }
            }
        }
        shown
    }
}
