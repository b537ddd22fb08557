//! Which events are recorded: named groups, each of which may be refused without stopping the others.

use std::fmt::Write;

use stealtime_wire::{ExtraGroup, Facts, Finding, FindingLevel, Reading, TraceRequest};

use crate::error::TraceError;
use crate::instance::Instance;
use crate::rows::EventTable;
use crate::scheduler::{self, SchedulerPrograms};

/// The longest name of a thread, without the zero at its end (`TASK_COMM_LEN`).
const LONGEST_NAME: usize = 15;

/// `ptrace` on x86-64 (`arch/x86/entry/syscalls/syscall_64.tbl`).
const PTRACE: u32 = 101;

/// The groups of events that can be recorded, by name.
pub const NAMES: [&str; 8] = ["sched", "interrupts", "softirqs", "vectors", "kvm", "nmi", "signals", "syscalls"];

/// The name of a group that is recorded only where it is asked for.
pub fn extra_name(group: ExtraGroup) -> &'static str {
    match group {
        ExtraGroup::Timers => "timers",
        ExtraGroup::Scheduler => "scheduler",
        ExtraGroup::TimerStarts => "timer_starts",
        ExtraGroup::Calls => "calls",
        ExtraGroup::Block => "block",
    }
}

/// What came of switching on the groups.
#[derive(Debug)]
pub struct Enabled {
    /// By name: on, or why not.
    pub groups: Facts,
    /// What a reader must know.
    pub findings: Vec<Finding>,
    /// Where the scheduler's entry and exit are told; they are, for as long as this lives.
    pub scheduler: Option<SchedulerPrograms>,
}

/// An event and what of it to record.
struct Event {
    system: &'static str,
    name: String,
    filter: Option<String>,
    /// Whether its group is complete without it.
    is_optional: bool,
}

impl Event {
    fn all(system: &'static str, name: impl Into<String>) -> Self {
        Self { system, name: name.into(), filter: None, is_optional: false }
    }
}

