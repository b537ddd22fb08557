//! How an active member stands, for those who ask.

use stealtime_succession::{ActiveState, Epoch};

use super::Active;
use crate::clock::{nanoseconds, now};
use crate::engine::GuestFacts;
use crate::metrics::Snapshot;
use crate::status::{Role, Status};

/// Warnings that are kept.
pub const WARNINGS: usize = 8;

impl Active {
    pub(super) fn status(&self) -> Status {
        let state = self.member.state();
        let epoch = self.member.cut();
        let acknowledged = self.member.acknowledged_epoch().unwrap_or(Epoch(0));
        let statistics = self.relay.as_ref().and_then(|relay| relay.statistics().ok());
        let (bytes_per_s, dirty_pages_per_s) = self.figures.rates();
        // Those of the guest hold as long as it lives, the others until there is a standby.
        let unfit = self.unfit.values().map(|unfit| unfit.reason.clone());
        let remarks = self.facts.iter().flat_map(GuestFacts::remarks).chain(unfit);
        Status {
            vm: self.spec.machine.name.clone(),
            host: self.spec.host.clone(),
            role: role(state),
            protected: state == ActiveState::Protected,
            mode: self.spec.mode,
            term: self.term().0,
            epoch: epoch.0,
            acknowledged: acknowledged.0,
            released: self.released.0,
            lag_epochs: if self.link.is_some() { epoch.0.saturating_sub(acknowledged.0) } else { 0 },
            interval_ns: self
                .figures
                .last()
                .map_or_else(|| nanoseconds(self.spec.first_interval()), |row| row.interval_ns),
            last_pause_ns: self.figures.last().map_or(0, |row| row.pause_ns),
            pause_p50_ns: self.figures.pause_ns(0.5),
            pause_p99_ns: self.figures.pause_ns(0.99),
            hold_p50_ns: self.figures.hold_ns(0.5),
            hold_p99_ns: self.figures.hold_ns(0.99),
            guest_time_lost_ns: nanoseconds(self.figures.total_stood()),
            guest_time_loss_ppm: self.figures.loss_ppm(),
            qemu_events: self.qemu_events.clone(),
            bytes_per_s,
            dirty_pages_per_s,
            held_frames: statistics.as_ref().map_or(0, |it| it.hold.held_frames as u64),
            held_bytes: statistics.as_ref().map_or(0, |it| it.hold.held_bytes as u64),
            full_copy: self.full_copy(),
            standby: self.peer(),
            tracker: self.facts.as_ref().map_or_else(String::new, |facts| facts.tracker.to_owned()),
            device_state: self.spec.device_state.name().to_owned(),
            register: self.register_name.clone(),
            register_went_back: self.register_went_back,
            refused_messages: self.member.refusals().wrong_term,
            since_unix_ns: self.since_unix_ns,
            pid: std::process::id(),
            qemu_pid: self.facts.as_ref().map(|facts| facts.qemu_pid),
            fenced_reason: self.ending.as_ref().map(ToString::to_string),
            resume_ns: self.resume.map(nanoseconds),
            warnings: remarks.chain(self.warnings.iter().cloned()).collect(),
        }
    }

    /// Say to Prometheus how it stands now. A machine that was taken over goes on although its figures cannot
    /// be seen here: the member before may still have the address, on a machine that plays both hosts.
    pub(super) fn publish(&mut self) {
        let Some(mut metrics) = self.metrics.take_if(|metrics| metrics.is_due(now())) else { return };
        if let Err(error) = metrics.serve() {
            self.warn(error.to_string());
        }
        let snapshot = Snapshot { status: self.status(), distributions: self.figures.distributions() };
        metrics.publish(snapshot, now());
        self.metrics = Some(metrics);
    }
}

fn role(state: ActiveState) -> Role {
    match state {
        ActiveState::Starting | ActiveState::Observing => Role::Starting,
        ActiveState::Unprotected | ActiveState::Syncing | ActiveState::Naming | ActiveState::Reclaiming => {
            Role::Solo
        }
        ActiveState::Protected | ActiveState::Draining | ActiveState::Resigned => Role::Active,
        ActiveState::Fenced => Role::Stopped,
        ActiveState::Stopping | ActiveState::Ended => Role::Fenced,
    }
}
