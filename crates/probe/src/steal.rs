//! The time that a machine's kernel knows its host to have taken: `steal` in `/proc/stat` (`proc_stat(5)`).
//!
//! Counted by kernels that are told so by their hypervisor (KVM, Xen); everywhere else it stays at 0.

use std::fs;

/// `USER_HZ` of x86 (`include/asm-generic/param.h`): the unit of `/proc/stat`, whatever the kernel's own
/// tick.
const TICK_NS: u64 = 10_000_000;

/// Of a line `cpuN`, the name being column 0; since Linux 2.6.11.
const STEAL_COLUMN: usize = 8;

/// What was taken from these CPUs since boot, in steps of 10 ms; `None` if the kernel does not say.
pub fn stolen_ns(cpus: &[u32]) -> Option<u64> {
    stolen_in(&fs::read_to_string("/proc/stat").ok()?, cpus)
}

fn stolen_in(stat: &str, cpus: &[u32]) -> Option<u64> {
    let of = |cpu: &u32| -> Option<u64> {
        let name = format!("cpu{cpu}");
        let line = stat.lines().find(|line| line.split_ascii_whitespace().next() == Some(&name))?;
        line.split_ascii_whitespace().nth(STEAL_COLUMN)?.parse().ok()
    };
    Some(cpus.iter().map(of).sum::<Option<u64>>()? * TICK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 99 9 9\ncpu1 1 2 3 4 5 6 7 8 9 10\ncpu10 0 0 0 0 0 0 0 5 0 0\nintr 5\n";

    #[test]
    fn the_steal_of_the_named_cpus_is_summed() {
        assert_eq!(stolen_in(STAT, &[1]), Some(80_000_000));
        assert_eq!(stolen_in(STAT, &[1, 10]), Some(130_000_000));
    }

    #[test]
    fn a_cpu_that_is_not_there_or_does_not_count_makes_the_sum_unknown() {
        assert_eq!(stolen_in(STAT, &[1, 0]), None);
        assert_eq!(stolen_in("cpu0 1 2 3 4\n", &[0]), None);
    }
}
