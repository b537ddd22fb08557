//! Which CPUs may be measured: those that this process inherited, those that the kernel grants, and those that it
//! keeps free.
//!
//! An affinity that was inherited is no limit: it may be a deliberate `taskset`, but after `isolcpus=` every process
//! starts confined to the other CPUs, and may still ask for the isolated ones. What the kernel grants is what it
//! keeps of a request for all CPUs (`sched_setaffinity(2)`): the cpuset of the process, as far as it is online. So a
//! CPU that is *named* may be any that is granted; the *default* comes from the isolated ones, else from those that
//! were inherited.

use std::path::Path;
use std::{fs, io, thread};

use crate::sys;

/// What is known of the CPUs of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessorSets {
    /// The affinity of the calling thread.
    pub inherited: Vec<u32>,
    /// What the kernel would let it have.
    pub granted: Vec<u32>,
    /// Of those granted: the kernel's scheduler puts nothing there of its own accord (`isolcpus=domain`).
    pub isolated: Vec<u32>,
    /// Of those granted: the kernel's tick stops there (`nohz_full=`).
    pub tickless: Vec<u32>,
}

impl ProcessorSets {
    pub fn here() -> io::Result<Self> {
        let inherited = sys::affinity()?;
        let granted = granted_cpus().unwrap_or_else(|_| inherited.clone());
        let listed = |name: &str| {
            let list = fs::read_to_string(Path::new("/sys/devices/system/cpu").join(name)).unwrap_or_default();
            common(&parse_cpu_list(&list), &granted)
        };
        Ok(Self { isolated: listed("isolated"), tickless: listed("nohz_full"), inherited, granted })
    }

    /// Those that one CPU to measure is taken from, unless it was named.
    pub fn preferred(&self) -> Vec<u32> {
        let kept_free = if self.isolated.is_empty() { &self.tickless } else { &self.isolated };
        let inherited = common(kept_free, &self.inherited);
        if !inherited.is_empty() {
            return inherited;
        }
        if self.is_confined_by_the_kernel() { kept_free.clone() } else { self.inherited.clone() }
    }

    /// What a reader should know if this process was started on fewer CPUs than it may have.
    pub fn remark(&self) -> Option<String> {
        if self.inherited == self.granted {
            return None;
        }
        let (inherited, granted) = (named(&self.inherited), named(&self.granted));
        Some(if self.is_confined_by_the_kernel() {
            let isolated = named(&self.isolated);
            format!(
                "the kernel keeps the CPUs {isolated} free (isolcpus), so they are measured unless others are named"
            )
        } else {
            format!(
                "this process was started on the CPUs {inherited} (taskset?), and the kernel grants {granted}: name \
                 one to measure it"
            )
        })
    }

    /// Whether every process starts like this one: on all CPUs but the isolated ones.
    pub fn is_confined_by_the_kernel(&self) -> bool {
        let others = self.granted.iter().filter(|cpu| !self.isolated.contains(cpu));
        !self.isolated.is_empty() && others.eq(&self.inherited)
    }
}

/// What the kernel keeps of a request for every CPU, asked on a thread of its own, which ends with it.
///
/// # Errors
/// The request was refused, as a sandbox may.
pub fn granted_cpus() -> io::Result<Vec<u32>> {
    let ask = || {
        sys::set_affinity(&(0..sys::MOST_CPUS).collect::<Vec<_>>())?;
        sys::affinity()
    };
    thread::Builder::new().name("ask".to_owned()).spawn(ask)?.join().map_err(|_| io::Error::other("it panicked"))?
}

/// The CPUs that may be named here, for the hint of an error: unknown is none.
pub fn nameable_cpus() -> Vec<u32> {
    ProcessorSets::here().map(|sets| sets.granted).unwrap_or_default()
}

fn common(some: &[u32], others: &[u32]) -> Vec<u32> {
    some.iter().copied().filter(|cpu| others.contains(cpu)).collect()
}

/// Parses a list of the kernel's form, `0-2,7`; what is not a number is left out.
pub fn parse_cpu_list(list: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// `0-2,5`, as people and the kernel write it.
pub fn named(cpus: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |&(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(inherited: &[u32], granted: &[u32], isolated: &[u32]) -> ProcessorSets {
        let [inherited, granted, isolated] = [inherited, granted, isolated].map(<[u32]>::to_vec);
        ProcessorSets { inherited, granted, isolated, tickless: Vec::new() }
    }

    #[test]
    fn the_default_is_what_the_kernel_keeps_free() {
        let confined = sets(&[0, 1], &[0, 1, 2, 3], &[2, 3]);
        assert_eq!(confined.preferred(), [2, 3]);
        assert!(confined.remark().unwrap().contains("CPUs 2-3 free (isolcpus)"));
        assert_eq!(sets(&[0, 1, 2, 3], &[0, 1, 2, 3], &[1]).preferred(), [1], "isolated and inherited");
    }

    #[test]
    fn a_deliberate_taskset_is_respected() {
        for (inherited, isolated) in [(&[0][..], &[3][..]), (&[0], &[]), (&[3], &[2, 3])] {
            let chosen = sets(inherited, &[0, 1, 2, 3], isolated);
            assert_eq!(chosen.preferred(), inherited, "{isolated:?}");
            assert!(chosen.remark().unwrap().contains("grants 0-3"), "{isolated:?}");
        }
    }

    #[test]
    fn where_all_is_inherited_nothing_is_said() {
        let all = sets(&[0, 1], &[0, 1], &[]);
        assert_eq!((all.preferred(), all.remark()), (vec![0, 1], None));
    }

    #[test]
    fn cpus_without_a_tick_are_preferred_where_none_is_isolated() {
        let tickless = ProcessorSets { tickless: vec![1], ..sets(&[0, 1, 2], &[0, 1, 2], &[]) };
        assert_eq!(tickless.preferred(), [1]);
        let chosen = ProcessorSets { tickless: vec![1], ..sets(&[0], &[0, 1, 2], &[]) };
        assert_eq!(chosen.preferred(), [0], "nohz_full confines nobody, so it was a taskset");
    }

    #[test]
    fn the_kernel_grants_more_than_a_thread_has() {
        let all = granted_cpus().unwrap();
        let confined = thread::spawn(|| {
            let first = sys::affinity().unwrap()[0];
            sys::set_affinity(&[first]).unwrap();
            let here = ProcessorSets::here().unwrap();
            (here.inherited == [first], here.granted)
        });
        assert_eq!(confined.join().unwrap(), (true, all));
    }

    #[test]
    fn cpus_are_named_as_the_kernel_does() {
        assert_eq!(named(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
    }

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_cpu_list("0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!(parse_cpu_list(""), Vec::<u32>::new());
    }
}
