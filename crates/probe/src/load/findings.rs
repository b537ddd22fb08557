//! What a reader of a load's figures must know.

use std::io;
use std::path::Path;
use std::{fs, iter};

use stealtime_wire::{Finding, FindingLevel, Load, LoadRequest};

use crate::load::phases::Pulse;
use crate::throttling::Limit;

/// The caches of the first CPU, one folder each.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// What is known before the threads start.
pub fn before(request: &LoadRequest, pulse: Option<Pulse>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if request.priority > 0 {
        findings.extend(Limit::read().ok().and_then(|limit| throttled(&limit, pulse)));
    }
    if let Load::Memory { block_bytes } = request.kind {
        findings.extend(largest_cache_bytes(Path::new(CACHES)).and_then(|cache| fits(block_bytes, cache)));
    }
    findings
}

/// What shows at the end.
pub fn after(missed: u64, lost: u64, work: u64) -> Vec<Finding> {
    let missed = (missed > 0).then(|| {
        let text = format!("in {missed} phases in which the load was to be on it did not get the CPU at all");
        limits("load_phases_missed", text, Some("something of higher priority runs there; see the trace"))
    });
    let lost = (lost > 0).then(|| {
        let text = format!("{lost} rows of the load found no room; their work is counted, their times are not known");
        limits("load_rows_lost", text, Some("use longer phases, or a shorter trial"))
    });
    let idle = (work == 0).then(|| Finding {
        code: "load_did_nothing".to_owned(),
        level: FindingLevel::Invalidates,
        text: "the load never ran".to_owned(),
        hint: Some("stop it later, or look what keeps it from the CPU".to_owned()),
    });
    iter::empty().chain(missed).chain(lost).chain(idle).collect()
}

/// The consequence of a refused `SCHED_FIFO`.
pub fn no_sched_fifo(error: &io::Error, priority: u32) -> Finding {
    let text = format!("SCHED_FIFO priority {priority} was refused ({error}), so the load shares the CPU with others");
    let hint = "run as root; in a cgroup with RT_GROUP_SCHED, give it a cpu.rt_runtime_us";
    limits("no_sched_fifo", text, Some(hint))
}

/// What RT throttling does to a load that is on for longer than it allows.
fn throttled(limit: &Limit, pulse: Option<Pulse>) -> Option<Finding> {
    let stall_us = limit.stall_us()?;
    let runtime_us = limit.runtime_us?;
    if let Some(Pulse { on_ns, off_ns }) = pulse {
        let busiest_us = limit.period_us as f64 * (on_ns as f64 / (on_ns + off_ns) as f64);
        if on_ns / 1000 <= runtime_us && busiest_us <= runtime_us as f64 {
            return None;
        }
    }
    let text = format!(
        "RT throttling is on: SCHED_FIFO may run {runtime_us} us of every {} us, so the load is stopped for up to \
         {stall_us} us in each",
        limit.period_us
    );
    Some(limits("rt_throttling", text, Some("pause the load for longer than it is stopped")))
}

/// Both blocks fit a cache: then they are not copied through memory.
fn fits(block_bytes: u64, cache_bytes: u64) -> Option<Finding> {
    (block_bytes.saturating_mul(2) <= cache_bytes).then(|| {
        let text = format!(
            "two blocks of {block_bytes} bytes fit the largest cache that this machine shows ({cache_bytes} bytes), so \
             the load may stay in it"
        );
        limits("block_fits_cache", text, Some("use a block of at least half of that size"))
    })
}

fn largest_cache_bytes(caches: &Path) -> Option<u64> {
    let sizes = fs::read_dir(caches).ok()?.filter_map(|entry| {
        let text = fs::read_to_string(entry.ok()?.path().join("size")).ok()?;
        Some(text.trim().strip_suffix('K')?.parse::<u64>().ok()? * 1024)
    });
    sizes.max()
}

fn limits(code: &str, text: String, hint: Option<&str>) -> Finding {
    Finding { code: code.to_owned(), level: FindingLevel::Limits, text, hint: hint.map(str::to_owned) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_load_that_is_on_for_long_is_throttled() {
        let limit = Limit { runtime_us: Some(950_000), period_us: 1_000_000 };
        let pulse = |on_ms: u64, off_ms: u64| Some(Pulse { on_ns: on_ms * 1_000_000, off_ns: off_ms * 1_000_000 });
        assert!(throttled(&limit, None).is_some());
        assert!(throttled(&limit, pulse(5000, 5000)).is_some());
        assert!(throttled(&limit, pulse(100, 1)).is_some());
        assert!(throttled(&limit, pulse(5, 50)).is_none());
        assert!(throttled(&Limit { runtime_us: None, period_us: 1_000_000 }, None).is_none());
    }

    #[test]
    fn blocks_that_fit_a_cache_are_told() {
        assert!(fits(9_000_000, 32 << 20).is_some());
        assert!(fits(9_000_000, 16 << 20).is_none());
    }

    #[test]
    fn nothing_is_dropped_in_silence() {
        let codes = |missed, lost, work| -> Vec<String> {
            after(missed, lost, work).into_iter().map(|finding| finding.code).collect()
        };
        assert!(codes(0, 0, 1).is_empty());
        assert_eq!(codes(1, 2, 0), ["load_phases_missed", "load_rows_lost", "load_did_nothing"]);
    }
}
