//! What can take time away from a probe: layer, kind and name, and the table of all that were met.

use std::collections::HashMap;

/// Where a cause lies. An outer layer takes the inner ones away together with their probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// The machine under test itself.
    Machine,
    /// What runs the machine under test.
    Host,
    /// What no trace saw.
    Above,
}

impl Layer {
    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Host => "host",
            Self::Above => "above",
        }
    }
}

/// What sort of thing a cause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The machine's own timer interrupt.
    TimerTick,
    /// Another interrupt of the machine.
    Interrupt,
    /// Deferred work of the machine's kernel.
    Softirq,
    /// Another thread of the machine ran although the probe could have.
    Thread,
    /// The host ran somebody else although the machine could have run.
    HostPreempted,
    /// The host served an interrupt on the machine's CPU.
    HostInterrupt,
    /// The machine left its own code for its emulator, hypervisor or (User-Mode Linux) kernel process.
    VmExit,
    /// The limit of real-time runtime, or the server that lets ordinary threads run in spite of real-time
    /// ones.
    RtThrottling,
    /// The CPU quota of a control group.
    QuotaThrottling,
    /// What is left of a spike when all its causes are taken off.
    Unexplained,
}

impl Kind {
    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::TimerTick => "timer_tick",
            Self::Interrupt => "interrupt",
            Self::Softirq => "softirq",
            Self::Thread => "thread",
            Self::HostPreempted => "host_preempted",
            Self::HostInterrupt => "host_interrupt",
            Self::VmExit => "vm_exit",
            Self::RtThrottling => "rt_throttling",
            Self::QuotaThrottling => "quota_throttling",
            Self::Unexplained => "unexplained",
        }
    }
}

/// A cause of lost time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cause {
    pub layer: Layer,
    pub kind: Kind,
    /// Who or which, where there are several: a thread, a handler, a reason.
    pub name: Option<String>,
}

/// The place of a cause in a [`CauseTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CauseId(pub(crate) u16);

impl Default for CauseId {
    fn default() -> Self {
        Self::NONE
    }
}

impl CauseId {
    /// No cause: the probe ran, or nothing is known.
    pub(crate) const NONE: Self = Self(u16::MAX);

    /// The row of the table, as columns hold it.
    pub fn number(self) -> u16 {
        self.0
    }

    /// The row of the table.
    pub fn row(self) -> usize {
        usize::from(self.0)
    }
}

/// Names beyond this many causes are joined under one: a 16-bit number must do, and nobody reads more.
const MOST_CAUSES: usize = 60_000;

/// Every cause that was met, once.
#[derive(Debug, Clone, Default)]
pub struct CauseTable {
    rows: Vec<Cause>,
    ids: HashMap<Cause, CauseId>,
}

impl CauseTable {
    /// The number of a cause; it is added if it is new.
    pub fn id(&mut self, layer: Layer, kind: Kind, name: Option<&str>) -> CauseId {
        let name = if self.rows.len() < MOST_CAUSES { name } else { name.map(|_| "one of many others") };
        let cause = Cause { layer, kind, name: name.map(ToOwned::to_owned) };
        if let Some(&id) = self.ids.get(&cause) {
            return id;
        }
        let id = CauseId(u16::try_from(self.rows.len()).unwrap_or(u16::MAX - 1));
        self.rows.push(cause.clone());
        self.ids.insert(cause, id);
        id
    }

    pub fn get(&self, id: CauseId) -> Option<&Cause> {
        self.rows.get(id.row())
    }

    /// All causes; a [`CauseId`] is a row.
    pub fn rows(&self) -> &[Cause] {
        &self.rows
    }

    /// Take over all causes of another table; gives the new number of each of its rows.
    pub(crate) fn absorb(&mut self, other: &Self) -> Vec<CauseId> {
        other.rows.iter().map(|cause| self.id(cause.layer, cause.kind, cause.name.as_deref())).collect()
    }
}
