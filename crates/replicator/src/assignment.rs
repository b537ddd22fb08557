//! What a machine takes along to another host: that part of a [`Spec`] that is the same on every host.
//!
//! The rest is the receiving host's own (`HostConfig::spec_of`): which QEMU runs, in which folder, with which
//! TAP, register and identity, and which files machines may boot from. A peer has no word for any of it.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stealtime_capture::{DeviceStateKind, MachineSpec, TrackerKind};
use stealtime_disk::Flush;
use stealtime_outputhold::BypassRule;
use stealtime_shipping::{Image, ProtocolVersion, Wanted};
use stealtime_succession::{Mode, Timing};

use crate::spec::{Interval, Spec, StandbyHost, default_copy_order, default_longest_hold_ns};

/// What the active member says of a machine, in its hello.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    pub(crate) version: u32,
    pub(crate) machine: MachineSpec,
    pub(crate) standby_hosts: Vec<StandbyHost>,
    pub(crate) mode: Mode,
    pub(crate) interval: Interval,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_interval_ns: Option<u64>,
    pub(crate) bypass: Vec<BypassRule>,
    pub(crate) tracker: Option<TrackerKind>,
    pub(crate) device_state: DeviceStateKind,
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) flush: Flush,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) disk_copy_bytes_per_s: Option<NonZeroU64>,
    pub(crate) timing: Timing,
    pub(crate) longest_first_pause_ns: u64,
    #[serde(default = "default_longest_hold_ns")]
    pub(crate) longest_hold_ns: u64,
    #[serde(default = "default_copy_order")]
    pub(crate) copy_order: u32,
    pub(crate) epochs_in_flight: usize,
    pub(crate) hold_bytes: usize,
    pub(crate) qemu_deadline_ns: u64,
    pub(crate) log_bytes: u64,
    pub(crate) metrics_port: Option<u16>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_default(flush: &Flush) -> bool {
    *flush == Flush::default()
}

impl Assignment {
    /// What is to be said of the machine of `spec`.
    pub fn of(spec: &Spec) -> Self {
        Self {
            version: spec.version,
            machine: spec.machine.clone(),
            standby_hosts: spec.standby_hosts.clone(),
            mode: spec.mode,
            interval: spec.interval,
            min_interval_ns: spec.min_interval_ns,
            bypass: spec.bypass.clone(),
            tracker: spec.tracker,
            device_state: spec.device_state,
            flush: spec.flush,
            disk_copy_bytes_per_s: spec.disk_copy_bytes_per_s,
            timing: spec.timing,
            longest_first_pause_ns: spec.longest_first_pause_ns,
            longest_hold_ns: spec.longest_hold_ns,
            copy_order: spec.copy_order,
            epochs_in_flight: spec.epochs_in_flight,
            hold_bytes: spec.hold_bytes,
            qemu_deadline_ns: spec.qemu_deadline_ns,
            log_bytes: spec.log_bytes,
            metrics_port: spec.metrics.as_deref().and_then(|address| address.rsplit(':').next()?.parse().ok()),
        }
    }
}

/// Leave out of an assignment what hosts of another version of the protocol do not know: it is as by default there,
/// and after a failover back.
pub fn leave_out_what_is_unknown(assignment: &mut serde_json::Value, version: ProtocolVersion) {
    if version < ProtocolVersion::NEWEST
        && let Some(keys) = assignment.as_object_mut()
    {
        for key in ["longest_hold_ns", "copy_order", "min_interval_ns", "disk_copy_bytes_per_s"] {
            keys.remove(key);
        }
    }
}

/// What the machine of `spec` needs of a host: read from what would be used.
pub fn wanted(spec: &Spec) -> Wanted {
    let machine = &spec.machine;
    let image = |file: &stealtime_capture::BootFile| Image {
        path: file.path.display().to_string(),
        sha256: file.sha256.clone(),
    };
    Wanted {
        vm: machine.name.clone(),
        machine: machine.machine.clone(),
        accelerator: machine.accelerator.name().to_owned(),
        memory_bytes: machine.memory_bytes,
        images: machine.boot_files().map(image).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_host_of_the_version_before_hears_only_what_it_knows() {
        let whole = json!({
            "mode": "net", "longest_hold_ns": 1, "copy_order": 2, "min_interval_ns": 3, "disk_copy_bytes_per_s": 4,
        });
        let mut told = whole.clone();
        leave_out_what_is_unknown(&mut told, ProtocolVersion::NEWEST);
        assert_eq!(told, whole);
        leave_out_what_is_unknown(&mut told, ProtocolVersion::PREVIOUS);
        assert_eq!(told, json!({"mode": "net"}));
    }
}
