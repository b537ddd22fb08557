//! How long CPUs were idle, as their kernel counts it (`/proc/stat`, `proc_stat(5)`).

use std::fs;

/// `USER_HZ` of x86 (`include/asm-generic/param.h`): the unit of `/proc/stat`, whatever the kernel's own
/// tick.
const TICK_NS: u64 = 10_000_000;

/// `idle` and `iowait` of a line `cpuN`, the name being column 0.
const IDLE_COLUMNS: [usize; 2] = [4, 5];

/// How long these CPUs together were idle since boot, in steps of 10 ms; `None` if the kernel does not say.
pub fn idle_ns(cpus: &[u32]) -> Option<u64> {
    idle_in(&fs::read_to_string("/proc/stat").ok()?, cpus)
}

fn idle_in(stat: &str, cpus: &[u32]) -> Option<u64> {
    let of = |cpu: &u32| -> Option<u64> {
        let name = format!("cpu{cpu}");
        let line = stat.lines().find(|line| line.split_ascii_whitespace().next() == Some(&name))?;
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        IDLE_COLUMNS.iter().map(|&column| columns.get(column)?.parse::<u64>().ok()).sum()
    };
    Some(cpus.iter().map(of).sum::<Option<u64>>()? * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_for_io_of_the_named_cpus_are_summed() {
        let stat = "cpu  9 9 9 99 99 9\ncpu1 1 2 3 40 5 6\ncpu10 0 0 0 7 0 0\n";
        assert_eq!(idle_in(stat, &[1]), Some(450_000_000));
        assert_eq!(idle_in(stat, &[1, 10]), Some(520_000_000));
        assert_eq!(idle_in(stat, &[0]), None);
    }
}
