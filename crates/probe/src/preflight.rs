//! What limits a measurement, found before it begins.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use stealtime_wire::{Finding, FindingLevel, RealTimeLimit, RealTimeLimitKind};

use crate::facts::has_flag;
use crate::processor_sets::parse_cpu_list;
use crate::quota::{Quota, Stopped};
use crate::throttling::Limit;

/// A sibling that is busy for more of the time than this disturbs the measured CPU. One percent is the noise
/// of an idle system's housekeeping.
const BUSY_SIBLING_SHARE: f64 = 0.05;

/// How long siblings are watched. The kernel counts in ticks of 1 to 10 ms.
const WATCH: Duration = Duration::from_millis(100);

/// What is known before measuring on `cpus`, besides RT throttling.
pub fn examine(cpus: &[u32]) -> Vec<Finding> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let roams = cpus.len() > 1;
    let counter = tsc_not_constant(&cpuinfo).map(|finding| if roams { tsc_may_be_apart(&finding) } else { finding });
    counter.into_iter().chain(busy_siblings(cpus)).collect()
}

/// Where the kernel tells of the fair server, for each CPU (`kernel/sched/debug.c`, since Linux 6.12).
const FAIR_SERVERS: &str = "/sys/kernel/debug/sched/fair_server";

/// What the fair server starts with (`fair_server_init()`, `kernel/sched/deadline.c`).
const SERVER_RUNTIME_NS: u64 = 50_000_000;
const SERVER_PERIOD_NS: u64 = 1_000_000_000;

/// What of this kernel may stop a busy thread under `SCHED_FIFO` on `cpus`, and what to say of it.
pub fn limit_on_real_time(cpus: &[u32]) -> Option<(RealTimeLimit, Finding)> {
    rt_throttling_now().or_else(|| {
        let (pause_ns, period_ns) = server_of_any(Path::new(FAIR_SERVERS), cpus)?;
        let limit = RealTimeLimit { kind: RealTimeLimitKind::FairServer, pause_ns, period_ns, unseen: None };
        Some((limit, fair_server(pause_ns, period_ns)?))
    })
}

/// RT throttling, where it is on now.
pub fn rt_throttling_now() -> Option<(RealTimeLimit, Finding)> {
    let limit = Limit::read().ok()?;
    let found = rt_throttling(&limit)?;
    let (pause_ns, period_ns) = (limit.stall_us()? * 1_000, limit.period_us * 1_000);
    Some((RealTimeLimit { kind: RealTimeLimitKind::RtThrottling, pause_ns, period_ns, unseen: None }, found))
}

/// The largest runtime of the fair servers of some CPUs, and its period; none where all of them are off.
fn server_of_any(folder: &Path, cpus: &[u32]) -> Option<(u64, u64)> {
    let number = |cpu: u32, name: &str| -> Option<u64> {
        fs::read_to_string(folder.join(format!("cpu{cpu}/{name}"))).ok()?.trim().parse().ok()
    };
    let of = |&cpu: &u32| {
        let told = number(cpu, "runtime").zip(number(cpu, "period"));
        told.unwrap_or((SERVER_RUNTIME_NS, SERVER_PERIOD_NS))
    };
    cpus.iter().map(of).max().filter(|&(runtime_ns, _)| runtime_ns > 0)
}

/// Adds to what is said of a limit that nothing will tell when it acted.
pub fn unseen(finding: Finding, reason: &str) -> Finding {
    let text = format!("{}; when it does so cannot be seen here ({reason}), so it explains no sample", finding.text);
    let hint = finding.hint.map(|hint| {
        format!("{hint}; or measure as root (CAP_PERFMON, tracefs), so that it is seen when it stops the probe")
    });
    Finding { text, hint, ..finding }
}

