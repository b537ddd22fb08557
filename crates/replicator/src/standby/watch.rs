//! What a standby notices by itself that somebody must see to.

use std::time::Duration;

use stealtime_capture::{QEMU_LOG, bound_appended};
use stealtime_memory::usable_bytes;

use super::Standby;
use crate::alarms::AlarmKind;
use crate::certificates::Certificates;
use crate::clock::now;
use crate::metrics::{Metrics, Snapshot};
use crate::words;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What is looked at, and told.
pub(super) struct Watch {
    pub certificates: Certificates,
    pub metrics: Option<Metrics>,
    look_at: Duration,
}

impl Watch {
    pub fn new(certificates: Certificates, metrics: Option<&str>, at: Duration) -> Self {
        Self { certificates, metrics: metrics.map(Metrics::at), look_at: at }
    }

    /// When it is time to look again.
    pub fn next_at(&self) -> Duration {
        self.metrics.iter().map(Metrics::due_at).fold(self.look_at, Duration::min)
    }
}

impl Standby {
    pub(super) fn look(&mut self) {
        if now() >= self.watch.look_at {
            self.watch.look_at = now() + LOOK_EVERY;
            self.raise_alarms();
        }
        self.publish();
    }

    fn raise_alarms(&mut self) {
        let trouble = self.registrar.trouble(self.spec.timing.register_deadline);
        self.events.alarm(AlarmKind::Register, trouble.map(|it| words::of_standbys_register(&it)));
        self.events.alarm(AlarmKind::Memory, words::of_memory(usable_bytes(), self.spec.machine.memory_bytes));
        self.watch.certificates.look();
        self.events.alarm(AlarmKind::Certificate, self.watch.certificates.alarm());
        let _ = bound_appended(&self.spec.folder.join(QEMU_LOG), words::LOG_BYTES);
    }

    /// Say to Prometheus how it stands. On a machine that plays both hosts the active member has the address.
    fn publish(&mut self) {
        let Some(mut metrics) = self.watch.metrics.take_if(|metrics| metrics.is_due(now())) else { return };
        if let Err(error) = metrics.serve() {
            self.events.warn(error.to_string());
        }
        metrics.publish(Snapshot { status: self.status(), distributions: None }, now());
        self.watch.metrics = Some(metrics);
    }
}
