//! What a reader of a trial's samples must know, as it shows while preparing and after measuring.

use std::collections::BTreeMap;
use std::io;

use stealtime_wire::{ClockCheck, Finding, FindingLevel, Layout, OnThreshold, ThresholdHit, TrialRequest};

use crate::samples::Samples;

/// The consequence of a refused `SCHED_FIFO`.
pub fn no_sched_fifo(error: &io::Error, priority: u32, probe_needs_it: bool) -> Finding {
    Finding {
        code: "no_sched_fifo".to_owned(),
        level: if probe_needs_it { FindingLevel::Invalidates } else { FindingLevel::Limits },
        text: format!(
            "SCHED_FIFO priority {priority} was refused ({error}), so every other thread may interrupt the probe"
        ),
        hint: Some("run as root, or grant it: ulimit -r 99, or setcap cap_sys_nice+ep on the agent".to_owned()),
    }
}

/// A theft takes a CPU away, not the probe, which runs on any of `cpus`.
pub fn injection_roams(request: &TrialRequest, cpus: &[u32]) -> Option<Finding> {
    (request.injection.is_some() && cpus.len() > 1).then(|| Finding {
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
        hint: Some("run as root, or grant it: ulimit -r 99, or setcap cap_sys_nice+ep on the agent".to_owned()),
    }
}

/// The sample memory could not be locked.
pub fn memory_not_locked(error: &io::Error) -> Finding {
    Finding {
        code: "memory_not_locked".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "the sample memory is present but not locked ({error}{}), so swapping could disturb the probe",
            stealtime_memory::lockable_bytes()
                .map(|bytes| format!("; RLIMIT_MEMLOCK leaves {} KiB", bytes >> 10))
                .unwrap_or_default()
        ),
        hint: Some("run as root, or raise the limit: ulimit -l unlimited".to_owned()),
    }
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
    counters.insert("recorded".to_owned(), samples.count() as u64);
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
    if samples.count() == 0 {
        findings.push(Finding {
            code: "no_samples".to_owned(),
            level: FindingLevel::Invalidates,
            text: "the trial recorded no sample".to_owned(),
            hint: Some("measure for longer".to_owned()),
        });
    }
}

/// A difference of two readings of a clock that went back between them is stored as it wraps around: nobody knows how
/// long such a sample lasted, and whoever takes it as it stands has an endless one.
///
/// `saturated` and `gaps` are indices and true values, in clock units.
pub fn stepped_back(saturated: &[(u64, u64)], gaps: &[(u64, u64)], units_per_s: f64) -> Option<Finding> {
    let steps = || saturated.iter().chain(gaps).map(|&(_, units)| units.cast_signed()).filter(|&units| units < 0);
    let furthest = steps().min()?;
    #[expect(clippy::cast_precision_loss, reason = "it is told in a few digits")]
    let furthest_us = -(furthest as f64) * 1e6 / units_per_s;
    Some(Finding {
        code: "clock_stepped_back".to_owned(),
        level: FindingLevel::Invalidates,
        text: format!(
            "the clock went back {} times while samples were taken, by {furthest_us:.3} us at most",
            steps().count()
        ),
        hint: Some("its counter is not the same on all CPUs, or the host moved this machine: measure again".to_owned()),
    })
}

/// Counts how long the samples took, and the pauses in which samples were taken away.
pub fn watched(
    watched_units: u64,
    pauses: &[(u64, u64)],
    units_per_s: f64,
    counters: &mut BTreeMap<String, u64>,
    findings: &mut Vec<Finding>,
) {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, below 2^53")]
    let to_ns = |units: u64| (units as f64 * 1e9 / units_per_s).round() as u64;
    let paused_ns = to_ns(pauses.iter().map(|&(_, units)| units).sum());
    counters.insert("watched_ns".to_owned(), to_ns(watched_units));
    if pauses.is_empty() {
        return;
    }
    counters.insert("pauses".to_owned(), pauses.len() as u64);
    counters.insert("paused_ns".to_owned(), paused_ns);
    findings.push(Finding {
        code: "paused".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "measuring paused {} times, for {:.1} s in all, while samples were stored: nobody watched then",
            pauses.len(),
            paused_ns as f64 * 1e-9
        ),
        hint: Some("a machine with a CPU besides the measured one stores them without pausing".to_owned()),
    });
}