/// What the limit does to a busy thread under `SCHED_FIFO`.
fn rt_throttling(limit: &Limit) -> Option<Finding> {
    let stall_us = limit.stall_us()?;
    let runtime_us = limit.runtime_us?;
    Some(Finding {
        code: "rt_throttling".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "RT throttling is on: SCHED_FIFO may run {runtime_us} us of every {} us, so a busy probe is stopped for up \
             to {stall_us} us in each by this machine's own kernel",
            limit.period_us
        ),
        hint: Some("measure with --lift-rt-throttling, which puts the limit back afterwards".to_owned()),
    })
}

/// What CPU quotas did to a thread that is not real-time, from a reading before measuring and one after it.
pub fn cpu_quotas(before: &[Quota], after: &[Quota]) -> Vec<Finding> {
    after.iter().filter_map(|quota| cpu_quota(quota, quota.stopped_since(before))).collect()
}

fn cpu_quota(quota: &Quota, stopped: Option<Stopped>) -> Option<Finding> {
    let was_stopped = stopped.is_some_and(|stopped| stopped.times > 0);
    // One that this process cannot use up alone is told only where the group's threads together did.
    if quota.pause_us() == 0 && !was_stopped {
        return None;
    }
    let did = match stopped {
        Some(Stopped { times: 0, .. }) => "it was not used up while measuring".to_owned(),
        Some(Stopped { times, ns }) => {
            format!("while measuring it was used up {times} times and held threads back for {:.1} ms", ns as f64 / 1e6)
        }
        None => "the kernel does not say how often it was used up".to_owned(),
    };
    Some(Finding {
        code: "cpu_quota".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "a CPU quota of {} ms in every {} ms holds for this process ({}): a busy probe is stopped for up to {} ms \
             of each by the kernel's bandwidth control; {did}",
            quota.quota_us as f64 / 1e3,
            quota.period_us as f64 / 1e3,
            quota.file.display(),
            quota.pause_us() as f64 / 1e3,
        ),
        hint: Some(
            "lift it (CPUQuota= of systemd, --cpus of docker), measure from a group without one, or as SCHED_FIFO, \
             which it does not bind"
                .to_owned(),
        ),
    })
}

/// What is left of throttling when the limit is lifted: since Linux 6.12 (commit 557a6bfc662c, `sched/fair:
/// Add trivial fair server`) ordinary threads that starve on a CPU are served there for 50 ms of every
/// second, whatever the limit.
fn fair_server(pause_ns: u64, period_ns: u64) -> Option<Finding> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    has_fair_server(&release).then(|| Finding {
        code: "fair_server".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "Linux {} serves ordinary threads that starve beside SCHED_FIFO for {} ms of every {} ms, also with RT \
             throttling lifted: if one waits on the measured CPU, the probe is stopped for that long",
            release.trim(),
            pause_ns as f64 / 1e6,
            period_ns as f64 / 1e6,
        ),
        hint: Some(
            "keep ordinary threads off the CPU (isolcpus=), or write 0 to \
                    /sys/kernel/debug/sched/fair_server/cpuN/runtime"
                .to_owned(),
        ),
    })
}

