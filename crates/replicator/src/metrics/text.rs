//! What is told of a member, as Prometheus reads it.

use std::sync::atomic::{AtomicI64, AtomicU64};

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::Snapshot;
use crate::alarms::AlarmKind;
use crate::figures::Distributions;
use crate::status::Status;

/// Write all of it that is a number.
pub fn of(snapshot: &Snapshot) -> String {
    let Snapshot { status, distributions } = snapshot;
    let labels = [("vm", status.vm.clone()), ("host", status.host.clone()), ("mode", status.mode.to_string())];
    let mut root = Registry::with_prefix("stealtime_protect");
    let registry = labels
        .into_iter()
        .fold(&mut root, |registry, (name, value)| registry.sub_registry_with_label((name.into(), value.into())));
    add_state(registry, status);
    if let Some(distributions) = distributions {
        add_epochs(registry, status, distributions);
    }
    let mut text = String::new();
    // A String takes all that is written into it.
    let _ = encode(&mut text, &root);
    text
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn add(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, value: f64) {
    let gauge = Gauge::<f64, AtomicU64>::default();
    gauge.set(value);
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, gauge),
        None => registry.register(name, help, gauge),
    }
}

/// What is true of a member that stands by, too.
fn add_state(registry: &mut Registry, status: &Status) {
    let roles = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    roles.get_or_create(&[("role", status.role.name())]).set(1);
    registry.register("role", "1: what the member is", roles);
    add(registry, "term", "The term that this member knows", None, status.term as f64);
    add(registry, "epoch", "The last epoch that was captured; on a standby: staged", None, status.epoch as f64);
    let help = "The last epoch that the standby holds";
    add(registry, "acknowledged_epoch", help, None, status.acknowledged as f64);
    let help = "How often the register was found in an older state";
    add(registry, "register_went_back", help, None, status.register_went_back as f64);
    add(registry, "refused_messages", "Messages of another term", None, status.refused_messages as f64);
    if let Some(age_ns) = status.register_age_ns {
        let help = "How long ago the register gave an answer";
        add(registry, "register_age", help, Some(Unit::Seconds), seconds(age_ns));
    }
    if let Some(left_s) = status.certificates_end_in_s {
        let help = "How long the certificates are good for that this host shows to others and to the register";
        let gauge = Gauge::<i64, AtomicI64>::default();
        gauge.set(left_s);
        registry.register_with_unit("certificates_end_in", help, Unit::Seconds, gauge);
    }
    let alarms = Family::<[(&'static str, &'static str); 1], Gauge>::default();
    for kind in AlarmKind::ALL {
        let is_on = status.alarms.iter().any(|alarm| alarm.kind == kind);
        alarms.get_or_create(&[("alarm", kind.name())]).set(i64::from(is_on));
    }
    registry.register("alarm", "1 while somebody must see to this", alarms);
}

/// What is true of a member that has the machine. A standby says nothing of these: whether the machine is protected is
/// for whoever runs it to say.
fn add_epochs(registry: &mut Registry, status: &Status, distributions: &Distributions) {
    let mut add = |name: &str, help: &str, unit, value| add(registry, name, help, unit, value);
    let protected = f64::from(u8::from(status.protected));
    add("protected", "1 if the host may die without loss of what was acknowledged", None, protected);
    add("released_epoch", "The last epoch whose output was released", None, status.released as f64);
    add("lag_epochs", "Epochs captured but not acknowledged", None, status.lag_epochs as f64);
    let unit = || Some(Unit::Seconds);
    add("interval", "Aimed at between epochs", unit(), seconds(status.interval_ns));
    add("pause_last", "How long the guest stood in the last epoch", unit(), seconds(status.last_pause_ns));
    add("pause_median", "Median of all epochs", unit(), seconds(status.pause_p50_ns));
    add("pause_p99", "99th percentile of all epochs", unit(), seconds(status.pause_p99_ns));
    add("hold_median", "Median time from cut to release", unit(), seconds(status.hold_p50_ns));
    add("hold_p99", "99th percentile of the time from cut to release", unit(), seconds(status.hold_p99_ns));
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
}

