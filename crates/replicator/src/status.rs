//! What a member says of itself, on its control socket and to Prometheus.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use stealtime_succession::Mode;

use crate::alarms::Alarm;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It asks the register whether it may run the machine.
    #[default]
    Starting,
    /// The machine runs here, and nobody could take it over.
    Solo,
    /// The machine runs here, and a standby is named.
    Active,
    /// The machine stands still: neither standby nor register can be reached.
    Stopped,
    /// It holds the committed state of a machine that runs elsewhere.
    Standby,
    /// It has lost its role; the machine does not run here any more.
    Fenced,
}

impl Role {
    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Solo => "solo",
            Self::Active => "active",
            Self::Stopped => "stopped",
            Self::Standby => "standby",
            Self::Fenced => "fenced",
        }
    }
}

/// How far the first full copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FullCopy {
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// Whom the machine would go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Peer {
    /// The host's name in the register.
    pub name: String,
    pub endpoint: String,
}

/// How a member stands, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Status {
    pub vm: String,
    pub host: String,
    /// This life of the member, as the register names it.
    pub member: String,
    pub role: Role,
    /// Whether the host may die now without loss of what was acknowledged.
    pub protected: bool,
    pub mode: Mode,
    pub term: u64,
    /// The last epoch that was captured (on a standby: staged).
    pub epoch: u64,
    /// The last that was acknowledged.
    pub acknowledged: u64,
    /// The last whose output was released.
    pub released: u64,
    /// Captured but not acknowledged.
    pub lag_epochs: u64,
    /// The interval that is aimed at.
    pub interval_ns: u64,
    /// How long the guest stood in the last epoch, and at the quantiles of all.
    pub last_pause_ns: u64,
    pub pause_p50_ns: u64,
    pub pause_p99_ns: u64,
    /// The median time from a cut to the release.
    pub hold_p50_ns: u64,
    pub hold_p99_ns: u64,
    /// How long the guest stood in all since it runs here: for the epochs that were shipped its clock lost no
    /// more than this.
    pub guest_time_lost_ns: u64,
    /// Of it, over the last ten epochs, microseconds in each second.
    pub guest_time_loss_ppm: f64,
    /// Of that, because the standby could not follow.
    pub held_back_ppm: f64,
    /// How often QEMU told what, unasked.
    pub qemu_events: BTreeMap<String, u64>,
    /// This and the next over the last ten epochs.
    pub bytes_per_s: f64,
    pub dirty_pages_per_s: f64,
    pub held_frames: u64,
    pub held_bytes: u64,
    /// While the first full copy goes on.
    pub full_copy: Option<FullCopy>,
    /// The images of its disks here.
    pub disks: Vec<PathBuf>,
    pub standby: Option<Peer>,
    pub tracker: String,
    /// How the state of devices is saved.
    pub device_state: String,
    pub register: String,
    /// How long ago it gave an answer.
    pub register_age_ns: Option<u64>,
    /// How often the register was found to have gone back to an older state.
    pub register_went_back: u64,
    /// Messages of other terms that were refused.
    pub refused_messages: u64,
    /// When this member began, wall-clock.
    pub since_unix_ns: u64,
    pub pid: u32,
    pub qemu_pid: Option<u32>,
    pub fenced_reason: Option<String>,
    /// How long the last failover took here: from the decision until the guest ran.
    pub resume_ns: Option<u64>,
    /// How long this host's certificates are good for; None without any.
    pub certificates_end_in_s: Option<i64>,
    /// What somebody must see to.
    pub alarms: Vec<Alarm>,
    /// What is not as wanted, in sentences: a tracker that fell back, a standby that refused.
    pub warnings: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_documents_name_roles_alike() {
        for role in [Role::Starting, Role::Solo, Role::Active, Role::Stopped, Role::Standby, Role::Fenced] {
            assert_eq!(serde_json::json!(role), role.name());
        }
    }
}