fn has_fair_server(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

fn tsc_not_constant(cpuinfo: &str) -> Option<Finding> {
    let missing: Vec<&str> =
        ["constant_tsc", "nonstop_tsc"].into_iter().filter(|flag| !has_flag(cpuinfo, flag)).collect();
    if missing.is_empty() {
        return None;
    }
    Some(Finding {
        code: "tsc_not_constant".to_owned(),
        level: FindingLevel::Limits,
        text: format!("the processor does not promise a constant time-stamp counter (no {})", missing.join(", no ")),
        hint: Some("the counter is checked against CLOCK_MONOTONIC_RAW over each trial; trust that figure".to_owned()),
    })
}

/// A thread that roams takes its time with it from one CPU's counter to another's: where they are not
/// promised to be one, each migration may add or swallow time. The kernel compares them at boot only where it
/// relies on them.
fn tsc_may_be_apart(finding: &Finding) -> Finding {
    Finding {
        code: "tsc_may_be_apart".to_owned(),
        text: format!("{}, so the CPUs that the probe roams over may count apart", finding.text),
        level: finding.level,
        hint: Some("measure on one CPU, or on a processor with an invariant counter".to_owned()),
    }
}

fn busy_siblings(cpus: &[u32]) -> Vec<Finding> {
    let siblings_of = |&cpu: &u32| {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
        let siblings = fs::read_to_string(path).map(|list| parse_cpu_list(&list)).unwrap_or_default();
        siblings.into_iter().filter(|sibling| !cpus.contains(sibling)).map(move |sibling| (cpu, sibling))
    };
    let siblings: Vec<(u32, u32)> = cpus.iter().flat_map(siblings_of).collect();
    if siblings.is_empty() {
        return Vec::new();
    }
    let read = || fs::read_to_string("/proc/stat").unwrap_or_default();
    let before = read();
    thread::sleep(WATCH);
    let after = read();
    let busy = |&(cpu, sibling): &(u32, u32)| Some((cpu, sibling, busy_share(&before, &after, sibling)?));
    let too_busy = siblings.iter().filter_map(busy).filter(|&(_, _, share)| share > BUSY_SIBLING_SHARE);
    too_busy.map(|(cpu, sibling, share)| busy_sibling(cpu, sibling, share)).collect()
}

fn busy_sibling(cpu: u32, sibling: u32, share: f64) -> Finding {
    Finding {
        code: "busy_sibling".to_owned(),
        level: FindingLevel::Limits,
        text: format!(
            "CPU {sibling}, which shares its core with the measured CPU {cpu}, is {:.0} % busy",
            share * 100.0
        ),
        hint: Some(format!(
            "keep CPU {sibling} idle, or switch SMT off: echo off > /sys/devices/system/cpu/smt/control"
        )),
    }
}

/// The share of time between two readings of `/proc/stat` in which a CPU was not idle.
fn busy_share(before: &str, after: &str, cpu: u32) -> Option<f64> {
    let (busy_before, total_before) = cpu_times(before, cpu)?;
    let (busy_after, total_after) = cpu_times(after, cpu)?;
    let total = total_after.checked_sub(total_before).filter(|&total| total > 0)?;
    Some(busy_after.checked_sub(busy_before)? as f64 / total as f64)
}

/// (not idle, total) ticks of a CPU. Columns as in `proc_stat(5)`: idle and iowait are the fourth and fifth;
/// the guest columns after the eighth are counted in user already.
fn cpu_times(stat: &str, cpu: u32) -> Option<(u64, u64)> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_ascii_whitespace().next() == Some(&name))?;
    let ticks: Vec<u64> = line.split_ascii_whitespace().skip(1).take(8).map_while(|word| word.parse().ok()).collect();
    let total = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some((total - idle, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_is_a_finding_only_where_it_stops_somebody() {
        let on = Limit { runtime_us: Some(950_000), period_us: 1_000_000 };
        let finding = rt_throttling(&on).unwrap();
        assert!(finding.text.contains("950000") && finding.text.contains("50000 us"), "{}", finding.text);
        assert!(rt_throttling(&Limit { runtime_us: None, period_us: 1_000_000 }).is_none());
        assert!(rt_throttling(&Limit { runtime_us: Some(1_000_000), period_us: 1_000_000 }).is_none());
    }

    #[test]
    fn a_quota_is_told_with_what_it_did() {
        let quota = |quota_us, times, ns| Quota {
            quota_us,
            period_us: 100_000,
            file: "/sys/fs/cgroup/a/cpu.max".into(),
            stopped: Some(Stopped { times, ns }),
        };
        let found = cpu_quotas(&[quota(20_000, 10, 0)], &[quota(20_000, 60, 4_000_000_000)]);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.code.as_str(), finding.level), ("cpu_quota", FindingLevel::Limits));
        for part in ["20 ms in every 100 ms", "/sys/fs/cgroup/a/cpu.max", "up to 80 ms", "50 times", "4000.0 ms"] {
            assert!(finding.text.contains(part), "{part}: {}", finding.text);
        }
        let unused = cpu_quotas(&[quota(20_000, 10, 0)], &[quota(20_000, 10, 0)]);
        assert!(unused[0].text.contains("not used up"), "{unused:?}");
        let unknown = cpu_quotas(&[], &[quota(20_000, 10, 0)]);
        assert!(unknown[0].text.contains("does not say"), "{unknown:?}");
    }

    #[test]
    fn a_quota_of_more_than_a_cpu_is_told_only_where_it_held_somebody_back() {
        let quota = |times| Quota {
            quota_us: 150_000,
            period_us: 100_000,
            file: "/sys/fs/cgroup/a/cpu.max".into(),
            stopped: Some(Stopped { times, ns: 7 }),
        };
        assert!(cpu_quotas(&[quota(3)], &[quota(3)]).is_empty());
        assert_eq!(cpu_quotas(&[quota(3)], &[quota(4)]).len(), 1);
    }

    #[test]
    fn a_fair_server_that_is_off_is_no_limit() {
        let folder = std::env::temp_dir().join(format!("stealtime-fair-server-{}", std::process::id()));
        assert_eq!(server_of_any(&folder, &[3]), Some((50_000_000, 1_000_000_000)), "what it starts with");
        let set = |cpu: u32, runtime: &str| {
            let of_cpu = folder.join(format!("cpu{cpu}"));
            fs::create_dir_all(&of_cpu).unwrap();
            fs::write(of_cpu.join("runtime"), runtime).unwrap();
            fs::write(of_cpu.join("period"), "500000000\n").unwrap();
        };
        set(3, "0\n");
        set(4, "20000000\n");
        assert_eq!(server_of_any(&folder, &[3]), None);
        assert_eq!(server_of_any(&folder, &[3, 4]), Some((20_000_000, 500_000_000)));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn that_a_limit_cannot_be_seen_is_said_with_its_reason() {
        let on = rt_throttling(&Limit { runtime_us: Some(950_000), period_us: 1_000_000 }).unwrap();
        let said = unseen(on.clone(), "EPERM");
        assert!(said.text.starts_with(&on.text) && said.text.ends_with("(EPERM), so it explains no sample"));
        assert!(said.hint.unwrap().contains("as root"));
    }

    #[test]
    fn the_fair_server_came_with_linux_6_12() {
        assert!(has_fair_server("6.12.0-rt\n") && has_fair_server("6.18.44") && has_fair_server("7.0"));
        assert!(!has_fair_server("6.11.9") && !has_fair_server("6.1.0-56-rt-amd64") && !has_fair_server(""));
    }

    #[test]
    fn a_counter_that_may_stop_is_named() {
        let finding = tsc_not_constant("flags : fpu constant_tsc\n").unwrap();
        assert!(
            finding.text.contains("no nonstop_tsc") && !finding.text.contains("no constant_tsc"),
            "{}",
            finding.text
        );
        assert!(tsc_not_constant("flags : constant_tsc nonstop_tsc\n").is_none());
    }

    #[test]
    fn who_roams_is_warned_of_counters_that_may_be_apart() {
        let finding = tsc_may_be_apart(&tsc_not_constant("flags : fpu\n").unwrap());
        assert!(finding.text.contains("no constant_tsc") && finding.text.contains("count apart"), "{finding:?}");
        assert_eq!(finding.code, "tsc_may_be_apart");
    }

    #[test]
    fn a_sibling_is_as_busy_as_its_ticks_say() {
        let before = "cpu  9 9 9 9\ncpu1 100 0 0 900 0 0 0 0 0 0\n";
        let after = "cpu  9 9 9 9\ncpu1 130 0 20 940 10 0 0 0 30 0\n";
        assert_eq!(busy_share(before, after, 1), Some(0.5));
        assert_eq!(busy_share(before, before, 1), None);
        assert_eq!(busy_share(before, after, 2), None);
        assert_eq!(busy_share(before, after, 10), None);
    }
}
