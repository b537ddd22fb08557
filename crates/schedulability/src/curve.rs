//! How many random sets of one utilization are schedulable, under several conditions.

use rand_pcg::Pcg64;
use rayon::prelude::*;

use crate::analysis::{Policy, Question};
use crate::error::RecipeError;
use crate::generate::{Deadlines, PeriodLaw, UtilizationLaw, fill};
use crate::overheads::{Interrupts, Overheads};
use crate::supply::Supply;

/// Which sets are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    pub law: UtilizationLaw,
    pub periods: PeriodLaw,
    pub deadlines: Deadlines,
    pub sets: u32,
    pub seed: u64,
}

/// What each set is analysed under.
#[derive(Clone, Copy)]
pub struct Condition<'a> {
    /// By the number of tasks, from 1 on.
    pub overheads: &'a [Overheads],
    pub interrupts: Interrupts,
    pub policy: Policy,
    pub supply: &'a (dyn Supply + Sync),
}

/// What became of the sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub schedulable: u32,
    /// No verdict; they count for nothing else.
    pub not_judged: u32,
}

/// Draw the sets of one utilization and analyse each under every condition: differences are those of conditions.
///
/// Priorities are deadline-monotonic. `point` keeps the sets of one utilization apart from those of another.
///
/// # Errors
/// [`RecipeError::Recipe`]: the utilization cannot be, or a set has more tasks than there are overheads for.
pub fn count_schedulable(
    population: &Population,
    (point, utilization): (u64, f64),
    conditions: &[Condition<'_>],
) -> Result<Vec<Counted>, RecipeError> {
    if !(utilization > 0.0 && utilization <= 1.0) {
        return Err(RecipeError::Recipe(format!("a utilization of {utilization} is not within 0 and 1")));
    }
    let one = |number: u32| {
        // A stream of its own for each set: the order of computing changes nothing.
        let stream = (u128::from(point) << 32) | u128::from(number);
        let mut random = Pcg64::new(u128::from(population.seed), stream);
        let mut tasks = fill(population.law, population.periods, population.deadlines, utilization, &mut random);
        tasks.sort_by_key(|task| task.deadline_ns);
        let analysed = conditions.iter().map(|condition| {
            let overheads = tasks.len().checked_sub(1).and_then(|index| condition.overheads.get(index));
            let overheads = overheads.ok_or_else(|| {
                RecipeError::Recipe(format!("a set has {} tasks, too many for the overheads", tasks.len()))
            })?;
            let question = Question {
                interference: &[],
                tasks: &tasks,
                levels: &[],
                overheads: *overheads,
                interrupts: condition.interrupts,
                policy: condition.policy,
                supply: condition.supply,
            };
            Ok(match question.is_schedulable() {
                Ok(yes) => Counted { schedulable: u32::from(yes), not_judged: 0 },
                Err(_) => Counted { schedulable: 0, not_judged: 1 },
            })
        });
        analysed.collect::<Result<Vec<Counted>, RecipeError>>()
    };
    let sum = |mut sums: Vec<Counted>, more: Vec<Counted>| {
        for (sum, more) in sums.iter_mut().zip(more) {
            sum.schedulable += more.schedulable;
            sum.not_judged += more.not_judged;
        }
        Ok(sums)
    };
    let nothing = || vec![Counted::default(); conditions.len()];
    (0..population.sets).into_par_iter().map(one).try_reduce(nothing, sum)
}
