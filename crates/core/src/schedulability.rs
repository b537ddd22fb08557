//! `stealtime-schedulability` for Python: dictionaries of whole nanoseconds in and out.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use stealtime_schedulability::generate::{
    self, Deadlines, Fit, OverUtilized, PeriodLaw, Recipe, UtilizationLaw, Utilizations,
};
use stealtime_schedulability::{
    Accounting, Combined, Condition, Constrained, Counted, Dedicated, Demand, Envelope, Error, Interference,
    Interrupts, Linear, Margin, Observed, Overhead, Overheads, PARTS_PER_MILLION, Part, Policy, Population, Question,
    RecipeError, Response, Supply, Task, Verdict, Windows, count_schedulable, influences, largest_scale,
    smallest_budget,
};

use crate::errors::wrong;
use crate::events::rows;

/// One task: cost, period, deadline, jitter, blocking.
type TaskArgument = (u64, u64, u64, u64, u64);

/// A question as Python asks it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct QuestionArgument {
    tasks: Vec<TaskArgument>,
    /// Of each task; neighbours of the same one have the same priority.
    #[pyo3(default)]
    levels: Vec<u32>,
    overheads: Vec<(String, u64)>,
    /// Of each: cost, period, jitter.
    #[pyo3(default)]
    interference: Vec<(u64, u64, u64)>,
    tick_period_ns: u64,
    interrupts: String,
    policy: String,
    supply: SupplyArgument,
}

/// What the CPU gives.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct SupplyArgument {
    kind: String,
    parameters: Vec<u64>,
    points: Vec<(u64, u64)>,
    parts: Vec<SupplyArgument>,
}

/// What sets are analysed under.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct ConditionArgument {
    overheads: Vec<[u64; Overhead::ALL.len()]>,
    tick_period_ns: u64,
    interrupts: String,
    policy: String,
    supply: SupplyArgument,
}

/// Which sets are drawn for a curve.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct PopulationArgument {
    law: String,
    periods: String,
    deadlines: String,
    sets: u32,
    seed: u64,
}

/// How to draw a set, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RecipeArgument {
    law: String,
    total: Option<f64>,
    periods: String,
    deadlines: String,
    tasks: usize,
    cap: f64,
    over_utilized: String,
    attempts: u32,
    seed: u64,
}

fn unknown(what: &str, name: &str) -> PyErr {
    PyValueError::new_err(format!("{name:?} is no {what}"))
}

fn interrupts_of(name: &str) -> PyResult<Interrupts> {
    match name {
        "here" => Ok(Interrupts::Here),
        "on another CPU" => Ok(Interrupts::OnAnotherCpu),
        other => Err(unknown("place of interrupts", other)),
    }
}

fn policy_of(name: &str) -> PyResult<Policy> {
    match name {
        "fixed-priority by job" => Ok(Policy::FixedPriority(Accounting::Job)),
        "fixed-priority by stretch" => Ok(Policy::FixedPriority(Accounting::Stretch)),
        "edf" => Ok(Policy::EarliestDeadlineFirst),
        other => Err(unknown("policy", other)),
    }
}

fn deadlines_of(name: &str) -> PyResult<Deadlines> {
    match name {
        "implicit" => Ok(Deadlines::Implicit),
        "constrained" => Ok(Deadlines::Constrained),
        "arbitrary" => Ok(Deadlines::Arbitrary),
        other => Err(unknown("law of deadlines", other)),
    }
}

fn law_of(name: &str) -> PyResult<UtilizationLaw> {
    UtilizationLaw::named(name).ok_or_else(|| unknown("law", name))
}

fn periods_of(name: &str) -> PyResult<PeriodLaw> {
    PeriodLaw::named(name).ok_or_else(|| unknown("law of periods", name))
}

/// The question with everything but its supply read.
pub(crate) struct Asked {
    tasks: Vec<Task>,
    levels: Vec<u32>,
    overheads: Overheads,
    interference: Vec<Interference>,
    interrupts: Interrupts,
    policy: Policy,
    supply: Box<dyn Supply + Send + Sync>,
}

