//! The kernel's events around a delay, and what they tell of threads by themselves.

use stealtime_attribution::NO_NAME;
use stealtime_trace::{Kind, Recorded, Row};

use crate::columns::Columns;

/// Rows that are looked at in one piece.
const BATCH_ROWS: usize = 1 << 16;

/// More rows in that time are not kept: 320 MB.
const MOST_ROWS: usize = 8 << 20;

/// `TASK_STOPPED` and `TASK_TRACED` (`include/linux/sched.h`).
const STOPPED: i64 = 0x4 | 0x8;

/// The thread that runs where none does.
const NOBODY: i32 = 0;

/// The kernel's priorities below are real-time (`MAX_RT_PRIO`).
const FIRST_ORDINARY_PRIORITY: i16 = 100;

/// The switches of one CPU: time, thread that left, its state, thread that came, its priority and name.
fn switches(columns: &Columns, cpu: u32) -> impl Iterator<Item = (u64, i32, i64, i32, i16, u32)> {
    let is_here = move |row: &usize| u32::from(columns.cpu[*row]) == cpu && columns.kind[*row] == Kind::Switch as u8;
    (0..columns.time.len()).filter(is_here).map(|row| {
        (
            columns.time[row],
            columns.thread[row],
            columns.value[row],
            columns.other[row],
            columns.priority[row],
            columns.name[row],
        )
    })
}

/// Who ran most on a CPU in some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    pub name: String,
    pub thread: i32,
    pub is_real_time: bool,
    /// For how long.
    pub cycles: u64,
}

/// The rows of some time, and the names that they count.
///
/// # Errors
/// Why the events say nothing.
pub fn rows_between(mut recorded: Recorded, from: u64, until: u64) -> Result<(Columns, Vec<String>), String> {
    let (mut columns, mut rows) = (Columns::default(), Vec::with_capacity(BATCH_ROWS));
    let mut later: Vec<u16> = Vec::new();
    loop {
        rows.clear();
        let has_more = recorded.take(BATCH_ROWS, &mut rows).map_err(|error| error.to_string())?;
        for row in &rows {
            if (from..=until).contains(&row.time) {
                columns.push(row);
            } else if row.time > until && !later.contains(&row.cpu) {
                later.push(row.cpu);
                // What was lost before the first later event may have been within.
                if row.kind == Kind::Lost {
                    columns.push(&Row { time: until, ..*row });
                }
            }
        }
        if columns.time.len() > MOST_ROWS {
            return Err(format!("more than {MOST_ROWS} events came around that moment"));
        }
        if !has_more {
            break;
        }
    }
    let (names, findings) = recorded.conclude();
    if let Some(unknown) = findings.iter().find(|finding| finding.code == "thread_ids_unknown") {
        return Err(unknown.text.clone());
    }
    Ok((columns, names))
}

/// Who had the CPU for most of the time, the measuring thread and idleness aside.
pub fn who_ran(
    columns: &Columns,
    names: &[String],
    (cpu, measuring): (u32, i32),
    (start, end): (u64, u64),
) -> Option<Runner> {
    let mut ran: Vec<(i32, u64, u32, i16)> = Vec::new();
    let mut current: Option<(u64, i32, i16, u32)> = None;
    let mut add = |current: Option<(u64, i32, i16, u32)>, until: u64| {
        let Some((since, thread, priority, name)) = current else { return };
        let within = until.min(end).saturating_sub(since.max(start));
        match ran.iter_mut().find(|one| one.0 == thread) {
            Some(known) => known.1 += within,
            None => ran.push((thread, within, name, priority)),
        }
    };
    for (time, _, _, next, priority, name) in switches(columns, cpu) {
        add(current, time);
        current = Some((time, next, priority, name));
    }
    add(current, end);
    ran.retain(|&(thread, within, ..)| thread != measuring && thread != NOBODY && within > 0);
    let (thread, cycles, number, priority) = ran.into_iter().max_by_key(|&(_, within, ..)| within)?;
    let name = names.get(number as usize).filter(|_| number != NO_NAME)?.clone();
    Some(Runner { name, thread, is_real_time: priority < FIRST_ORDINARY_PRIORITY, cycles })
}

/// For how many cycles of some time the trace does not tell who had a CPU: somebody leaves it there who did not come. A
/// kernel was seen (6.18, itself a guest, after 14 hours) that told hardly a switch out of idleness any more.
pub fn untold_within(columns: &Columns, cpu: u32, (start, end): (u64, u64)) -> u64 {
    let (mut before, mut untold) = (None, 0);
    for (time, left, _, next, ..) in switches(columns, cpu) {
        let (since, came) = before.replace((time, next)).unwrap_or((time, left));
        if came != left {
            untold += time.min(end).saturating_sub(since.max(start));
        }
    }
    untold
}

/// For how many cycles of some time the thread was stopped by a signal.
pub fn stopped_within(columns: &Columns, thread: i32, (start, end): (u64, u64)) -> u64 {
    let (mut since, mut stopped) = (None, 0);
    let within = |since: u64, until: u64| until.min(end).saturating_sub(since.max(start));
    for row in 0..columns.time.len() {
        if columns.kind[row] != Kind::Switch as u8 {
            continue;
        }
        if columns.thread[row] == thread && columns.value[row] & STOPPED != 0 {
            since = Some(columns.time[row]);
        } else if columns.other[row] == thread
            && let Some(since) = since.take()
        {
            stopped += within(since, columns.time[row]);
        }
    }
    stopped + since.map_or(0, |since| within(since, end))
}