#[cfg(test)]
mod tests {
    use stealtime_succession::Mode;

    use super::*;
    use crate::alarms::Alarm;
    use crate::status::Role;

    /// The value of the one line that begins and continues like this.
    fn value<'a>(text: &'a str, name: &str, label: &str) -> &'a str {
        let is_it = |line: &&str| line.starts_with(&format!("stealtime_protect_{name}{{")) && line.contains(label);
        let line = text.lines().find(is_it).unwrap_or_else(|| panic!("{name} {label}: {text}"));
        line.rsplit(' ').next().unwrap()
    }

    fn running() -> String {
        let distributions = Distributions::default();
        for pause_ms in [1.0, 2.0, 400.0] {
            distributions.pause.observe(pause_ms / 1e3);
        }
        let mut status = Status { vm: "phone".to_owned(), mode: Mode::Net, role: Role::Active, ..Status::default() };
        status.guest_time_lost_ns = 403_000_000;
        status.qemu_events.insert("STOP".to_owned(), 3);
        status.register_age_ns = Some(1_000_000_000);
        status.certificates_end_in_s = Some(86_400);
        status.alarms.push(Alarm { kind: AlarmKind::Port, text: "the TAP is gone".to_owned() });
        of(&Snapshot { status, distributions: Some(distributions) })
    }

    #[test]
    fn pauses_are_buckets_that_can_be_summed_and_lost_time_is_a_counter() {
        let text = running();
        assert_eq!(value(&text, "pause_seconds_count", "vm=\"phone\""), "3");
        let bucket = |bound| value(&text, "pause_seconds_bucket", bound);
        assert_eq!([bucket("le=\"0.004\""), bucket("le=\"+Inf\"")], ["2", "3"], "{text}");
        assert_eq!(value(&text, "hold_seconds_count", ""), "0");
        assert_eq!(value(&text, "guest_time_lost_seconds_total", ""), "0.403");
        assert_eq!(value(&text, "qemu_events_total", "event=\"STOP\""), "3");
        assert_eq!(value(&text, "role", "role=\"active\""), "1");
    }

    #[test]
    fn what_the_rules_of_the_documentation_ask_for_is_told() {
        let text = running();
        let rules = include_str!("../../../../docs/protect-alerts.yml");
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        for rest in rules.split("stealtime_protect_").skip(1) {
            let name = format!("stealtime_protect_{}", rest.split(|letter| !is_of_name(letter)).next().unwrap());
            assert!(text.contains(&format!("\n{name}{{")), "{name}: {text}");
        }
    }

    #[test]
    fn each_alarm_is_told_while_it_is_on_whoever_raises_it() {
        for kind in AlarmKind::ALL {
            for distributions in [None, Some(Distributions::default())] {
                let alarms = vec![Alarm { kind, text: "in a sentence".to_owned() }];
                let text = of(&Snapshot { status: Status { alarms, ..Status::default() }, distributions });
                for other in AlarmKind::ALL {
                    let expected = if other == kind { "1" } else { "0" };
                    assert_eq!(value(&text, "alarm", &format!("alarm=\"{}\"", other.name())), expected, "{text}");
                }
            }
        }
    }

    #[test]
    fn a_standby_tells_what_is_true_of_it_and_not_whether_the_machine_is_protected() {
        let status = Status {
            vm: "phone".to_owned(),
            host: "b".to_owned(),
            role: Role::Standby,
            protected: true,
            acknowledged: 7,
            certificates_end_in_s: Some(-1),
            ..Status::default()
        };
        let text = of(&Snapshot { status, distributions: None });
        assert_eq!(value(&text, "role", "role=\"standby\""), "1");
        assert_eq!(value(&text, "acknowledged_epoch", "host=\"b\""), "7.0");
        assert_eq!(value(&text, "certificates_end_in_seconds", ""), "-1");
        for name in ["protected", "pause", "hold", "held"] {
            assert!(!text.contains(&format!("stealtime_protect_{name}")), "{name}: {text}");
        }
    }
}