impl Asked {
    pub(crate) fn read(argument: &QuestionArgument) -> PyResult<Self> {
        let task = |&(cost_ns, period_ns, deadline_ns, jitter_ns, blocking_ns): &TaskArgument| Task {
            cost_ns,
            period_ns,
            deadline_ns,
            jitter_ns,
            blocking_ns,
        };
        let mut overheads = Overheads { tick_period_ns: argument.tick_period_ns, ..Overheads::default() };
        for (name, ns) in &argument.overheads {
            let overhead = Overhead::ALL.into_iter().find(|one| one.name() == name);
            overheads = overheads.with(overhead.ok_or_else(|| unknown("overhead", name))?, *ns);
        }
        let (interrupts, policy) = (interrupts_of(&argument.interrupts)?, policy_of(&argument.policy)?);
        let supply = argument.supply.read()?;
        let tasks: Vec<Task> = argument.tasks.iter().map(task).collect();
        let levels = argument.levels.clone();
        if !levels.is_empty() && levels.len() != tasks.len() {
            return Err(PyValueError::new_err(format!(
                "{} levels are not those of {} tasks",
                levels.len(),
                tasks.len()
            )));
        }
        let one = |&(cost_ns, period_ns, jitter_ns)| Interference { cost_ns, period_ns, jitter_ns };
        let interference = argument.interference.iter().map(one).collect();
        Ok(Self { tasks, levels, overheads, interference, interrupts, policy, supply })
    }

    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            tasks: &self.tasks,
            levels: &self.levels,
            overheads: self.overheads,
            interference: &self.interference,
            interrupts: self.interrupts,
            policy: self.policy,
            supply: &*self.supply,
        }
    }
}

impl SupplyArgument {
    fn read(&self) -> PyResult<Box<dyn Supply + Send + Sync>> {
        Ok(match (self.kind.as_str(), self.parameters.as_slice()) {
            ("dedicated", []) => Box::new(Dedicated),
            ("periodic", &[period, budget, deadline]) => {
                Box::new(Constrained::new(period, budget, deadline).map_err(wrong)?)
            }
            ("combined", []) => {
                let part = |one: &Self| Ok(Part { supply: one.read()?, missing: one.missing()? });
                Box::new(Combined::new(self.parts.iter().map(part).collect::<PyResult<Vec<_>>>()?))
            }
            ("linear", &[service, span, delay]) => Box::new(Linear::new(service, span, delay).map_err(wrong)?),
            ("windows", &[frame]) => Box::new(Windows::new(frame, &self.points).map_err(wrong)?),
            ("observed", missing) if missing.len() % 2 == 0 => {
                let missing = missing.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                Box::new(Envelope::from_points(self.points.clone(), missing).map_err(wrong)?)
            }
            (other, _) => return Err(unknown("supply", other)),
        })
    }

    /// What it takes in the long run at most, and of how much time.
    fn missing(&self) -> PyResult<(u64, u64)> {
        let largest = |pairs: &[u64]| {
            let pairs = pairs.chunks_exact(2).map(|pair| (pair[0], pair[1]));
            pairs.max_by(|a, b| (u128::from(a.0) * u128::from(b.1)).cmp(&(u128::from(b.0) * u128::from(a.1))))
        };
        Ok(match (self.kind.as_str(), self.parameters.as_slice()) {
            ("dedicated", []) => (0, 1),
            ("periodic", &[period, budget, _]) => (period.saturating_sub(budget), period),
            ("observed", missing) => largest(missing).unwrap_or((0, 1)),
            ("windows", &[frame]) => {
                (frame.saturating_sub(self.points.iter().map(|&(_, length)| length).sum::<u64>()), frame)
            }
            (other, _) => return Err(unknown("part of a supply", other)),
        })
    }
}

pub(crate) fn millionths(margin: Margin) -> Option<u64> {
    match margin {
        Margin::Factor(millionths) | Margin::AtLeast(millionths) => Some(millionths),
        Margin::None => None,
    }
}

/// A bound, what it is at least, and why there is none: whether it is unbounded, and the words.
pub(crate) type ResponseRow = (Option<u64>, u64, Option<(bool, String)>);

fn row(response: Response) -> ResponseRow {
    match response {
        Response::Bounded(ns) => (Some(ns), ns, None),
        Response::AtLeast(ns, error) => (None, ns, Some((error == Error::Overloaded, error.to_string()))),
    }
}

pub(crate) fn row_of_bound(bound: Result<u64, Error>) -> ResponseRow {
    row(bound.map_or_else(|error| Response::AtLeast(0, error), Response::Bounded))
}

