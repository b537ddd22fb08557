//! Where the agent's own threads go while a load under `SCHED_FIFO` has their CPUs: who cannot run cannot be told to
//! stop.
//!
//! The affinity that was inherited says where they run if they can, and is no limit: a CPU that is named may be loaded
//! though the agent was started on that one alone. Then they go to others that the kernel grants, which is told, and
//! come back when the load has ended.

use std::io;

use stealtime_wire::{Finding, FindingLevel, LoadRequest};

use crate::load::error::{LONGEST_SILENCE_NS, LoadError};
use crate::load::phases::Pulse;
use crate::processor_sets::named;
use crate::sys::{self, Affinity};

/// Where the agent answers, and what is to be told of that.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answering {
    /// None where its threads need not go anywhere.
    pub cpus: Option<Vec<u32>>,
    pub finding: Option<Finding>,
}

/// Finds where a load leaves the agent a CPU when it is told to stop.
///
/// # Arguments
/// * `inherited`: where the agent's threads may run.
/// * `granted`: where the kernel would let them.
///
/// # Errors
/// [`LoadError::Starves`], if the agent could not even be told to stop.
pub fn find(
    request: &LoadRequest,
    pulse: Option<Pulse>,
    inherited: &[u32],
    granted: &[u32],
) -> Result<Answering, LoadError> {
    if request.priority == 0 {
        return Ok(Answering::default());
    }
    let loaded = if request.cpus.is_empty() { inherited } else { &request.cpus };
    let besides = |cpus: &[u32]| -> Vec<u32> { cpus.iter().copied().filter(|cpu| !loaded.contains(cpu)).collect() };
    // So many threads leave one of these CPUs at any time.
    let leaves_one = |cpus: &[u32]| (request.threads as usize) < cpus.len();
    let (own, others) = (besides(inherited), besides(granted));
    if !own.is_empty() {
        return Ok(Answering { cpus: Some(own), finding: None });
    }
    if leaves_one(inherited) {
        return Ok(Answering::default());
    }
    match pulse {
        Some(Pulse { on_ns, .. }) if on_ns <= LONGEST_SILENCE_NS => {
            Ok(Answering { cpus: None, finding: Some(late_answers(inherited, on_ns)) })
        }
        _ if !others.is_empty() => {
            let finding = Some(answers_elsewhere(inherited, &others));
            Ok(Answering { cpus: Some(others), finding })
        }
        _ if leaves_one(granted) => {
            Ok(Answering { cpus: Some(granted.to_vec()), finding: Some(answers_elsewhere(inherited, granted)) })
        }
        _ => Err(LoadError::Starves { priority: request.priority, cpus: granted.to_vec() }),
    }
}

fn late_answers(cpus: &[u32], on_ns: u64) -> Finding {
    Finding {
        code: "late_answers".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "a SCHED_FIFO load is on all CPUs of the agent {cpus:?}, so it answers only when the load pauses, up to {} \
             ms late",
            on_ns.div_ceil(1_000_000)
        ),
        hint: None,
    }
}

fn answers_elsewhere(inherited: &[u32], cpus: &[u32]) -> Finding {
    Finding {
        code: "answers_elsewhere".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "a SCHED_FIFO load is on all CPUs that the agent was started on ({}), so the agent answers on CPU {}",
            named(inherited),
            named(cpus)
        ),
        hint: None,
    }
}

/// Threads that went out of a load's way; dropped, they go back.
#[derive(Debug)]
pub struct Retreat {
    /// By their own ids, with where they were.
    threads: Vec<(u32, Vec<u32>)>,
}

impl Retreat {
    /// Has the calling thread and others of this process run on `cpus`.
    ///
    /// # Errors
    /// What the kernel says; those that went before are back then.
    pub fn to(cpus: &[u32], others: &[u32]) -> io::Result<Self> {
        let mut retreat = Self { threads: Vec::new() };
        for thread in [sys::thread_id()].into_iter().chain(others.iter().copied()) {
            let before = Affinity::of(thread)?.cpus();
            sys::set_affinity_of(thread, cpus)?;
            retreat.threads.push((thread, before));
        }
        Ok(retreat)
    }
}

