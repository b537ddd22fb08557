//! Which threads go before others: those whose lateness would look like a dead host.
//!
//! A guest that is translated takes all of a CPU. The threads that send heartbeats, release output and stop
//! the guest run for microseconds at a time, and get their CPU at once by a nice value; where that is not
//! permitted they do without.

use rustix::process::setpriority_process;

const URGENT: i32 = -15;
const ORDINARY: i32 = 0;

/// Have this thread, and those that it starts, go before others.
pub fn raise() {
    set(URGENT);
}

/// Have this thread, and those that it starts, be like others.
pub fn reset() {
    set(ORDINARY);
}

fn set(nice: i32) {
    // Without CAP_SYS_NICE everything works, only later on a busy host.
    let _ = setpriority_process(None, nice);
}