/// Analyse one CPU's tasks.
#[pyfunction]
pub fn analyze_tasks(py: Python<'_>, question: QuestionArgument) -> PyResult<Bound<'_, PyDict>> {
    let asked = Asked::read(&question)?;
    let verdict = py.detach(|| asked.question().answer()).map_err(wrong)?;
    let dictionary = PyDict::new(py);
    match verdict {
        Verdict::Responses(responses) => {
            dictionary.set_item("responses", responses.into_iter().map(row).collect::<Vec<_>>())?;
        }
        Verdict::Demand(demand) => {
            let details = py.detach(|| asked.question().demand_details(&demand)).map_err(wrong)?;
            let name = match demand {
                Demand::Met => "met",
                Demand::Overloaded => "overloaded",
                Demand::Exceeded { .. } => "exceeded",
            };
            dictionary.set_item("demand", name)?;
            let (deciding, reason) = match details.deciding {
                Ok(window) => (window.map(|one| (one.window_ns, one.demand_ns, one.service_ns)), None),
                Err(error) => (None, Some(error.to_string())),
            };
            dictionary.set_item("deciding", deciding)?;
            dictionary.set_item("deciding_because", reason)?;
            dictionary.set_item("responses", details.responses.into_iter().map(row_of_bound).collect::<Vec<_>>())?;
        }
    }
    Ok(dictionary)
}

/// Find the largest factor of all costs, in millionths.
#[pyfunction]
pub fn cost_margin(py: Python<'_>, question: QuestionArgument) -> PyResult<Option<u64>> {
    let asked = Asked::read(&question)?;
    py.detach(|| largest_scale(&asked.question())).map(millionths).map_err(wrong)
}

/// Find the largest factor of all costs, in millionths, and whether one millionth more is known to be too much.
#[pyfunction]
pub fn cost_margin_and_edge(py: Python<'_>, question: QuestionArgument) -> PyResult<(Option<u64>, bool)> {
    let asked = Asked::read(&question)?;
    let margin = py.detach(|| largest_scale(&asked.question())).map_err(wrong)?;
    Ok((millionths(margin), !matches!(margin, Margin::AtLeast(_))))
}

/// Find the same factor without each of the overheads.
#[pyfunction]
pub fn overhead_influences(
    py: Python<'_>,
    question: QuestionArgument,
) -> PyResult<Vec<(&'static str, u64, Option<u64>)>> {
    let asked = Asked::read(&question)?;
    let found = py.detach(|| influences(&asked.question())).map_err(wrong)?;
    Ok(found.into_iter().map(|one| (one.overhead.name(), one.ns, millionths(one.margin_without))).collect())
}

/// Find the smallest budget of a periodic resource.
#[pyfunction]
pub fn least_budget(py: Python<'_>, question: QuestionArgument, period_ns: u64) -> PyResult<Option<u64>> {
    let asked = Asked::read(&question)?;
    py.detach(|| smallest_budget(&asked.question(), period_ns)).map_err(wrong)
}

/// One observation: how long, begin and length of each gap, and by how much later it may have come.
type ObservationArgument<'py> = (u64, PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, u64>, u64);

/// Points of the least service of all windows of some observations.
#[pyfunction]
pub fn service_envelope(
    py: Python<'_>,
    observations: Vec<ObservationArgument<'_>>,
    most_points: usize,
) -> PyResult<Vec<(u64, u64)>> {
    let read = |(observed_ns, begins, lengths, slip_ns): &ObservationArgument<'_>| {
        let (begins, lengths) = (rows(begins)?, rows(lengths)?);
        if begins.len() != lengths.len() {
            return Err(PyValueError::new_err(format!("{} begins and {} lengths", begins.len(), lengths.len())));
        }
        let gaps: Vec<(u64, u64)> = begins.iter().copied().zip(lengths.iter().copied()).collect();
        Observed::new(*observed_ns, &gaps).map(|one| one.slipping(*slip_ns)).map_err(wrong)
    };
    let observations = observations.iter().map(read).collect::<PyResult<Vec<_>>>()?;
    let envelope = py.detach(|| Envelope::over(&observations, most_points)).map_err(wrong)?;
    Ok(envelope.points().to_vec())
}

