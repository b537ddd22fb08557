//! The status of a member in Prometheus' text format, over HTTP.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::status::Status;

/// The last status that a member gave of itself.
pub type Shared = Arc<Mutex<Option<Status>>>;

/// Nobody can ask.
#[derive(Debug, thiserror::Error)]
#[error("metrics cannot be served on {address}: {reason}")]
pub struct MetricsError {
    address: String,
    reason: String,
}

/// Answer on this address until the process ends.
pub fn serve(address: &str, shared: Shared) -> Result<(), MetricsError> {
    let failed = |reason: String| MetricsError { address: address.to_owned(), reason };
    let server = tiny_http::Server::http(address).map_err(|error| failed(error.to_string()))?;
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            for request in server.incoming_requests() {
                let status = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let text = status.map(|status| text_of(&status)).unwrap_or_default();
                let kind = tiny_http::Header::from_bytes(
                    &b"Content-Type"[..],
                    &b"application/openmetrics-text; version=1.0.0; charset=utf-8"[..],
                );
                let mut response = tiny_http::Response::from_string(text);
                if let Ok(kind) = kind {
                    response = response.with_header(kind);
                }
                // Who asked may be gone.
                let _ = request.respond(response);
            }
        })
        .map_err(|error| failed(error.to_string()))?;
    Ok(())
}

/// Take over a status for the next who asks.
pub fn publish(shared: &Shared, status: Status) {
    *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
}

/// Write all of a status that is a number.
pub fn text_of(status: &Status) -> String {
    let labels =
        [("vm", status.vm.clone()), ("host", status.host.clone()), ("mode", status.mode.to_string())];
    let mut root = Registry::with_prefix("stealtime_protect");
    let registry = labels.into_iter().fold(&mut root, |registry, (name, value)| {
        registry.sub_registry_with_label((name.into(), value.into()))
    });
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
    add(
        "pause_last",
        "How long the guest stood in the last epoch",
        Some(Unit::Seconds),
        seconds(status.last_pause_ns),
    );
    add("pause_median", "Median of all epochs", Some(Unit::Seconds), seconds(status.pause_p50_ns));
    add("pause_p99", "99th percentile of all epochs", Some(Unit::Seconds), seconds(status.pause_p99_ns));
    add("hold_median", "Median time from cut to release", Some(Unit::Seconds), seconds(status.hold_p50_ns));
    add(
        "hold_p99",
        "99th percentile of the time from cut to release",
        Some(Unit::Seconds),
        seconds(status.hold_p99_ns),
    );
    add("shipped_bytes_per_second", "Over the last epochs", None, status.bytes_per_s);
    add("dirty_pages_per_second", "Over the last epochs", None, status.dirty_pages_per_s);
    add("held", "Output that waits", Some(Unit::Bytes), status.held_bytes as f64);
    add("held_frames", "Frames of output that wait", None, status.held_frames as f64);
    let went_back = status.register_went_back as f64;
    add("register_went_back", "How often the register was found in an older state", None, went_back);
    add("refused_messages", "Messages of another term", None, status.refused_messages as f64);
    let mut text = String::new();
    // A String takes all that is written into it.
    let _ = encode(&mut text, &root);
    text
}
