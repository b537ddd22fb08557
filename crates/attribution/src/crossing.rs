//! Wake-ups that cross a thread on its way to sleep.
//!
//! A thread that is about to sleep says so first, then leaves its CPU. A wake-up from another CPU in between
//! is traced while the thread still runs; the waker then waits until it has left and makes it runnable at
//! once (`try_to_wake_up`, kernel/sched/core.c). So its switch says that it sleeps, but it does not: from
//! then on it waits for a CPU, and the next that is heard of it is that it runs, with no further wake-up.

use crate::trace::{EventKind, Trace};

/// What lies between saying so and leaving. A thread that was woken longer before has gone on since, and
/// sleeps for another reason.
const ON_THE_WAY_LIMIT_NS: f64 = 100e3;

#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    /// When it was woken, since it came to its CPU.
    woken: Option<u64>,
    /// The row of the switch by which it left just after that, until it is known whether it slept.
    left: Option<usize>,
}

/// Find the switches whose thread does not sleep although they say so; rows, sorted.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of a small positive value")]
pub(crate) fn crossed(trace: &Trace<'_>) -> Vec<usize> {
    let columns = &trace.columns;
    let limit = (ON_THE_WAY_LIMIT_NS * trace.cycles_per_ns) as u64;
    let mut threads = vec![Thread::default(); trace.threads];
    let mut found = Vec::new();
    for row in 0..trace.len() {
        let Some(kind) = EventKind::from_code(columns.kind[row]) else { continue };
        let place = |thread: i32| usize::try_from(thread).unwrap_or(0);
        let (thread, other) = (place(columns.thread[row]), place(columns.other[row]));
        if kind != EventKind::Lost {
            found.extend(threads[thread].left.take());
        }
        match kind {
            EventKind::Switch => {
                let time = columns.time[row];
                let leaving = &mut threads[thread];
                let is_crossed = leaving.woken.take().is_some_and(|woken| time - woken <= limit);
                leaving.left = (is_crossed && columns.value[row] != 0).then_some(row);
                found.extend(threads[other].left.take());
                threads[other].woken = None;
            }
            EventKind::Waking => {
                let slept = threads[other].left.take().is_some();
                threads[other].woken = (!slept).then_some(columns.time[row]);
            }
            _ => {}
        }
    }
    found.sort_unstable();
    found
}
