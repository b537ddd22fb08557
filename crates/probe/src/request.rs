//! What a trial may be asked for, and why one could not begin.

use std::io;

use stealtime_wire::{Injection, Probe, TrialRequest};

/// The highest priority of `SCHED_FIFO`; the injected disturbance needs one above the probe's.
const HIGHEST_PRIORITY: u32 = 99;

/// Why a trial could not begin. What goes wrong later is a finding of its outcome.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The measuring thread may not run there.
    #[error("{} cannot be measured, this process may run on {allowed:?}", name_cpus(cpus))]
    Cpus {
        /// The CPUs that were asked for.
        cpus: Vec<u32>,
        /// The CPUs that there are.
        allowed: Vec<u32>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A parameter makes no sense.
    #[error("{parameter} = {value} is not possible, it must be {expected}")]
    Parameter {
        /// Its name in the request.
        parameter: &'static str,
        /// What was asked for.
        value: u64,
        /// What can be.
        expected: String,
    },
    /// There is no CPU to measure.
    #[error("no CPU was given to measure")]
    NoCpu,
    /// No memory for the samples.
    #[error("no memory for {samples} samples ({bytes} bytes): {source}")]
    Memory {
        /// How many samples.
        samples: usize,
        /// How much they take.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread could not be started or pinned.
    #[error("the probe's threads cannot be started: {0}")]
    Threads(#[from] io::Error),
    /// RT throttling could not be lifted.
    #[error("RT throttling cannot be lifted: {source}")]
    Throttling {
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel would not say where the measuring thread ran.
    #[error("the measuring thread's placement cannot be read back: {source}")]
    Placement {
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread of ours ended by a panic.
    #[error("the measuring thread panicked: this is a defect of stealtime")]
    Panicked,
}

impl TrialError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Cpus { allowed, .. } => Some(format!("choose one of {allowed:?}")),
            Self::Parameter { parameter: "priority", .. } => {
                Some("a switch needs SCHED_FIFO; tick and wakeup also run at priority 0".to_owned())
            }
            Self::Parameter { .. } | Self::NoCpu | Self::Panicked | Self::Placement { .. } => None,
            Self::Memory { .. } => {
                Some("give the machine more memory, or measure for a shorter time".to_owned())
            }
            Self::Threads(_) => {
                Some("raise the limit of processes (ulimit -u), or use fewer threads".to_owned())
            }
            Self::Throttling { .. } => Some("run as root, or without --lift-rt-throttling".to_owned()),
        }
    }
}

fn name_cpus(cpus: &[u32]) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        cpus => format!("the set of CPUs {cpus:?}"),
    }
}

/// Says what about a request makes no sense.
///
/// # Errors
/// [`TrialError::Parameter`] or [`TrialError::NoCpu`].
pub fn validate(request: &TrialRequest) -> Result<(), TrialError> {
    let out_of =
        |parameter, value: u64, expected: String| Err(TrialError::Parameter { parameter, value, expected });
    if request.cpus.is_empty() {
        return Err(TrialError::NoCpu);
    }
    // A ring turns in the order of SCHED_FIFO; without it there is no switch to measure.
    let lowest = u32::from(matches!(request.probe, Probe::Switch { .. }));
    let highest = HIGHEST_PRIORITY - u32::from(request.injection.is_some());
    if !(lowest..=highest).contains(&request.priority) {
        return out_of("priority", request.priority.into(), format!("{lowest} to {highest}"));
    }
    if request.duration_ns == 0 {
        return out_of("duration_ns", 0, "more than 0".to_owned());
    }
    match request.probe {
        Probe::Switch { threads } if !(2..=1000).contains(&threads) => {
            out_of("threads", threads.into(), "2 to 1000".to_owned())
        }
        Probe::Wakeup { interval_ns } if !(1_000..=request.duration_ns).contains(&interval_ns) => {
            out_of("interval_ns", interval_ns, format!("1000 to the duration of {}", request.duration_ns))
        }
        _ => match &request.injection {
            Some(Injection { every_ns, steal_ns, .. }) if steal_ns >= every_ns => {
                out_of("steal_ns", *steal_ns, format!("less than every_ns = {every_ns}"))
            }
            _ => Ok(()),
        },
    }
}

/// The CPUs that the measuring threads run on, of those they may use: all, or for `switch` the last. Threads of one
/// priority that roam over several CPUs are no ring: they would not wait for each other.
pub fn measuring_cpus(request: &TrialRequest) -> &[u32] {
    match request.probe {
        Probe::Switch { .. } => request.cpus.last().map_or(&[], std::slice::from_ref),
        Probe::Tick { .. } | Probe::Wakeup { .. } => &request.cpus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(probe: Probe) -> TrialRequest {
        TrialRequest {
            trial: 1,
            probe,
            cpus: vec![3, 1],
            priority: 80,
            duration_ns: 1_000_000_000,
            max_samples: None,
            lift_rt_throttling: false,
            injection: None,
            tracing: None,
        }
    }

    #[test]
    fn ordinary_scheduling_is_possible_except_for_a_ring() {
        let ordinary = |probe| TrialRequest { priority: 0, ..request(probe) };
        assert!(validate(&ordinary(Probe::Tick { iterations: 1 })).is_ok());
        assert!(validate(&ordinary(Probe::Wakeup { interval_ns: 1_000_000 })).is_ok());
        let error = validate(&ordinary(Probe::Switch { threads: 2 })).unwrap_err();
        assert!(error.to_string().contains("priority = 0") && error.hint().is_some(), "{error}");
    }

    #[test]
    fn a_thief_leaves_room_above_the_probe() {
        let injection = Some(Injection { every_ns: 10, steal_ns: 1, exit: None });
        let with = |priority| TrialRequest {
            priority,
            injection: injection.clone(),
            ..request(Probe::Tick { iterations: 1 })
        };
        assert!(validate(&with(0)).is_ok() && validate(&with(98)).is_ok());
        assert!(validate(&with(99)).unwrap_err().to_string().contains("0 to 98"));
    }

    #[test]
    fn a_ring_has_one_cpu_and_the_others_all() {
        assert_eq!(measuring_cpus(&request(Probe::Switch { threads: 2 })), [1]);
        assert_eq!(measuring_cpus(&request(Probe::Tick { iterations: 1 })), [3, 1]);
        let none = TrialRequest { cpus: Vec::new(), ..request(Probe::Switch { threads: 2 }) };
        assert!(matches!(validate(&none), Err(TrialError::NoCpu)));
    }

    #[test]
    fn one_cpu_and_several_are_named() {
        let error =
            |cpus| TrialError::Cpus { cpus, allowed: vec![0], source: io::Error::other("") }.to_string();
        assert!(error(vec![7]).starts_with("CPU 7 cannot"), "{}", error(vec![7]));
        assert!(error(vec![0, 7]).starts_with("the set of CPUs [0, 7] cannot"), "{}", error(vec![0, 7]));
    }
}
