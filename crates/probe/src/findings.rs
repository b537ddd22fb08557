//! What a reader of a trial's samples must know, as it shows while preparing and after measuring.

use std::collections::BTreeMap;
use std::io;

use stealtime_wire::{ClockCheck, Finding, FindingLevel, Probe, TrialRequest};

use crate::recorder::Samples;
use crate::request::measuring_cpus;
use crate::scheduling::Policy;
use crate::switch::SwitchCounts;

/// The consequence of a refused `SCHED_FIFO`.
pub fn no_sched_fifo(policy: Policy, priority: u32, probe: &Probe) -> Option<Finding> {
    let Policy::Refused(error) = policy else { return None };
    // The definition of a switch depends on the order of SCHED_FIFO; the other probes only get noisier without.
    let level =
        if matches!(probe, Probe::Switch { .. }) { FindingLevel::Invalidates } else { FindingLevel::Limits };
    Some(Finding {
        code: "no_sched_fifo".to_owned(),
        level,
        text: format!(
            "SCHED_FIFO priority {priority} was refused ({error}), so every other thread may interrupt the probe"
        ),
        hint: Some(
            "run as root, or grant it: ulimit -r 99, or setcap cap_sys_nice+ep on the agent".to_owned(),
        ),
    })
}

/// What it means that the measuring threads may use several CPUs.
pub fn several_cpus(request: &TrialRequest) -> impl Iterator<Item = Finding> {
    switch_pinned(request).into_iter().chain(injection_roams(request))
}

/// A ring needs one CPU.
fn switch_pinned(request: &TrialRequest) -> Option<Finding> {
    let is_switch = matches!(request.probe, Probe::Switch { .. });
    let (last, others) = request.cpus.split_last().filter(|(_, others)| is_switch && !others.is_empty())?;
    Some(Finding {
        code: "switch_pinned".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "the threads of switch may use {} CPUs but were pinned to CPU {last}: on several they would not wait for \
             each other",
            others.len() + 1
        ),
        hint: None,
    })
}

/// A theft takes a CPU away, not the probe.
fn injection_roams(request: &TrialRequest) -> Option<Finding> {
    (request.injection.is_some() && measuring_cpus(request).len() > 1).then(|| Finding {
        code: "injection_roams".to_owned(),
        level: FindingLevel::Limits,
        text: "the injected thefts take a CPU from a probe that may go to another, so it need not lose what they last"
            .to_owned(),
        hint: Some("test the instrument on one CPU".to_owned()),
    })
}

/// The thief was refused `SCHED_FIFO`.
pub fn injection_not_above(error: &io::Error) -> Finding {
    Finding {
        code: "injection_not_above".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "the injecting thread was refused SCHED_FIFO ({error}), so its thefts share the CPU with the probe"
        ),
        hint: Some(
            "run as root, or grant it: ulimit -r 99, or setcap cap_sys_nice+ep on the agent".to_owned(),
        ),
    }
}

/// The sample memory could not be locked.
pub fn memory_not_locked(error: &io::Error) -> Finding {
    Finding {
        code: "memory_not_locked".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "the sample memory is present but not locked ({error}), so swapping could disturb the probe"
        ),
        hint: Some("run as root, or raise the limit: ulimit -l unlimited".to_owned()),
    }
}

/// Every turn of the ring after the first is a switch, or a yield that found nobody else.
pub fn switches_not_confirmed(counts: &SwitchCounts) -> Option<Finding> {
    let claimed = counts.turns.saturating_sub(counts.not_switched + 1);
    if counts.context_switches >= claimed {
        return None;
    }
    Some(Finding {
        code: "switches_not_confirmed".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!(
            "{claimed} switches were seen, but the kernel counted only {}",
            counts.context_switches
        ),
        hint: None,
    })
}

/// What the comparison of the two clocks means.
pub fn clocks(check: &ClockCheck) -> Option<Finding> {
    let disagreement = check.disagreement_ppm.abs();
    if disagreement - check.error_ppm > check.limit_ppm || !disagreement.is_finite() {
        return Some(Finding {
            code: "clocks_disagree".to_owned(),
            level: FindingLevel::Invalidates,
            text: format!(
                "the time-stamp counter and CLOCK_MONOTONIC_RAW disagree by {:.0} ppm over the trial (limit {:.0} ppm)",
                check.disagreement_ppm, check.limit_ppm
            ),
            hint: Some("the counter is not usable here: it stopped, jumped or changed its rate".to_owned()),
        });
    }
    (check.error_ppm > check.limit_ppm).then(|| Finding {
        code: "clock_not_judged".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "the trial was too short to check its clock: the check itself is uncertain by {:.0} ppm",
            check.error_ppm
        ),
        hint: Some("measure for longer".to_owned()),
    })
}

/// Counts the samples and says what is missing.
pub fn samples(samples: &Samples, counters: &mut BTreeMap<String, u64>, findings: &mut Vec<Finding>) {
    counters.insert("recorded".to_owned(), samples.durations().len() as u64);
    counters.insert("saturated".to_owned(), samples.saturated.len() as u64);
    counters.insert("saturated_gaps".to_owned(), samples.saturated_gaps.len() as u64);
    counters.insert("lost".to_owned(), samples.lost);
    if samples.lost > 0 {
        findings.push(Finding {
            code: "samples_lost".to_owned(),
            level: FindingLevel::Invalidates,
            text: format!("the true length of {} samples over 2^32 cycles could not be kept", samples.lost),
            hint: None,
        });
    }
    if samples.durations().is_empty() {
        findings.push(Finding {
            code: "no_samples".to_owned(),
            level: FindingLevel::Invalidates,
            text: "the trial recorded no sample".to_owned(),
            hint: Some("measure for longer".to_owned()),
        });
    }
}

/// Why there are fewer samples than the time would hold.
pub fn ended_early(
    request: &TrialRequest,
    samples: &Samples,
    capacity: usize,
    cancelled: bool,
) -> Option<Finding> {
    let (code, text, hint) = if cancelled {
        ("cancelled", "the trial was cancelled before its time".to_owned(), None)
    } else if request.max_samples.is_none()
        && samples.durations().len() == capacity
        && !matches!(request.probe, Probe::Wakeup { .. })
    {
        let text = format!("the sample memory of {capacity} samples was full before the time was over");
        ("memory_full", text, Some("give the machine more memory, or measure for a shorter time".to_owned()))
    } else {
        return None;
    };
    Some(Finding { code: code.to_owned(), level: FindingLevel::Limits, text, hint })
}
