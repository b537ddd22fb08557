//! The CPUs of a measurement without a control plane: those that are named, else what the kernel keeps free, else
//! those that this process inherited.

use anyhow::{Context, Result, bail};
use stealtime_console::remarks;
use stealtime_probe::processor_sets::{ProcessorSets, named};

use crate::cpu_list::CpuList;

/// Of a probe that measures one CPU: the last of those that the kernel keeps free, else of those inherited.
///
/// # Errors
/// One that is named is not granted.
pub fn one_cpu(list: Option<&CpuList>) -> Result<Vec<u32>> {
    let sets = read()?;
    if let Some(list) = list {
        return granted(list, &sets);
    }
    say(sets.remark());
    sets.preferred().last().map(|&last| vec![last]).context("this process may run on no CPU")
}

/// Of a probe that roams: those that this process inherited. On isolated CPUs the kernel moves nothing to where there
/// is room.
pub fn all_cpus(list: Option<&CpuList>) -> Result<Vec<u32>> {
    let sets = read()?;
    if let Some(list) = list {
        return granted(list, &sets);
    }
    say(sets.remark().filter(|_| !sets.is_confined_by_the_kernel()));
    Ok(sets.inherited)
}

fn read() -> Result<ProcessorSets> {
    ProcessorSets::here().context("the CPUs of this process cannot be read")
}

fn granted(CpuList(cpus): &CpuList, sets: &ProcessorSets) -> Result<Vec<u32>> {
    if let Some(cpu) = cpus.iter().find(|cpu| !sets.granted.contains(cpu)) {
        bail!("CPU {cpu} cannot be measured, the kernel grants this process the CPUs {}", named(&sets.granted))
    }
    Ok(cpus.clone())
}

/// A process that was started on fewer CPUs than it may have should be known of.
fn say(remark: Option<String>) {
    if let Some(remark) = remark {
        remarks::say(remark);
    }
}
