//! What a machine says about itself: read once, each value or the reason why it is absent.

use std::fs;
use std::path::Path;

use serde_json::Value;
use stealtime_wire::{Facts, Reading};

use crate::clock::CLOCK_SOURCE;
use crate::processor_sets::granted_cpus;
use crate::throttling::Limit;
use crate::{scheduling, sys};

/// Files whose trimmed text is a fact as it stands.
const TEXT_FILES: [(&str, &str); 4] = [
    ("kernel_release", "/proc/sys/kernel/osrelease"),
    ("kernel_version", "/proc/sys/kernel/version"),
    ("kernel_command_line", "/proc/cmdline"),
    ("isolated_cpus", "/sys/devices/system/cpu/isolated"),
];

/// The same of what the kernel keeps its time with.
const CLOCK_FILES: [(&str, &str); 3] = [
    ("clocksource", CLOCK_SOURCE),
    ("clocksources", "/sys/devices/system/clocksource/clocksource0/available_clocksource"),
    ("clock_event_device", "/sys/devices/system/clockevents/clockevent0/current_device"),
];

/// Reads what the kernel keeps its time with now; until it has been up for some seconds, that may change.
pub fn clocks() -> Facts {
    texts(&CLOCK_FILES)
}

pub fn read() -> Facts {
    let mut facts = texts(&TEXT_FILES);
    facts.extend(clocks());
    facts.insert("realtime_kernel".to_owned(), realtime_kernel());
    facts.insert("memory_total_bytes".to_owned(), memory_total());
    facts.insert("agent_cpus".to_owned(), or_absent(scheduling::allowed_cpus()));
    facts.insert("granted_cpus".to_owned(), or_absent(granted_cpus()));
    let limit = Limit::read();
    facts.insert("sched_rt_runtime_us".to_owned(), or_absent(limit.map(|limit| limit.runtime_us)));
    match fs::read_to_string("/proc/cpuinfo") {
        Ok(cpuinfo) => {
            facts.insert("cpu_model".to_owned(), cpu_field(&cpuinfo, "model name"));
            for flag in ["constant_tsc", "nonstop_tsc", "hypervisor"] {
                facts.insert(flag.to_owned(), Reading::Value(has_flag(&cpuinfo, flag).into()));
            }
        }
        Err(error) => {
            facts.insert("cpu_model".to_owned(), Reading::Absent(format!("/proc/cpuinfo: {error}")));
        }
    }
    facts.insert("performance_counters".to_owned(), performance_counters());
    facts.insert("thread_id".to_owned(), Reading::Value(sys::thread_id().into()));
    facts
}

/// Whether the first CPU of a `/proc/cpuinfo` has this flag.
pub fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split_ascii_whitespace().any(|word| word == flag))
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

fn cpu_field(cpuinfo: &str, name: &str) -> Reading {
    let absent = || Reading::Absent(format!("/proc/cpuinfo has no line {name:?}"));
    field(cpuinfo, name).map_or_else(absent, |value| Reading::Value(value.into()))
}

fn texts(files: &[(&str, &str)]) -> Facts {
    files.iter().map(|&(name, path)| (name.to_owned(), text(Path::new(path)))).collect()
}

fn text(path: &Path) -> Reading {
    match fs::read_to_string(path) {
        Ok(text) => Reading::Value(text.trim().into()),
        Err(error) => Reading::Absent(format!("{}: {error}", path.display())),
    }
}

/// What the probe `contend` counts of the hardware's, or why it cannot.
fn performance_counters() -> Reading {
    match sys::CounterGroup::hardware().and_then(|group| group.hardware_counts()) {
        Ok(_) => Reading::Value("cycles, instructions".into()),
        Err(error) => Reading::Absent(format!("perf_event_open: {error}")),
    }
}

/// PREEMPT_RT kernels have `/sys/kernel/realtime`; the banner says it on those that lack the file.
fn realtime_kernel() -> Reading {
    let banner = fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
    Reading::Value((Path::new("/sys/kernel/realtime").exists() || banner.contains("PREEMPT_RT")).into())
}

fn memory_total() -> Reading {
    let meminfo = match fs::read_to_string("/proc/meminfo") {
        Ok(meminfo) => meminfo,
        Err(error) => return Reading::Absent(format!("/proc/meminfo: {error}")),
    };
    meminfo_bytes(&meminfo, "MemTotal").map_or_else(
        || Reading::Absent("/proc/meminfo has no MemTotal".to_owned()),
        |bytes| Reading::Value(bytes.into()),
    )
}

/// A line of `/proc/meminfo`, in bytes.
pub fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let kibibytes = field(meminfo, name)?.strip_suffix("kB")?.trim();
    Some(kibibytes.parse::<u64>().ok()? * 1024)
}

fn or_absent<T: Into<Value>>(result: std::io::Result<T>) -> Reading {
    match result {
        Ok(value) => Reading::Value(value.into()),
        Err(error) => Reading::Absent(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str =
        "processor\t: 0\nmodel name\t: Some CPU\nflags\t\t: fpu constant_tsc hypervisor\n\nprocessor\t: 1\n";

    #[test]
    fn flags_are_whole_words() {
        assert!(has_flag(CPUINFO, "constant_tsc"));
        assert!(!has_flag(CPUINFO, "tsc"));
        assert_eq!(cpu_field(CPUINFO, "model name"), Reading::Value("Some CPU".into()));
    }

    #[test]
    fn memory_is_given_in_bytes() {
        assert_eq!(meminfo_bytes("MemTotal:         1024 kB\nMemAvailable:  12 kB\n", "MemAvailable"), Some(12 * 1024));
        assert_eq!(meminfo_bytes("MemTotal: 1024 kB\n", "MemAvailable"), None);
    }

    #[test]
    fn an_unreadable_file_is_absent_with_its_name() {
        let Reading::Absent(reason) = text(Path::new("/nowhere/at/all")) else {
            panic!("read a file that is not there")
        };
        assert!(reason.contains("/nowhere/at/all"), "{reason}");
    }

    #[test]
    fn this_machine_has_a_kernel_release() {
        assert!(matches!(read().get("kernel_release"), Some(Reading::Value(_))));
    }
}
