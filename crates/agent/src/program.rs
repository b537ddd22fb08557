//! Somebody's program: started here, and its threads as the kernel tells of them.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use stealtime_probe::scheduling;
use stealtime_trace::processes::{family, threads_of};
use stealtime_wire::{ProgramThread, Reservation};

use crate::cpu_list::CpuList;

/// By this name a program is the agent itself, also where no file has it.
const ITSELF: &str = "stealtime-agent";

/// A program under way; dropped, it and what it started is killed.
#[derive(Debug)]
pub struct Program {
    process: Child,
}

impl Program {
    /// Starts it in a process group of its own, with its output where ours is read.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(arguments: &[String]) -> Result<Self> {
        let Some((name, rest)) = arguments.split_first() else { bail!("no program was named") };
        let path = if name == ITSELF { "/proc/self/exe" } else { name };
        // `guard` makes it die with us also where we are killed; it becomes the program, and keeps its id.
        let process = Command::new("/proc/self/exe")
            .args(["guard", "--", path])
            .args(rest)
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        Ok(Self { process })
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Buries it once it has ended, so that it is no longer listed.
    pub fn look(&mut self) {
        // What cannot be waited for is not there.
        let _ = self.process.try_wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // Gone in between is as well.
            let _ = killpg(Pid::from_raw(self.process.id().cast_signed()), Signal::SIGKILL);
            let _ = self.process.wait();
        }
    }
}

/// The threads of a process and of all that it started; none once it has ended.
pub fn list_threads(process: u32) -> Vec<ProgramThread> {
    let threads = family(&[process]).into_iter().flat_map(|one| threads_of(one).into_iter().map(move |id| (one, id)));
    threads.filter_map(|(process, id)| describe(process, id)).collect()
}

/// None of one that has ended meanwhile.
fn describe(process: u32, id: u32) -> Option<ProgramThread> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{process}/task/{id}/{file}")).ok();
    let stat = read("stat")?;
    let (state, policy, priority) = scheduling_of(&stat)?;
    if "ZX".contains(state) {
        return None;
    }
    let status = read("status").unwrap_or_default();
    let reservation = (policy == libc::SCHED_DEADLINE).then(|| scheduling::deadline_of(id).ok()).flatten();
    Some(ProgramThread {
        id,
        process,
        name: read("comm")?.trim_end().to_owned(),
        policy: scheduling::policy_name(policy).to_owned(),
        priority,
        reservation: reservation.map(|(runtime_ns, deadline_ns, period_ns)| Reservation {
            runtime_ns,
            deadline_ns,
            period_ns,
        }),
        cpus: allowed_cpus(&status),
        ran_ns: read("schedstat").and_then(|text| text.split_ascii_whitespace().next()?.parse().ok()),
    })
}

/// State, policy and real-time priority: the fields 3, 41 and 40 of `/proc/PID/stat` (`proc_pid_stat(5)`).
fn scheduling_of(stat: &str) -> Option<(char, i32, u32)> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let at = |number: usize| fields.get(number - 3);
    Some((at(3)?.chars().next()?, at(41)?.parse().ok()?, at(40)?.parse().ok()?))
}

fn allowed_cpus(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(|list| CpuList::parse(list.trim()).ok()).map_or_else(Vec::new, |list| list.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_described_as_its_kernel_tells() {
        let own = std::process::id();
        let threads = list_threads(own);
        let this = threads.iter().find(|thread| thread.id == own).unwrap();
        let known = scheduling::placement(Vec::new()).unwrap();
        assert_eq!((this.process, &this.policy, this.priority), (own, &known.policy, known.priority));
        assert!(!this.cpus.is_empty() && this.reservation.is_none());
        assert!(this.ran_ns.is_some());
    }

    #[test]
    fn scheduling_is_read_behind_any_name() {
        let fields: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let stat = format!("7 (a) b) S {}", fields[1..].join(" "));
        assert_eq!(scheduling_of(&stat), Some(('S', 41, 40)));
    }

    #[test]
    fn what_has_ended_has_no_threads() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(list_threads(child.id()), []);
    }
}