/// Draw a task set.
#[pyfunction]
pub fn generate_tasks(py: Python<'_>, recipe: RecipeArgument) -> PyResult<Bound<'_, PyDict>> {
    let utilizations = match (recipe.law.as_str(), recipe.total) {
        ("uunifast-discard", Some(total)) => Utilizations::UUniFastDiscard { total },
        ("randfixedsum", Some(total)) => Utilizations::RandFixedSum { total },
        (name, _) => Utilizations::PerTask(law_of(name)?),
    };
    let over_utilized = match recipe.over_utilized.as_str() {
        "keep" => OverUtilized::Keep,
        "redraw" => OverUtilized::Redraw { attempts: recipe.attempts },
        "scale" => OverUtilized::Scale,
        "shed" => OverUtilized::Shed,
        other => return Err(unknown("rule for over-utilized sets", other)),
    };
    let recipe = Recipe {
        utilizations,
        periods: periods_of(&recipe.periods)?,
        deadlines: deadlines_of(&recipe.deadlines)?,
        tasks: recipe.tasks,
        cap: recipe.cap,
        over_utilized,
        seed: recipe.seed,
    };
    let found = py.detach(|| generate::generate(&recipe)).map_err(wrong)?;
    let dictionary = PyDict::new(py);
    let tasks = found.tasks.iter().map(|task| (task.cost_ns, task.period_ns, task.deadline_ns));
    dictionary.set_item("tasks", tasks.collect::<Vec<_>>())?;
    dictionary.set_item("drawn_utilization", found.drawn_utilization)?;
    dictionary.set_item("attempts", found.attempts)?;
    Ok(dictionary)
}

/// Count the schedulable sets of each utilization under each condition, and those that are not judged.
#[pyfunction]
pub fn count_schedulable_sets(
    py: Python<'_>,
    population: PopulationArgument,
    utilizations: Vec<f64>,
    conditions: Vec<ConditionArgument>,
) -> PyResult<Vec<Vec<(u32, u32)>>> {
    let population = Population {
        law: law_of(&population.law)?,
        periods: periods_of(&population.periods)?,
        deadlines: deadlines_of(&population.deadlines)?,
        sets: population.sets,
        seed: population.seed,
    };
    let overheads: Vec<Vec<Overheads>> = conditions.iter().map(ConditionArgument::overheads).collect();
    let supplies = conditions.iter().map(|one| one.supply.read()).collect::<PyResult<Vec<_>>>()?;
    let conditions = conditions
        .iter()
        .zip(overheads.iter().zip(&supplies))
        .map(|(one, (overheads, supply))| {
            let (interrupts, policy) = (interrupts_of(&one.interrupts)?, policy_of(&one.policy)?);
            Ok(Condition { overheads, interrupts, policy, supply: &**supply })
        })
        .collect::<PyResult<Vec<_>>>()?;
    let counted = py.detach(|| {
        let points = (0..).zip(&utilizations);
        points.map(|(point, &utilization)| count_schedulable(&population, (point, utilization), &conditions)).collect()
    });
    let counted: Vec<Vec<Counted>> = Result::map_err(counted, |error: RecipeError| wrong(error))?;
    let pairs = |one: Vec<Counted>| one.iter().map(|one| (one.schedulable, one.not_judged)).collect();
    Ok(counted.into_iter().map(pairs).collect())
}

impl ConditionArgument {
    /// By the number of tasks, from 1 on.
    fn overheads(&self) -> Vec<Overheads> {
        let none = Overheads { tick_period_ns: self.tick_period_ns, ..Overheads::default() };
        let of = |row: &[u64; Overhead::ALL.len()]| {
            Overhead::ALL.into_iter().zip(row).fold(none, |sum, (overhead, &ns)| sum.with(overhead, ns))
        };
        self.overheads.iter().map(of).collect()
    }
}

/// Assign tasks, pairs of cost and period, to CPUs.
#[pyfunction]
pub fn partition_tasks(tasks: Vec<(u64, u64)>, cpus: usize, fit: &str) -> PyResult<Vec<usize>> {
    let fit = match fit {
        "first" => Fit::First,
        "best" => Fit::Best,
        "worst" => Fit::Worst,
        other => return Err(unknown("heuristic", other)),
    };
    let tasks: Vec<Task> = tasks.into_iter().map(|(cost, period)| Task::implicit(cost, period)).collect();
    tasks.iter().enumerate().try_for_each(|(index, task)| task.check(index)).map_err(wrong)?;
    generate::partition(&tasks, cpus, fit).map_err(wrong)
}

/// Adds the names that files and options use.
pub fn add_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("OVERHEADS", Overhead::ALL.map(Overhead::name).to_vec())?;
    module.add("UTILIZATION_LAWS", UtilizationLaw::NAMED.map(|(name, _)| name).to_vec())?;
    module.add("PERIOD_LAWS", PeriodLaw::NAMED.map(|(name, _)| name).to_vec())?;
    module.add("PARTS_PER_MILLION", PARTS_PER_MILLION)
}
