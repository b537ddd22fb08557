//! What a standby notices by itself: what somebody must see to, and that its copy does not get on while others wait.

use std::time::Duration;

use stealtime_capture::{QEMU_LOG, bound_appended};
use stealtime_memory::usable_bytes;
use stealtime_shipping::Refusal as ShippingRefusal;

use super::{End, Standby};
use crate::alarms::AlarmKind;
use crate::certificates::Certificates;
use crate::clock::now;
use crate::metrics::{Metrics, Snapshot};
use crate::wording;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A copy of which nothing came for so long does not get on.
const STILL: Duration = Duration::from_secs(30);

/// What a guest wrote while it was copied is copied in rounds, each of which takes a share of the time of the one
/// before, if they end at all: where a guest writes half of what the link ships they take as long as the copy itself.
const ROUNDS: u32 = 2;

/// How a first copy gets on.
#[derive(Debug)]
struct Pace {
    began: Duration,
    /// When the last part of all memory came.
    moved: Duration,
    /// Since when all memory is here: now it comes in rounds.
    whole: Option<Duration>,
}

impl Pace {
    fn is_stuck(&self, at: Duration) -> bool {
        match self.whole {
            None => at > self.moved + STILL,
            Some(whole) => at > whole + STILL.max(whole.saturating_sub(self.began) * ROUNDS),
        }
    }
}

/// What is looked at, and told.
pub(super) struct Watch {
    pub certificates: Certificates,
    pub metrics: Option<Metrics>,
    look_at: Duration,
    pace: Pace,
}

impl Watch {
    pub fn new(certificates: Certificates, metrics: Option<&str>, at: Duration) -> Self {
        let pace = Pace { began: at, moved: at, whole: None };
        Self { certificates, metrics: metrics.map(Metrics::at), look_at: at, pace }
    }

    /// When it is time to look again.
    pub fn next_at(&self) -> Duration {
        self.metrics.iter().map(Metrics::due_at).fold(self.look_at, Duration::min)
    }

    /// More of all memory has come.
    pub fn copy_moves(&mut self) {
        self.pace.moved = now();
    }

    /// More of the disks was compared: they come behind all memory.
    pub fn disk_moves(&mut self) {
        self.copy_moves();
        self.pace.whole = None;
    }

    /// All memory was written, or what came in one more round.
    pub fn copy_held(&mut self) {
        self.pace.whole.get_or_insert_with(now);
    }
}

impl Standby {
    pub(super) fn look(&mut self) {
        if now() >= self.watch.look_at {
            self.watch.look_at = now() + LOOK_EVERY;
            self.raise_alarms();
            if let Ok(bytes) = self.facts.ram.allocated_bytes() {
                self.place.admitted.promised.uses(bytes);
            }
            self.give_way();
        }
        self.publish();
    }

    fn raise_alarms(&mut self) {
        let trouble = self.registrar.trouble(self.spec.timing.register_deadline);
        self.events.alarm(AlarmKind::Register, trouble.map(|it| wording::of_standbys_register(&it)));
        self.events.alarm(AlarmKind::Memory, wording::of_memory(usable_bytes(), self.spec.machine.memory_bytes));
        self.events.alarm(AlarmKind::Disk, self.notes.fault());
        self.watch.certificates.look();
        self.events.alarm(AlarmKind::Certificate, self.watch.certificates.alarm());
        let _ = bound_appended(&self.spec.folder.join(QEMU_LOG), wording::LOG_BYTES);
    }

    /// A guest that writes faster than the link ships would keep its place among those that are copied for ever.
    fn give_way(&mut self) {
        if self.member.committed().is_some() || !self.watch.pace.is_stuck(now()) {
            return;
        }
        match self.place.admitted.gives_way(now()) {
            Ok(false) => {}
            Ok(true) => {
                let reason = format!(
                    "{} has let other machines come before {}, as its copy does not get on",
                    self.spec.host, self.spec.machine.name
                );
                let hint = "have it write less, or give a faster link or a larger `longest_first_pause`".to_owned();
                self.ending = Some(End::GaveWay(Box::new(ShippingRefusal::Other { reason, hint })));
            }
            Err(error) => {
                self.events.warn(format!("others cannot be let in: {error}"));
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_stuck_when_nothing_comes_or_its_rounds_take_longer_than_all_memory_did() {
        let s = Duration::from_secs;
        let mut pace = Pace { began: s(100), moved: s(100), whole: None };
        assert!(!pace.is_stuck(s(130)) && pace.is_stuck(s(131)), "nothing has come");
        pace.moved = s(1000);
        assert!(!pace.is_stuck(s(1030)), "a large machine takes its time");
        pace.whole = Some(s(1100));
        assert!(!pace.is_stuck(s(3100)) && pace.is_stuck(s(3101)));
        pace = Pace { began: s(100), moved: s(101), whole: Some(s(101)) };
        assert!(!pace.is_stuck(s(131)) && pace.is_stuck(s(132)), "a small one has time for its first epoch");
    }
}
