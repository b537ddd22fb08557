//! How an active member stands, for those who ask.

use stealtime_succession::{ActiveState, Epoch};

use super::Active;
use crate::clock::{nanoseconds, now};
use crate::metrics::Snapshot;
use crate::status::{FullCopy, Peer, Role, Status};
use crate::wording;

impl Active {
    pub(super) fn status(&self) -> Status {
        let state = self.member.state();
        let epoch = self.member.cut();
        let acknowledged = self.member.acknowledged_epoch().unwrap_or(Epoch(0));
        let figures = &self.epochs.figures;
        let (held_frames, held_bytes) = self.guest.held();
        let (bytes_per_s, dirty_pages_per_s) = figures.rates();
        let facts = self.life.facts.as_ref();
        let standby = self.link.host().map(|host| Peer { name: host.name.clone(), endpoint: host.endpoint.clone() });
        // Those of the guest hold as long as it lives, the others until there is a standby.
        let warnings =
            self.life.remarks().chain(self.link.remarks()).chain(self.seeker.refusals()).chain(self.events.warnings());
        let leaves = self.link.host().filter(|_| self.link.is_leaving());
        let leaves = leaves.map(|host| wording::of_leaving_standby(&host.name, self.has_others(&host.name)));
        let held_back = self.link.host().and_then(|host| wording::of_held_back(figures.held_back_ppm(), &host.name));
        Status {
            vm: self.spec.machine.name.clone(),
            host: self.spec.host.clone(),
            member: self.me.to_string(),
            role: role(state),
            protected: state == ActiveState::Protected,
            mode: self.spec.mode,
            term: self.member.term().0,
            epoch: epoch.0,
            acknowledged: acknowledged.0,
            released: self.epochs.released.0,
            lag_epochs: if standby.is_some() { epoch.0.saturating_sub(acknowledged.0) } else { 0 },
            interval_ns: figures.last().map_or_else(|| nanoseconds(self.spec.first_interval()), |row| row.interval_ns),
            last_pause_ns: figures.last().map_or(0, |row| row.pause_ns),
            pause_p50_ns: figures.pause_ns(0.5),
            pause_p99_ns: figures.pause_ns(0.99),
            hold_p50_ns: figures.hold_ns(0.5),
            hold_p99_ns: figures.hold_ns(0.99),
            guest_time_lost_ns: nanoseconds(figures.total_stood()),
            guest_time_loss_ppm: figures.loss_ppm(),
            held_back_ppm: figures.held_back_ppm(),
            qemu_events: self.life.qemu_events.clone(),
            bytes_per_s,
            dirty_pages_per_s,
            held_frames,
            held_bytes,
            full_copy: (state == ActiveState::Syncing)
                .then_some(FullCopy { done_bytes: self.epochs.copied_bytes, total_bytes: self.spec.bytes_to_copy() }),
            disks: self.spec.disk_paths(),
            standby,
            tracker: facts.map_or_else(String::new, |facts| facts.tracker.to_owned()),
            device_state: self.spec.device_state.name().to_owned(),
            register: self.registrar.name.clone(),
            register_age_ns: self.registrar.age().map(nanoseconds),
            register_went_back: self.registrar.went_back,
            refused_messages: self.member.refusals().wrong_term,
            since_unix_ns: self.since_unix_ns,
            pid: std::process::id(),
            qemu_pid: facts.map(|facts| facts.qemu_pid),
            fenced_reason: self.end.as_ref().and_then(|end| end.as_ref().ok()).map(ToString::to_string),
            resume_ns: self.life.resumed_in.map(nanoseconds),
            certificates_end_in_s: self.certificates.left_s(),
            alarms: self.events.alarms(),
            warnings: warnings.chain(leaves).chain(held_back).collect(),
        }
    }

    /// Say to Prometheus how it stands now. A machine that was taken over goes on although its figures cannot
    /// be seen here: the member before may still have the address, on a machine that plays both hosts.
    pub(super) fn publish(&mut self) {
        let Some(mut metrics) = self.metrics.take_if(|metrics| metrics.is_due(now())) else { return };
        if let Err(error) = metrics.serve() {
            self.events.warn(error.to_string());
        }
        let distributions = Some(self.epochs.figures.distributions());
        let snapshot = Snapshot { status: self.status(), distributions };
        metrics.publish(snapshot, now());
        self.metrics = Some(metrics);
    }
}

fn role(state: ActiveState) -> Role {
    match state {
        ActiveState::Starting | ActiveState::Observing | ActiveState::Arriving => Role::Starting,
        ActiveState::Unprotected
        | ActiveState::Syncing
        | ActiveState::Naming
        | ActiveState::Confirming
        | ActiveState::Reclaiming => Role::Solo,
        ActiveState::Protected | ActiveState::Draining | ActiveState::Resigned => Role::Active,
        ActiveState::Fenced => Role::Stopped,
        ActiveState::Stopping | ActiveState::Ended => Role::Fenced,
    }
}
