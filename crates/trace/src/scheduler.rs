//! Entry to and exit from the scheduler, for which the kernel has tracepoints but no events.
//!
//! `sched_entry_tp` is the first and `sched_exit_tp` the last thing that `__schedule()` does
//! (`include/trace/events/sched.h`; they came with the monitors of runtime verification for the scheduler).
//! Only a BPF program can be attached to them. Ours are seven instructions that hand a constant text to
//! `bpf_trace_printk()`; the kernel makes an ordinary event of it, in our own ring buffers, between the
//! other events of that CPU, stamped by the same clock, and counted if it is lost. So there is no second
//! buffer and no second clock to bring in line.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::row::Kind;
use crate::sys::{Instruction, attach_to_tracepoint, load_tracepoint_program};
use crate::tracefs::Tracefs;

/// The event that `bpf_trace_printk()` makes, of the system `bpf_trace`.
pub const EVENT: &str = "bpf_trace_printk";

/// Which tracepoint is told by which text. Four bytes, with the zero that ends them, are one instruction.
const TOLD: [(&str, [u8; 4], Kind); 2] =
    [("sched_entry_tp", *b"st>\0", Kind::ScheduleEntry), ("sched_exit_tp", *b"st<\0", Kind::ScheduleExit)];

/// `BPF_FUNC_trace_printk` (`include/uapi/linux/bpf.h`).
const TRACE_PRINTK: i32 = 6;

/// Attached programs; dropped, or when their process is killed, the kernel detaches and forgets them.
#[derive(Debug)]
pub struct SchedulerPrograms {
    _attached: Vec<OwnedFd>,
}

impl SchedulerPrograms {
    /// Attaches them; from here on each passage of the scheduler is told.
    pub fn attach(tracefs: &Tracefs) -> Result<Self, String> {
        // Loading a program that prints switches the event on in the kernel's own ring buffer too, which is not ours.
        let elsewhere = tracefs.path(Path::new("events/bpf_trace").join(EVENT).join("enable"));
        let was_on = fs::read_to_string(&elsewhere).is_ok_and(|state| state.trim() != "0");
        let loaded: Result<Vec<OwnedFd>, String> = TOLD
            .iter()
            .map(|(tracepoint, text, _)| {
                load_tracepoint_program(&program(*text)).map_err(|error| refused(tracepoint, &error))
            })
            .collect();
        if !was_on {
            fs::write(&elsewhere, "0").map_err(|error| format!("{}: {error}", elsewhere.display()))?;
        }
        let loaded = loaded?;
        let attached = loaded.iter().zip(TOLD).map(|(program, (tracepoint, _, _))| {
            attach_to_tracepoint(program, tracepoint).map_err(|error| refused(tracepoint, &error))
        });
        Ok(Self { _attached: attached.collect::<Result<_, _>>()? })
    }
}

/// What a text stands for; `None` if another program printed it.
pub fn kind_of(text: &[u8]) -> Option<Kind> {
    TOLD.iter().find(|(_, told, _)| text == &told[..3]).map(|&(_, _, kind)| kind)
}

fn refused(tracepoint: &str, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        return format!("this kernel has no tracepoint {tracepoint}");
    }
    format!("the kernel refuses a BPF program at {tracepoint}: {error}")
}

/// `bpf_trace_printk(text, 4); return 0;`
fn program(text: [u8; 4]) -> [Instruction; 7] {
    const ON_STACK: i16 = -4;
    let stack = Instruction::STACK;
    [
        Instruction::store_word(stack, ON_STACK, i32::from_le_bytes(text)),
        Instruction::copy(1, stack),
        Instruction::add(1, i32::from(ON_STACK)),
        Instruction::set(2, 4),
        Instruction::call(TRACE_PRINTK),
        Instruction::set(0, 0),
        Instruction::EXIT,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_told_from_those_of_others() {
        assert_eq!(kind_of(b"st>"), Some(Kind::ScheduleEntry));
        assert_eq!(kind_of(b"st<"), Some(Kind::ScheduleExit));
        for other in [&b"st"[..], b"st>>", b"", b"hello"] {
            assert_eq!(kind_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_tracepoint_that_is_not_there_is_told_by_its_name() {
        let missing = refused("sched_entry_tp", &io::Error::from_raw_os_error(libc::ENOENT));
        assert_eq!(missing, "this kernel has no tracepoint sched_entry_tp");
        let forbidden = refused("sched_exit_tp", &io::Error::from_raw_os_error(libc::EPERM));
        assert!(forbidden.contains("sched_exit_tp: Operation not permitted"), "{forbidden}");
    }
}
