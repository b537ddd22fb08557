//! Counters of the calling thread that the kernel keeps together (`perf_event_open(2)`).

use std::fs::File;
use std::io::{self, Read};

use super::perf_event::{self, Attributes, DISABLED, Whose};

const TYPE_HARDWARE: u32 = 0;
const HARDWARE_CYCLES: u64 = 0;
const HARDWARE_INSTRUCTIONS: u64 = 1;
/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_GROUP`.
const READ_FORMAT: u64 = 1 | 1 << 1 | 1 << 3;
/// Bit of [`Attributes`]' flags: not while a hypervisor runs.
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// `PERF_IOC_FLAG_GROUP`.
const WHOLE_GROUP: libc::c_ulong = 1;

/// Cycles and instructions of one thread, in kernel and user mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HardwareCounts {
    pub cycles: u64,
    pub instructions: u64,
}

impl HardwareCounts {
    /// What came after `earlier`; none if that is more.
    pub fn since(self, earlier: Self) -> Option<Self> {
        Some(Self {
            cycles: self.cycles.checked_sub(earlier.cycles)?,
            instructions: self.instructions.checked_sub(earlier.instructions)?,
        })
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self { cycles: self.cycles + other.cycles, instructions: self.instructions + other.instructions }
    }
}

/// Counters that are on the CPU together or not at all, of the thread that opened them.
pub struct CounterGroup {
    /// The first leads: reading it reads all.
    members: Vec<File>,
}

impl CounterGroup {
    /// Counts cycles and instructions from here on.
    ///
    /// # Errors
    /// What the kernel says: without such hardware `ENOENT`, `EOPNOTSUPP` or the like; without permission
    /// `EACCES` or `EPERM`.
    pub fn hardware() -> io::Result<Self> {
        Self::open(TYPE_HARDWARE, &[HARDWARE_CYCLES, HARDWARE_INSTRUCTIONS])
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// What the kernel says, or that the counters were shared with others and so counted only at times.
    pub fn hardware_counts(&self) -> io::Result<HardwareCounts> {
        match self.read()?.as_slice() {
            &[cycles, instructions] => Ok(HardwareCounts { cycles, instructions }),
            other => Err(io::Error::other(format!("{} counters were read, not 2", other.len()))),
        }
    }

    fn open(kind: u32, configs: &[u64]) -> io::Result<Self> {
        let mut members: Vec<File> = Vec::new();
        for &config in configs {
            members.push(open(kind, config, members.first())?);
        }
        // A member that is opened beside one that counts is put on the CPU at some later tick, and the times of the
        // group do not tell: so all begin together.
        if let Some(leader) = members.first() {
            perf_event::enable(leader, WHOLE_GROUP)?;
        }
        Ok(Self { members })
    }

    fn read(&self) -> io::Result<Vec<u64>> {
        // How many there are, the time that they were wanted and that they ran, then each.
        let mut bytes = vec![0; (3 + self.members.len()) * size_of::<u64>()];
        let Some(mut leader) = self.members.first() else { return Ok(Vec::new()) };
        leader.read_exact(&mut bytes)?;
        let words: Vec<u64> = bytes
            .chunks_exact(size_of::<u64>())
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
            .collect();
        if words[1] != words[2] {
            return Err(io::Error::other(format!(
                "counted for {} of {} ns: others use the counters too",
                words[2], words[1]
            )));
        }
        Ok(words[3..].to_vec())
    }
}

fn open(kind: u32, config: u64, leader: Option<&File>) -> io::Result<File> {
    let attributes = Attributes {
        kind,
        config,
        read_format: READ_FORMAT,
        flags: if leader.is_none() { EXCLUDE_HYPERVISOR | DISABLED } else { EXCLUDE_HYPERVISOR },
        ..Attributes::default()
    };
    perf_event::open(attributes, Whose::ThisThread, leader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{ThreadUsage, busy_loop, thread_cpu_ns};

    const TYPE_SOFTWARE: u32 = 1;
    const SOFTWARE_TASK_CLOCK: u64 = 1;
    const SOFTWARE_MINOR_FAULTS: u64 = 5;

    /// The kernel's own counters need no hardware, and another account of them is known.
    #[test]
    fn a_group_counts_what_its_thread_does() {
        let group = match CounterGroup::open(TYPE_SOFTWARE, &[SOFTWARE_TASK_CLOCK, SOFTWARE_MINOR_FAULTS]) {
            Ok(group) => group,
            Err(error) => {
                eprintln!("skipped: no counters for this user: {error}");
                return;
            }
        };
        let started = std::time::Instant::now();
        let (cpu_ns, faults) = (thread_cpu_ns(), ThreadUsage::now().minor_faults);
        let before = group.read().unwrap();
        busy_loop(10_000_000);
        let mut touched = crate::sys::Mapping::new(1 << 20).unwrap();
        touched.touch();
        let after = group.read().unwrap();
        let (outer_ns, outer_faults) = (thread_cpu_ns() - cpu_ns, ThreadUsage::now().minor_faults - faults);
        let inner_ns = after[0] - before[0];
        // The thread's clock leaves out what interrupts and a host took of it, this counter does not.
        let elapsed_ns = u64::try_from(started.elapsed().as_nanos()).unwrap();
        assert!(inner_ns <= elapsed_ns && 10 * inner_ns >= 9 * outer_ns, "{inner_ns} of {outer_ns}, {elapsed_ns} ns");
        let inner_faults = after[1] - before[1];
        assert!(0 < inner_faults && inner_faults <= outer_faults, "{inner_faults} of {outer_faults} faults");
    }

    #[test]
    fn counts_are_taken_apart_and_put_together() {
        let counts = |cycles, instructions| HardwareCounts { cycles, instructions };
        assert_eq!(counts(7, 9).since(counts(2, 3)), Some(counts(5, 6)));
        assert_eq!(counts(7, 9).since(counts(2, 10)), None);
        assert_eq!(counts(7, 9).and(counts(2, 3)), counts(9, 12));
    }

    #[test]
    fn hardware_counts_what_was_executed_or_says_why_not() {
        match CounterGroup::hardware().and_then(|group| {
            let before = group.hardware_counts()?;
            busy_loop(1_000_000);
            Ok(group.hardware_counts()?.since(before).unwrap())
        }) {
            // Four instructions a turn, and the kernel's beside them.
            Ok(HardwareCounts { cycles, instructions }) => {
                assert!((4_000_000..4_400_000).contains(&instructions), "{instructions}");
                assert!(cycles > 1_000_000, "{cycles}");
            }
            Err(error) => {
                let known = [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP, libc::EACCES, libc::EPERM, libc::ENOSYS];
                assert!(error.raw_os_error().is_some_and(|number| known.contains(&number)), "{error}");
            }
        }
    }
}
