//! The status of a member and the distributions of its epochs in Prometheus' text format, over HTTP.

mod server;

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::alarms::AlarmKind;
use crate::figures::Distributions;
use crate::status::Status;

/// Prometheus asks every few seconds.
const PUBLISH_EVERY: Duration = Duration::from_millis(500);

/// Why nobody can ask for the figures.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be served on {address}: {reason}")]
pub struct MetricsError {
    address: String,
    reason: String,
}

/// What is told to the next who asks.
pub struct Snapshot {
    /// How the member stands.
    pub status: Status,
    pub distributions: Distributions,
}

/// What a member tells, and where.
pub struct Metrics {
    address: String,
    is_served: bool,
    last: Arc<Mutex<Option<Snapshot>>>,
    published_at: Duration,
}

impl Metrics {
    /// Figures that will be served at `address`.
    pub fn at(address: &str) -> Self {
        Self { address: address.to_owned(), is_served: false, last: Arc::default(), published_at: Duration::ZERO }
    }

    /// Answer until the process ends, if that is not done already.
    pub fn serve(&mut self) -> Result<(), MetricsError> {
        if self.is_served {
            return Ok(());
        }
        let failed = |reason: String| MetricsError { address: self.address.clone(), reason };
        let listener = TcpListener::bind(&self.address).map_err(|error| failed(error.to_string()))?;
        let last = Arc::clone(&self.last);
        let text = move || {
            let last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.as_ref().map(text_of).unwrap_or_default()
        };
        server::serve(listener, Arc::new(text), server::ANSWERED_WITHIN).map_err(|error| failed(error.to_string()))?;
        self.is_served = true;
        Ok(())
    }

    /// Whether what was told is old by now.
    pub fn is_due(&self, now: Duration) -> bool {
        now >= self.published_at + PUBLISH_EVERY
    }

    /// Take over what is told from now on.
    pub fn publish(&mut self, snapshot: Snapshot, now: Duration) {
        self.published_at = now;
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot);
    }
}