/// Checks what of a request becomes part of a filter.
///
/// # Errors
/// If a name could not be one, or would break the filter.
pub fn validate(request: &TraceRequest) -> Result<(), TraceError> {
    let Some(name) = &request.hidden_threads else { return Ok(()) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.bytes().all(is_plain) {
        return Err(TraceError::Parameter {
            parameter: "hidden_threads",
            value: format!("{name:?}"),
            expected: format!("1 to {LONGEST_NAME} letters, digits or -_./:"),
        });
    }
    Ok(())
}

/// Switches on what the kernel offers.
pub fn enable(instance: &Instance, request: &TraceRequest, table: &mut EventTable) -> Result<Enabled, TraceError> {
    let mut enabled = Enabled { groups: Facts::new(), findings: Vec::new(), scheduler: None };
    for (group, events) in groups(instance, request) {
        let result = events.and_then(|events| {
            events.iter().try_for_each(|event| enable_event(instance, event, table, &mut enabled.findings))
        });
        let result = match result {
            Ok(()) if group == extra_name(ExtraGroup::Scheduler) => {
                SchedulerPrograms::attach(instance.tracefs()).map(|programs| enabled.scheduler = Some(programs))
            }
            other => other,
        };
        let reading = match result {
            Ok(()) => Reading::Value(true.into()),
            Err(reason) => Reading::Absent(reason),
        };
        enabled.groups.insert(group.to_owned(), reading);
    }
    if enabled.groups.values().all(|reading| matches!(reading, Reading::Absent(_))) {
        let reasons = enabled.groups.iter().filter_map(|(group, reading)| match reading {
            Reading::Absent(reason) => Some(format!("{group}: {reason}")),
            Reading::Value(_) => None,
        });
        return Err(TraceError::NoEvents { reasons: reasons.collect::<Vec<_>>().join("; ") });
    }
    Ok(enabled)
}

fn groups(instance: &Instance, request: &TraceRequest) -> Vec<(&'static str, Result<Vec<Event>, String>)> {
    let guests = || match request.user_mode_linux.as_slice() {
        [] => Err("no User-Mode Linux guest was named".to_owned()),
        threads => Ok(any_of("common_pid", threads)),
    };
    let mut groups = vec![
        (
            "sched",
            Ok([
                Event { filter: hidden(request), ..Event::all("sched", "sched_switch") },
                Event::all("sched", "sched_waking"),
            ]
            .into_iter()
            .chain(runtime(request))
            .collect()),
        ),
        ("interrupts", Ok(vec![Event::all("irq", "irq_handler_entry"), Event::all("irq", "irq_handler_exit")])),
        ("softirqs", Ok(vec![Event::all("irq", "softirq_entry"), Event::all("irq", "softirq_exit")])),
        ("vectors", vectors(instance)),
        ("kvm", Ok(vec![Event::all("kvm", "kvm_exit"), Event::all("kvm", "kvm_entry")])),
        ("nmi", Ok(vec![Event::all("nmi", "nmi_handler")])),
        (
            "signals",
            guests().map(|threads| vec![Event { filter: Some(threads), ..Event::all("signal", "signal_deliver") }]),
        ),
        (
            "syscalls",
            guests().map(|threads| {
                let filter = Some(format!("id == {PTRACE} && ({threads})"));
                vec![Event { filter, ..Event::all("raw_syscalls", "sys_enter") }]
            }),
        ),
    ];
    for &group in &request.extra_groups {
        let events = match group {
            ExtraGroup::Timers => {
                ["hrtimer_expire_entry", "hrtimer_expire_exit"].map(|name| Event::all("timer", name)).into()
            }
            ExtraGroup::Scheduler => vec![Event::all("bpf_trace", scheduler::EVENT)],
            ExtraGroup::TimerStarts => vec![Event::all("timer", "hrtimer_start")],
            ExtraGroup::Calls => ["sys_enter", "sys_exit"].map(|name| Event::all("raw_syscalls", name)).into(),
            ExtraGroup::Block => ["block_rq_issue", "block_rq_complete"].map(|name| Event::all("block", name)).into(),
        };
        groups.push((extra_name(group), Ok(events)));
    }
    groups
}

/// By which switches that the kernel left out are found. It comes with each switch, so it is not recorded
/// where switches are what is measured, or where each event is the program's own time.
fn runtime(request: &TraceRequest) -> Option<Event> {
    let event = Event { is_optional: true, ..Event::all("sched", "sched_stat_runtime") };
    (request.hidden_threads.is_none() && request.processes.is_empty()).then_some(event)
}

/// Switches between two threads of a ring are what is measured; they would fill any buffer.
fn hidden(request: &TraceRequest) -> Option<String> {
    let name = request.hidden_threads.as_ref()?;
    Some(format!("!(prev_comm ~ \"{name}*\" && next_comm ~ \"{name}*\")"))
}

fn any_of(field: &str, numbers: &[u32]) -> String {
    let mut text = String::new();
    for number in numbers {
        let or = if text.is_empty() { "" } else { " || " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{or}{field} == {number}");
    }
    text
}

/// The CPU's own interrupts that this kernel tells of, as pairs; a kernel has those of its configuration.
fn vectors(instance: &Instance) -> Result<Vec<Event>, String> {
    const SYSTEM: &str = "irq_vectors";
    let names = instance.list(format!("events/{SYSTEM}"));
    let pairs = names.iter().filter_map(|name| name.strip_suffix("_entry"));
    let complete = pairs.filter(|stem| names.iter().any(|name| name.strip_suffix("_exit") == Some(stem)));
    let events: Vec<Event> =
        complete.flat_map(|stem| ["entry", "exit"].map(|end| Event::all(SYSTEM, format!("{stem}_{end}")))).collect();
    if events.is_empty() { Err(format!("this kernel has no events {SYSTEM}")) } else { Ok(events) }
}

fn enable_event(
    instance: &Instance,
    event: &Event,
    table: &mut EventTable,
    findings: &mut Vec<Finding>,
) -> Result<(), String> {
    let folder = format!("events/{}/{}", event.system, event.name);
    let say = |error: TraceError| match error {
        TraceError::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            format!("this kernel has no event {}/{}", event.system, event.name)
        }
        other => other.to_string(),
    };
    let description = match instance.read(format!("{folder}/format")) {
        Err(TraceError::File { source, .. }) if event.is_optional && source.kind() == std::io::ErrorKind::NotFound => {
            return Ok(());
        }
        other => other.map_err(say)?,
    };
    table.learn(&event.name, &description).map_err(|problem| format!("{folder}/format: {problem}"))?;
    if let Some(filter) = &event.filter
        && let Err(error) = instance.write(format!("{folder}/filter"), filter)
    {
        findings.push(Finding {
            code: "trace_filter_refused".to_owned(),
            level: FindingLevel::Limits,
            text: format!("all events {} are recorded, the filter {filter:?} was refused: {error}", event.name),
            hint: None,
        });
    }
    instance.write(format!("{folder}/enable"), "1").map_err(say)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(hidden: &str) -> TraceRequest {
        TraceRequest {
            cpus: Vec::new(),
            buffer_bytes_per_cpu: 1 << 20,
            hidden_threads: Some(hidden.to_owned()),
            user_mode_linux: Vec::new(),
            extra_groups: Vec::new(),
            keep_bytes_per_cpu: None,
            processes: Vec::new(),
        }
    }

    #[test]
    fn a_hidden_name_must_not_break_the_filter() {
        assert!(validate(&request("st-ring")).is_ok());
        for name in ["", "a\" || 1", "a b", "more than fifteen"] {
            let error = validate(&request(name)).unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")), "{error}");
        }
    }

    #[test]
    fn what_comes_with_each_switch_is_not_recorded_where_switches_are_measured() {
        assert!(runtime(&request("st-ring")).is_none());
        let event = runtime(&TraceRequest { hidden_threads: None, ..request("") }).unwrap();
        assert!(event.is_optional);
    }

    #[test]
    fn threads_become_one_condition() {
        assert_eq!(any_of("common_pid", &[7]), "common_pid == 7");
        assert_eq!(any_of("common_pid", &[7, 8]), "common_pid == 7 || common_pid == 8");
    }
}
