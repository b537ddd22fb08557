//! From what is seen in a trace to a cause with its name, each found once.

use std::collections::HashMap;

use crate::cause::{CauseId, CauseTable, Kind, Layer};
use crate::processors::{IDLE, Served, ThreadRow};
use crate::trace::{EventKind, NO_NAME, Trace};

/// Interrupts by which a machine without a local timer gets its tick: `timer` is the PIT or the HPET in its
/// place (arch/x86/kernel/time.c), `lapic_timer` none that Linux names so, `rtc0` an alarm and not the tick.
const TICK_HANDLERS: [&str; 2] = ["timer", "hpet"];

/// The vector of the local APIC's timer, as `irq_vectors:local_timer_entry` gives it.
const TICK_VECTOR: &str = "local_timer";

/// Finds causes, seen as one layer sees them.
pub(crate) struct Naming<'a> {
    trace: &'a Trace<'a>,
    labels: &'a [String],
    layer: Layer,
    pub table: CauseTable,
    by_label: Vec<CauseId>,
    by_name: Vec<CauseId>,
    by_service: HashMap<(u8, u32, i64), CauseId>,
}

impl<'a> Naming<'a> {
    pub fn new(trace: &'a Trace<'a>, labels: &'a [String], layer: Layer) -> Self {
        Self {
            trace,
            labels,
            layer,
            table: CauseTable::default(),
            by_label: vec![CauseId::NONE; labels.len()],
            by_name: vec![CauseId::NONE; trace.names.len()],
            by_service: HashMap::new(),
        }
    }

    /// Another thread has the CPU.
    pub fn displaced_by(&mut self, thread: i32, row: ThreadRow) -> CauseId {
        let kind = if self.layer == Layer::Machine { Kind::Thread } else { Kind::HostPreempted };
        if thread == IDLE {
            return self.table.id(self.layer, kind, Some("idle"));
        }
        let cached = match row.label {
            Some(label) => self.by_label.get_mut(usize::from(label)),
            None => usize::try_from(row.name).ok().and_then(|name| self.by_name.get_mut(name)),
        };
        let Some(cached) = cached else {
            return self.table.id(self.layer, kind, Some("a thread without a name"));
        };
        if *cached == CauseId::NONE {
            let name = match row.label {
                Some(label) => self.labels.get(usize::from(label)).map(String::as_str),
                None => self.trace.name(row.name).map(without_instance),
            };
            *cached = self.table.id(self.layer, kind, name);
        }
        *cached
    }

    /// Something is being served instead of the running thread.
    pub fn served(&mut self, served: &Served) -> CauseId {
        let number = if served.name == NO_NAME { served.number } else { 0 };
        let key = (served.entry as u8, served.name, number);
        if let Some(&cause) = self.by_service.get(&key) {
            return cause;
        }
        let name = self.trace.name(served.name);
        let cause = match (self.layer, served.entry) {
            (Layer::Machine, EventKind::VectorEntry) if name == Some(TICK_VECTOR) => {
                self.table.id(self.layer, Kind::TimerTick, None)
            }
            (Layer::Machine, EventKind::InterruptEntry) if name.is_some_and(|it| TICK_HANDLERS.contains(&it)) => {
                self.table.id(self.layer, Kind::TimerTick, None)
            }
            (layer, entry) => {
                let (kind, word) = match (layer, entry) {
                    (Layer::Machine, EventKind::SoftirqEntry) => (Kind::Softirq, "softirq"),
                    (Layer::Machine, EventKind::VectorEntry) => (Kind::Interrupt, "vector"),
                    (Layer::Machine, _) => (Kind::Interrupt, "interrupt"),
                    (_, EventKind::SoftirqEntry) => (Kind::HostInterrupt, "softirq"),
                    (_, EventKind::VectorEntry) => (Kind::HostInterrupt, "vector"),
                    (..) => (Kind::HostInterrupt, "interrupt"),
                };
                let numbered = || format!("{word} {}", served.number);
                let told = name.map_or_else(numbered, |name| match (layer, entry) {
                    // TIMER, RCU ... could be anything beside handlers and vectors.
                    (Layer::Host, EventKind::SoftirqEntry) => format!("softirq {name}"),
                    _ => name.to_owned(),
                });
                self.table.id(layer, kind, Some(&told))
            }
        };
        self.by_service.insert(key, cause);
        cause
    }

    pub fn non_maskable(&mut self) -> CauseId {
        let kind = if self.layer == Layer::Machine { Kind::Interrupt } else { Kind::HostInterrupt };
        self.table.id(self.layer, kind, Some("NMI"))
    }

    /// The hypervisor has the CPU, for this reason.
    pub fn vm_exit(&mut self, name: u32, reason: i64) -> CauseId {
        match self.trace.name(name) {
            Some(name) => self.table.id(self.layer, Kind::VmExit, Some(name)),
            None => self.table.id(self.layer, Kind::VmExit, Some(&format!("reason {reason}"))),
        }
    }
}

/// Kernel workers come by the dozen (`kworker/1:2-events`) and are one cause.
fn without_instance(name: &str) -> &str {
    if name.starts_with("kworker/") { "kworker" } else { name }
}