/// Write all of it that is a number.
fn text_of(snapshot: &Snapshot) -> String {
    let Snapshot { status, distributions } = snapshot;
    let labels = [("vm", status.vm.clone()), ("host", status.host.clone()), ("mode", status.mode.to_string())];
    let mut root = Registry::with_prefix("stealtime_protect");
    let registry = labels
        .into_iter()
        .fold(&mut root, |registry, (name, value)| registry.sub_registry_with_label((name.into(), value.into())));
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut add = |name: &str, help: &str, unit: Option<Unit>, value: f64| {
        let gauge = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        gauge.set(value);
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, gauge),
            None => registry.register(name, help, gauge),
        }
    };
    let protected = f64::from(u8::from(status.protected));
    add("protected", "1 if the host may die without loss of what was acknowledged", None, protected);
    add("term", "The term that this member knows", None, status.term as f64);
    add("epoch", "The last epoch that was captured", None, status.epoch as f64);
    add("acknowledged_epoch", "The last epoch that the standby holds", None, status.acknowledged as f64);
    add("released_epoch", "The last epoch whose output was released", None, status.released as f64);
    add("lag_epochs", "Epochs captured but not acknowledged", None, status.lag_epochs as f64);
    add("interval", "Aimed at between epochs", Some(Unit::Seconds), seconds(status.interval_ns));
    add("pause_last", "How long the guest stood in the last epoch", Some(Unit::Seconds), seconds(status.last_pause_ns));
    add("pause_median", "Median of all epochs", Some(Unit::Seconds), seconds(status.pause_p50_ns));
    add("pause_p99", "99th percentile of all epochs", Some(Unit::Seconds), seconds(status.pause_p99_ns));
    add("hold_median", "Median time from cut to release", Some(Unit::Seconds), seconds(status.hold_p50_ns));
    add(
        "hold_p99",
        "99th percentile of the time from cut to release",
        Some(Unit::Seconds),
        seconds(status.hold_p99_ns),
    );
    add(
        "guest_time_loss_ppm",
        "How much the guest's clock loses, if nothing corrects it, in millionths, over the last epochs",
        None,
        status.guest_time_loss_ppm,
    );
    add("held_back_ppm", "Of that, because the standby could not follow", None, status.held_back_ppm);
    add("shipped_bytes_per_second", "Over the last epochs", None, status.bytes_per_s);
    add("dirty_pages_per_second", "Over the last epochs", None, status.dirty_pages_per_s);
    add("held", "Output that waits", Some(Unit::Bytes), status.held_bytes as f64);
    add("held_frames", "Frames of output that wait", None, status.held_frames as f64);
    let went_back = status.register_went_back as f64;
    add("register_went_back", "How often the register was found in an older state", None, went_back);
    add("refused_messages", "Messages of another term", None, status.refused_messages as f64);
    if let Some(age_ns) = status.register_age_ns {
        let help = "How long ago the register gave an answer";
        let gauge = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
        gauge.set(seconds(age_ns));
        registry.register_with_unit("register_age", help, Unit::Seconds, gauge);
    }
    if let Some(left_s) = status.certificates_end_in_s {
        let help = "How long this host's certificates are good for";
        let gauge = Gauge::<i64, std::sync::atomic::AtomicI64>::default();
        gauge.set(left_s);
        registry.register_with_unit("certificates_end_in", help, Unit::Seconds, gauge);
    }
    let alarms = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for kind in AlarmKind::ALL {
        let is_on = status.alarms.iter().any(|alarm| alarm.kind == kind);
        alarms.get_or_create(&[("alarm", kind.name())]).set(i64::from(is_on));
    }
    registry.register("alarm", "1 while somebody must see to this", alarms);
    registry.register_with_unit(
        "guest_time_lost",
        "How long the guest stood since it runs here, and its clock with it",
        Unit::Seconds,
        ConstCounter::new(seconds(status.guest_time_lost_ns)),
    );
    let events = Family::<[(&'static str, String); 1], Counter>::default();
    for (name, count) in &status.qemu_events {
        events.get_or_create(&[("event", name.clone())]).inc_by(*count);
    }
    registry.register("qemu_events", "What QEMU told unasked, which was taken off its queue", events);
    let help = "How long the guest stood in an epoch";
    registry.register_with_unit("pause", help, Unit::Seconds, distributions.pause.clone());
    let help = "Time from the cut of an epoch to the release of its output";
    registry.register_with_unit("hold", help, Unit::Seconds, distributions.hold.clone());
    let mut text = String::new();
    // A String takes all that is written into it.
    let _ = encode(&mut text, &root);
    text
}

#[cfg(test)]
mod tests {
    use stealtime_succession::Mode;

    use super::*;
    use crate::alarms::Alarm;

    #[test]
    fn pauses_are_buckets_that_can_be_summed_and_lost_time_is_a_counter() {
        let distributions = Distributions::default();
        for pause_ms in [1.0, 2.0, 400.0] {
            distributions.pause.observe(pause_ms / 1e3);
        }
        let mut status = Status { vm: "phone".to_owned(), mode: Mode::Net, ..Status::default() };
        status.guest_time_lost_ns = 403_000_000;
        status.qemu_events.insert("STOP".to_owned(), 3);
        status.register_age_ns = Some(1_000_000_000);
        status.certificates_end_in_s = Some(86_400);
        status.alarms.push(Alarm { kind: AlarmKind::Port, text: "the TAP is gone".to_owned() });
        let text = text_of(&Snapshot { status, distributions });
        let value = |start: &str| -> String {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
            line.rsplit(' ').next().unwrap().to_owned()
        };
        assert_eq!(value("stealtime_protect_pause_seconds_count{vm=\"phone\""), "3");
        let bucket = |bound: &str| {
            let is_it = |line: &&str| line.contains("_pause_seconds_bucket{") && line.contains(bound);
            text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()).unwrap().to_owned()
        };
        assert_eq!([bucket("le=\"0.004\""), bucket("le=\"+Inf\"")], ["2", "3"], "{text}");
        assert_eq!(value("stealtime_protect_hold_seconds_count"), "0");
        assert_eq!(value("stealtime_protect_guest_time_lost_seconds_total"), "0.403");
        let alarm = |name: &str| {
            let is_it = |line: &&str| line.starts_with("stealtime_protect_alarm{") && line.contains(name);
            text.lines().find(is_it).and_then(|line| line.rsplit(' ').next()).unwrap().to_owned()
        };
        assert_eq!([alarm("\"port\""), alarm("\"register\"")], ["1", "0"], "{text}");
        // What the rules of the documentation ask for is there.
        let rules = include_str!("../../../../docs/protect-alerts.yml");
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        for rest in rules.split("stealtime_protect_").skip(1) {
            let name = format!("stealtime_protect_{}", rest.split(|letter| !is_of_name(letter)).next().unwrap());
            assert!(text.contains(&format!("\n{name}{{")), "{name}: {text}");
        }
        let events = text.lines().find(|line| line.contains("event=\"STOP\"")).unwrap();
        assert!(events.starts_with("stealtime_protect_qemu_events_total{") && events.ends_with(" 3"), "{events}");
    }
}
