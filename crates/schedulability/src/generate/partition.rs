//! Which task goes to which CPU: bin packing by utilization, the largest first.

use crate::error::RecipeError;
use crate::task::Task;
use crate::utilization::{Utilization, exceeds_one};

/// Which of the CPUs that a task fits on gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    First,
    /// The one with the least room.
    Best,
    /// The one with the most room.
    Worst,
}

/// Assign each task to a CPU so that none has a utilization above 1, larger utilizations first.
///
/// # Errors
/// [`RecipeError::Recipe`]: a task fits nowhere.
pub fn partition(tasks: &[Task], cpus: usize, fit: Fit) -> Result<Vec<usize>, RecipeError> {
    let pair = |task: &Task| (task.cost_ns, task.period_ns);
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|&index| std::cmp::Reverse(Utilization::of([pair(&tasks[index])]).high));
    let mut on_cpu: Vec<Vec<(u64, u64)>> = vec![Vec::new(); cpus];
    let mut assigned = vec![0; tasks.len()];
    for index in order {
        let one = pair(&tasks[index]);
        let has_room = |cpu: &usize| {
            let mut with = on_cpu[*cpu].clone();
            with.push(one);
            !exceeds_one(&with)
        };
        let used = |cpu: &usize| Utilization::of(on_cpu[*cpu].iter().copied()).high;
        let mut candidates = (0..cpus).filter(has_room);
        let chosen = match fit {
            Fit::First => candidates.next(),
            // Of equals the first one.
            Fit::Best => candidates.min_by_key(|cpu| (std::cmp::Reverse(used(cpu)), *cpu)),
            Fit::Worst => candidates.min_by_key(|cpu| (used(cpu), *cpu)),
        };
        let Some(cpu) = chosen else {
            return Err(RecipeError::Recipe(format!(
                "a task of utilization {:.3} fits on none of {cpus} CPUs beside those before it",
                Utilization::of([one]).as_f64()
            )));
        };
        on_cpu[cpu].push(one);
        assigned[index] = cpu;
    }
    Ok(assigned)
}
