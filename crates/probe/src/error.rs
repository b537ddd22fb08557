//! Why a trial could not begin.

use std::io;

/// Why a trial could not begin. What goes wrong later is a finding of its outcome.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    #[error("{} cannot be measured, the kernel grants this process {granted:?}", name_cpus(cpus))]
    Cpus {
        /// The CPUs that were asked for.
        cpus: Vec<u32>,
        /// The CPUs that may be named.
        granted: Vec<u32>,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    #[error("{parameter} = {value} is not possible, it must be {expected}")]
    Parameter {
        /// Its name in the request.
        parameter: &'static str,
        value: u64,
        expected: String,
    },
    #[error("no CPU was given to measure")]
    NoCpu,
    #[error("no memory for {samples} samples ({bytes} bytes): {source}")]
    Memory {
        samples: usize,
        /// How much they take.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    #[error("no memory for {what} ({bytes} bytes): {source}")]
    NoRoom {
        what: String,
        /// All of it, at the worst moment.
        bytes: u64,
        /// What limits it.
        source: io::Error,
    },
    /// The samples of so long a trial are far more than memory may hold, and nobody takes them away meanwhile.
    #[error("a trial of {duration_s:.0} s may give {samples} samples, and memory may hold {memory_samples} ({limit})")]
    NotKept {
        duration_s: f64,
        /// At most.
        samples: u64,
        memory_samples: u64,
        /// What sets that.
        limit: String,
    },
    #[error("no memory for the collections of {tasks} tasks, {bytes} bytes each: {source}")]
    Collections {
        tasks: u32,
        /// Of each.
        bytes: u64,
        /// What the kernel said.
        source: io::Error,
    },
    #[error("{tasks} tasks need as many priorities, and the first one's is {priority}")]
    Priorities {
        tasks: usize,
        /// Of the most urgent task.
        priority: u32,
    },
    #[error("the kernel does not admit the task {task} to SCHED_DEADLINE: {source}")]
    Admission {
        task: String,
        hint: String,
        /// What the kernel said.
        source: io::Error,
    },
    #[error("tasks are to be released from another CPU, and there is none besides {}", name_cpus(cpus))]
    NoOtherCpu {
        /// Those that are measured.
        cpus: Vec<u32>,
    },
    #[error("{target} {trouble}")]
    Target {
        /// A disk, a file, or a peer.
        target: String,
        /// As it follows the name in a sentence.
        trouble: String,
        hint: Option<String>,
    },
    #[error("CLOCK_MONOTONIC cannot be brought to the time-stamp counter: one of the two did not go on")]
    NoConversion,
    #[error("the probe's threads cannot be started: {0}")]
    Threads(#[from] io::Error),
    #[error("RT throttling cannot be lifted: {source}")]
    Throttling {
        /// What the kernel said.
        source: io::Error,
    },
    #[error("the measuring thread's placement cannot be read back: {source}")]
    Placement {
        /// What the kernel said.
        source: io::Error,
    },
    #[error("the measuring thread panicked: this is a defect of stealtime")]
    Panicked,
}

impl TrialError {
    pub(crate) fn parameter(parameter: &'static str, value: u64, expected: String) -> Self {
        Self::Parameter { parameter, value, expected }
    }

    /// Refuses a parameter that is not between two values.
    pub(crate) fn unless_in_range(name: &'static str, value: u64, least: u64, most: u64) -> Result<(), Self> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Self::parameter(name, value, format!("{least} to {most}")))
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Cpus { granted, .. } => Some(format!("choose one of {granted:?}")),
            // Only a probe that needs SCHED_FIFO refuses it.
            Self::Parameter { parameter: "priority", value: 0, .. } => {
                Some("this probe needs SCHED_FIFO, which begins at priority 1".to_owned())
            }
            Self::Priorities { tasks, .. } => Some(format!("use a priority of at least {tasks}, or fewer tasks")),
            Self::Admission { hint, .. } => Some(hint.clone()),
            Self::Target { hint, .. } => hint.clone(),
            Self::NoOtherCpu { .. } => {
                Some("give the machine another CPU, or have tasks released by timers of their own".to_owned())
            }
            Self::NoConversion => Some("the counter is not usable here: it stopped or jumped".to_owned()),
            Self::Parameter { .. } | Self::NoCpu | Self::Panicked | Self::Placement { .. } => None,
            Self::Memory { .. } => Some("give the machine more memory, or measure for a shorter time".to_owned()),
            Self::NotKept { memory_samples, .. } => Some(format!(
                "`stealtime run -D` stores samples while it measures; here measure for a shorter time, or stop after a \
                 number of samples: -l {}",
                // What may still be used is never twice the same.
                memory_samples / 10 * 9
            )),
            Self::Collections { .. } => {
                Some("give the machine more memory, or use fewer tasks or smaller collections".to_owned())
            }
            Self::NoRoom { .. } => {
                let less = "a shorter time, fewer threads, or smaller pieces of memory";
                Some(format!("give the machine more memory, or ask for {less}"))
            }
            Self::Threads(_) => Some("raise the limit of processes (ulimit -u), or use fewer threads".to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cpu_and_several_are_named() {
        let error = |cpus| TrialError::Cpus { cpus, granted: vec![0], source: io::Error::other("") }.to_string();
        assert!(error(vec![7]).starts_with("CPU 7 cannot"), "{}", error(vec![7]));
        assert!(error(vec![0, 7]).starts_with("the set of CPUs [0, 7] cannot"), "{}", error(vec![0, 7]));
    }
}