/// Why there are fewer samples than the time would hold.
pub fn ended_early(
    request: &TrialRequest,
    layout: Layout,
    counters: &BTreeMap<String, u64>,
    is_full: bool,
    cancelled: bool,
) -> Option<Finding> {
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    let recorded = count("recorded");
    let has_number = request.max_samples.is_some_and(|most| recorded >= most);
    let has_all = has_number || count("watched_ns") >= request.duration_ns;
    // The memory is made for as many periods as the time has.
    let full_at_the_end = matches!(layout, Layout::Periodic { .. });
    let (code, text, hint) = if cancelled && !has_all {
        ("cancelled", "the trial was cancelled before its time".to_owned(), None)
    } else if !has_number && is_full && !full_at_the_end {
        let text = format!("the sample memory of {recorded} samples was full before the time was over");
        ("memory_full", text, Some("give the machine more memory, or measure for a shorter time".to_owned()))
    } else {
        return None;
    };
    Some(Finding { code: code.to_owned(), level: FindingLevel::Limits, text, hint })
}

/// What it means that a sample was over the threshold that was asked for.
pub fn over_threshold(asked: OnThreshold, hit: &ThresholdHit, units_per_s: f64) -> Finding {
    let us = |ns: f64| format!("{:.1} us", ns * 1e-3);
    let sample = format!(
        "sample {} took {}, more than {} over the floor",
        hit.index,
        us(hit.duration_units as f64 * 1e9 / units_per_s),
        us(asked.overhead_ns as f64)
    );
    let (code, text) = if asked.stop {
        ("stopped_at_threshold", format!("it was stopped at the first sample over the threshold: {sample}"))
    } else {
        ("over_threshold", format!("{sample}, the first of {}", hit.samples_over))
    };
    Finding { code: code.to_owned(), level: FindingLevel::Limits, text, hint: None }
}

#[cfg(test)]
mod tests {
    use stealtime_wire::{Probe, Tick};

    use super::*;

    #[test]
    fn memory_that_was_full_before_its_time_is_told_unless_all_that_was_asked_for_is_there() {
        let request = |max_samples| TrialRequest {
            max_samples,
            ..TrialRequest::plain(Probe::Tick(Tick { iterations: 1 }), vec![0], 0, 1_000)
        };
        let counters = BTreeMap::from([("recorded".to_owned(), 50), ("watched_ns".to_owned(), 900)]);
        let code = |max_samples| {
            ended_early(&request(max_samples), Layout::Tiled, &counters, true, false).map(|finding| finding.code)
        };
        assert_eq!(code(None).as_deref(), Some("memory_full"));
        assert_eq!(code(Some(50)), None);
        assert_eq!(code(Some(1_000)).as_deref(), Some("memory_full"), "room was made for what the duration may give");
    }

    #[test]
    fn a_clock_that_went_back_makes_a_trial_invalid_and_a_long_stall_does_not() {
        let stall = (1, 40_000_000_000);
        assert_eq!(stepped_back(&[stall], &[stall], 2e9), None);
        let back = |units: u64| (7, units.wrapping_neg());
        let finding = stepped_back(&[stall, back(400_000)], &[back(20)], 2e9).unwrap();
        assert_eq!((finding.code.as_str(), finding.level), ("clock_stepped_back", FindingLevel::Invalidates));
        assert_eq!(finding.text, "the clock went back 2 times while samples were taken, by 200.000 us at most");
    }
}
