//! Random task sets by published laws, from a seed.
//!
//! The same recipe and seed give the same set wherever the same version of this crate runs: the generator of
//! random numbers is PCG (XSL RR 128/64).

mod fixed_total;
mod laws;
mod partition;

pub use fixed_total::{rand_fixed_sum, uunifast_discard};
pub use laws::{PeriodLaw, UtilizationLaw};
pub use partition::{Fit, partition};

use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::error::RecipeError;
use crate::task::Task;

/// Costs and deadlines are whole microseconds and at least one, as in the source (`schedcat/generator/tasks.py`).
const MICROSECOND_NS: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Utilizations {
    /// Each task's by itself.
    PerTask(UtilizationLaw),
    /// All together: `UUniFast`, whole vectors with a task above 1 discarded.
    UUniFastDiscard { total: f64 },
    /// All together: Stafford's method.
    RandFixedSum { total: f64 },
}

/// Where relative deadlines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    /// The period.
    Implicit,
    /// Uniform from cost to period.
    Constrained,
    /// Uniform from the cost to twice the period less the cost.
    Arbitrary,
}

/// What is done with a set whose utilization exceeds the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverUtilized {
    /// Nothing.
    Keep,
    /// The whole set is drawn again, at most so often.
    Redraw { attempts: u32 },
    /// All costs are multiplied by the same factor.
    Scale,
    /// The first task that would exceed the cap and all after it are left out (`max_util` of the source).
    Shed,
}

/// How to draw one set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    pub utilizations: Utilizations,
    pub periods: PeriodLaw,
    pub deadlines: Deadlines,
    pub tasks: usize,
    /// The most that the utilizations of all tasks may add up to.
    pub cap: f64,
    pub over_utilized: OverUtilized,
    pub seed: u64,
}

/// A set and how it came about.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// In the order in which they were drawn.
    pub tasks: Vec<Task>,
    /// The utilization of the last set that was drawn, before the rule was applied to it.
    pub drawn_utilization: f64,
    /// Sets drawn, the last one included.
    pub attempts: u32,
}

/// Draw one set.
///
/// # Errors
/// [`RecipeError::Recipe`], or [`RecipeError::OverUtilized`] after the last attempt.
pub fn generate(recipe: &Recipe) -> Result<Generated, RecipeError> {
    if recipe.tasks == 0 {
        return Err(RecipeError::Recipe("a set needs at least 1 task".into()));
    }
    if !(recipe.cap.is_finite() && recipe.cap > 0.0) {
        return Err(RecipeError::Recipe(format!("the cap {} is not more than 0", recipe.cap)));
    }
    let mut random = Pcg64::seed_from_u64(recipe.seed);
    let most_attempts = match recipe.over_utilized {
        OverUtilized::Redraw { attempts } => attempts.max(1),
        _ => 1,
    };
    for attempts in 1..=most_attempts {
        let mut tasks = draw(recipe, &mut random)?;
        let drawn_utilization = utilization(&tasks);
        if drawn_utilization > recipe.cap {
            match recipe.over_utilized {
                OverUtilized::Keep => {}
                OverUtilized::Redraw { .. } => continue,
                OverUtilized::Scale => scale(&mut tasks, recipe.cap / drawn_utilization),
                OverUtilized::Shed => shed(&mut tasks, recipe.cap),
            }
        }
        return Ok(Generated { tasks, drawn_utilization, attempts });
    }
    Err(RecipeError::OverUtilized { attempts: most_attempts, cap: recipe.cap })
}

/// Sum of cost over period.
pub fn utilization(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.cost_ns as f64 / task.period_ns as f64).sum()
}

fn draw(recipe: &Recipe, random: &mut Pcg64) -> Result<Vec<Task>, RecipeError> {
    let shares = match recipe.utilizations {
        Utilizations::PerTask(_) => None,
        Utilizations::UUniFastDiscard { total } => Some(uunifast_discard(recipe.tasks, total, random)?),
        Utilizations::RandFixedSum { total } => Some(rand_fixed_sum(recipe.tasks, total, random)?),
    };
    let one = |index: usize| {
        // The source draws a task's period first, then its utilization, then its deadline.
        let period_ns = recipe.periods.draw(random);
        let share = match (recipe.utilizations, &shares) {
            (Utilizations::PerTask(law), _) => law.draw(random),
            (_, Some(shares)) => shares[index],
            (_, None) => 0.0,
        };
        make_task(period_ns, share, recipe.deadlines, random)
    };
    Ok((0..recipe.tasks).map(one).collect())
}

fn make_task(period_ns: u64, share: f64, deadlines: Deadlines, random: &mut Pcg64) -> Task {
    let exact_cost = period_ns as f64 * share;
    let spread = (period_ns as f64 - exact_cost).max(0.0);
    let deadline_ns = match deadlines {
        Deadlines::Implicit => period_ns,
        Deadlines::Constrained => whole_microseconds(exact_cost + laws::uniform(random, 0.0, spread)),
        Deadlines::Arbitrary => whole_microseconds(exact_cost + laws::uniform(random, 0.0, 2.0 * spread)),
    };
    Task { deadline_ns, ..Task::implicit(whole_microseconds(exact_cost).min(period_ns), period_ns) }
}

/// Draw tasks until their utilization is `total`; the last one's cost is cut to fit (`squeeze` of the source), and
/// the task left out if that leaves less than a microsecond.
pub fn fill(
    law: UtilizationLaw,
    periods: PeriodLaw,
    deadlines: Deadlines,
    total: f64,
    random: &mut Pcg64,
) -> Vec<Task> {
    let mut tasks = Vec::new();
    let mut sum = 0.0;
    loop {
        let period_ns = periods.draw(random);
        let share = law.draw(random);
        let mut task = make_task(period_ns, share, deadlines, random);
        let left = total - sum;
        sum += utilization(std::slice::from_ref(&task));
        if sum < total {
            tasks.push(task);
            continue;
        }
        let fits_ns = left * period_ns as f64;
        if fits_ns >= MICROSECOND_NS as f64 || tasks.is_empty() {
            task.cost_ns = whole_microseconds(fits_ns).min(task.cost_ns);
            tasks.push(task);
        }
        return tasks;
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of periods of at most a second
fn whole_microseconds(ns: f64) -> u64 {
    ((ns / MICROSECOND_NS as f64) as u64).max(1) * MICROSECOND_NS
}

fn scale(tasks: &mut [Task], factor: f64) {
    for task in tasks {
        task.cost_ns = whole_microseconds(task.cost_ns as f64 * factor);
    }
}

fn shed(tasks: &mut Vec<Task>, cap: f64) {
    let mut sum = 0.0;
    let kept = tasks.iter().take_while(|task| {
        sum += utilization(std::slice::from_ref(task));
        sum <= cap
    });
    let kept = kept.count();
    tasks.truncate(kept);
}