impl Drop for Retreat {
    fn drop(&mut self) {
        for (thread, before) in &self.threads {
            // A thread that has ended has nowhere to be, and a cpuset that has shrunk takes what it has left.
            let _ = sys::set_affinity_of(*thread, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use stealtime_wire::Load;

    use super::*;

    const ALL: [u32; 4] = [0, 1, 2, 3];

    fn fifo(cpus: &[u32], threads: u32) -> LoadRequest {
        LoadRequest { kind: Load::Cpu {}, cpus: cpus.to_vec(), priority: 50, threads, on_ns: None, off_ns: None }
    }

    fn pulse(on_ns: u64) -> Pulse {
        Pulse { on_ns, off_ns: 50_000_000 }
    }

    fn stays() -> Answering {
        Answering::default()
    }

    fn goes_to(cpus: &[u32]) -> Answering {
        Answering { cpus: Some(cpus.to_vec()), finding: None }
    }

    #[test]
    fn a_load_that_silences_the_agent_is_refused_unless_it_pauses_soon() {
        let alone = |request: &LoadRequest, pulse, cpus: &[u32]| find(request, pulse, cpus, cpus);
        assert!(matches!(alone(&fifo(&[0], 1), None, &[0]), Err(LoadError::Starves { .. })));
        assert!(matches!(alone(&fifo(&[], 2), None, &[0, 1]), Err(LoadError::Starves { .. })));
        assert!(matches!(alone(&fifo(&[0], 1), Some(pulse(2_000_000_000)), &[0]), Err(LoadError::Starves { .. })));
        let late = alone(&fifo(&[0], 1), Some(pulse(5_000_000)), &[0]).unwrap();
        assert!(late.finding.unwrap().text.contains("up to 5 ms"));
        assert_eq!(alone(&fifo(&[1], 1), None, &[0]).unwrap(), goes_to(&[0]));
        assert_eq!(alone(&fifo(&[0], 1), None, &[0, 1]).unwrap(), goes_to(&[1]));
        assert_eq!(alone(&fifo(&[], 1), None, &[0, 1]).unwrap(), stays());
        assert_eq!(alone(&LoadRequest { priority: 0, ..fifo(&[0], 9) }, None, &[0]).unwrap(), stays());
    }

    #[test]
    fn an_inherited_affinity_is_no_limit_and_that_the_agent_leaves_it_is_told() {
        let confined = find(&fifo(&[1], 1), None, &[1], &ALL).unwrap();
        assert_eq!(confined.cpus.as_deref(), Some(&[0, 2, 3][..]));
        let text = confined.finding.unwrap().text;
        assert!(text.contains("started on (1), so the agent answers on CPU 0,2-3"), "{text}");
        assert_eq!(find(&fifo(&[1], 1), None, &[0, 1], &ALL).unwrap(), goes_to(&[0]), "its own come first");
        let unnamed = find(&fifo(&[], 2), None, &[0, 1], &ALL).unwrap();
        assert_eq!(unnamed.cpus.as_deref(), Some(&[2, 3][..]));
        let few = find(&fifo(&ALL, 3), None, &[1], &ALL).unwrap();
        assert_eq!(few.cpus.as_deref(), Some(&ALL[..]), "three threads leave one of four CPUs");
        let late = find(&fifo(&[1], 1), Some(pulse(5_000_000)), &[1], &ALL).unwrap();
        assert_eq!((late.cpus, late.finding.unwrap().code.as_str()), (None, "late_answers"), "it need not go");
        let refused = find(&fifo(&ALL, 4), None, &[1], &ALL).unwrap_err();
        assert!(refused.to_string().contains("on [0, 1, 2, 3] would leave the agent no CPU"), "{refused}");
    }

    #[test]
    fn threads_that_went_out_of_the_way_come_back() {
        let all = crate::processor_sets::granted_cpus().unwrap();
        let before = sys::affinity().unwrap();
        let retreat = Retreat::to(&all[..1], &[]).unwrap();
        assert_eq!(sys::affinity().unwrap(), all[..1]);
        drop(retreat);
        assert_eq!(sys::affinity().unwrap(), before);
    }
}
