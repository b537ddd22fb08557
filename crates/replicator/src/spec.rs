//! What a member is told to do: the file that the control plane writes, and that travels to the standby.

use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stealtime_capture::{DeviceStateKind, MachineSpec, MachineSpecError, QemuUser, TrackerKind};
use stealtime_disk::{Flush, ImageFile};
use stealtime_outputhold::BypassRule;
use stealtime_shipping::{Endpoint, EndpointError, Identity};
use stealtime_succession::{EtcdLogin, Mode, NameError, Timing, TimingError, check_host_name, check_vm_name};

/// The layout of the file; a change that older programs would misread makes it rise.
pub const VERSION: u32 = 2;

/// A spec that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file is not there or may not be read.
    #[error("the spec {path} cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// It is not what this program reads.
    #[error("the spec {path} is not one: {source}")]
    Parse {
        path: PathBuf,
        /// Where, and what was expected.
        source: serde_json::Error,
    },
    /// It was written for another program.
    #[error("the spec has version {found}, this program reads version {VERSION}")]
    Version { found: u32 },
    /// The deadlines contradict each other.
    #[error(transparent)]
    Timing(#[from] TimingError),
    /// The machine is none that is started.
    #[error(transparent)]
    Machine(#[from] MachineSpecError),
    /// A machine or a host with a name that is none.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A host that is nowhere.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A value is out of its range.
    #[error("{0}")]
    Value(String),
}

/// How often an epoch begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// Always after this time.
    FixedNs(u64),
    /// As often as keeps the guest stopped for this share of the time.
    AutoOverhead(f64),
}

/// A host that may receive the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandbyHost {
    /// Its name, as it stands in the register.
    pub name: String,
    /// `unix:/path` or `tcp:host:port`.
    pub endpoint: String,
}

/// Where the guest's frames go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// The name of the TAP to make.
    pub tap: String,
    /// The bridge to put it into.
    pub bridge: Option<String>,
}

/// Which register decides who may be active.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegisterSpec {
    /// A folder on one machine, locked.
    File(PathBuf),
    Etcd {
        /// One URL for each member of etcd.
        endpoints: Vec<String>,
        /// Client certificate, for `https`.
        identity: Option<Identity>,
        /// Where etcd's authentication is on.
        login: Option<EtcdLogin>,
        /// Whether `http` may go further than loopback.
        insecure: bool,
    },
}

impl RegisterSpec {
    /// As the register names itself, also where none can be made.
    pub fn in_words(&self) -> String {
        match self {
            Self::File(folder) => format!("in the folder {}", folder.display()),
            Self::Etcd { endpoints, .. } => format!("etcd at {}", endpoints.join(", ")),
        }
    }
}

/// All that a member needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// [`VERSION`] of who wrote it.
    pub version: u32,
    /// The machine, the same on every host.
    pub machine: MachineSpec,
    /// QEMU on this host.
    pub qemu: PathBuf,
    /// As whom it runs here; None: as a user of its own.
    #[serde(default)]
    pub qemu_user: Option<QemuUser>,
    /// The name of this host.
    pub host: String,
    /// Where the machine may go, in the order of preference.
    pub standby_hosts: Vec<StandbyHost>,
    /// What happens to output.
    pub mode: Mode,
    pub interval: Interval,
    /// Where it is given, an epoch is cut as soon as output waits for it, but no sooner after the one before than
    /// this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_interval_ns: Option<u64>,
    /// What passes in the mode `net+bypass`.
    pub bypass: Vec<BypassRule>,
    /// `userfault`, `soft-dirty`, `shadow`, or None: the best that there is.
    pub tracker: Option<TrackerKind>,
    /// `xen-save` or `ignore-shared`.
    pub device_state: DeviceStateKind,
    /// When the guest hears that something is on its disks' medium.
    #[serde(default)]
    pub flush: Flush,
    /// The images of the machine's disks here, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disk_images: Vec<ImageFile>,
    /// How much of the disks is copied a second, at most, while the machine is not protected yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_copy_bytes_per_s: Option<NonZeroU64>,
    pub network: Network,
    pub register: RegisterSpec,
    /// How long to wait.
    pub timing: Timing,
    /// For `tcp:` endpoints.
    pub identity: Option<Identity>,
    /// Ours alone: sockets, logs, per-epoch figures.
    pub folder: PathBuf,
    /// How long the first whole epoch may take until the standby has it, where pages are written faster than they are
    /// shipped: beyond that the guest stays unprotected, and is tried again.
    pub longest_first_pause_ns: u64,
    /// How long output may wait for its acknowledgement: a guest that writes more than its standby takes in that time
    /// is held back, and what waits for longer is an alarm.
    #[serde(default = "default_longest_hold_ns")]
    pub longest_hold_ns: u64,
    /// Where a host does not receive all machines at once, those of smaller numbers are first.
    #[serde(default = "default_copy_order")]
    pub copy_order: u32,
    /// Epochs that may be captured and not yet acknowledged.
    pub epochs_in_flight: usize,
    /// Held output that makes us stop reading from the guest.
    pub hold_bytes: usize,
    /// How long QEMU may take to answer before it is given up.
    #[serde(default = "default_qemu_deadline_ns")]
    pub qemu_deadline_ns: u64,
    /// What each of the logs may take: the epochs, the events, the guest's console.
    #[serde(default = "default_log_bytes")]
    pub log_bytes: u64,
    /// Where Prometheus may ask.
    pub metrics: Option<String>,
    /// Whether a test may break this member on purpose.
    #[serde(default)]
    pub allow_faults: bool,
}

impl Spec {
    /// Read and check a file.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let text = fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.to_owned(), source })?;
        let spec: Self =
            serde_json::from_str(&text).map_err(|source| SpecError::Parse { path: path.to_owned(), source })?;
        spec.check()?;
        Ok(spec)
    }

    /// What members of all machines on this host share.
    pub fn host_folder(&self) -> &Path {
        self.folder.parent().unwrap_or(&self.folder)
    }

    /// The images of the machine's disks here, in their order.
    pub fn disk_paths(&self) -> Vec<PathBuf> {
        self.disk_images.iter().map(|image| image.path.clone()).collect()
    }

    /// Refuse what no member could work with; it may have come from another host.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.version != VERSION {
            return Err(SpecError::Version { found: self.version });
        }
        check_vm_name(&self.machine.name)?;
        self.machine.check()?;
        if self.disk_images.len() != self.machine.disks.len() {
            let (images, disks) = (self.disk_images.len(), self.machine.disks.len());
            return Err(SpecError::Value(format!("there are {images} disk images for {disks} disks")));
        }
        check_host_name(&self.host)?;
        for host in &self.standby_hosts {
            check_host_name(&host.name)?;
            host.endpoint.parse::<Endpoint>()?;
        }
        self.timing.validate()?;
        within("standby_hosts", self.standby_hosts.len(), 0, STANDBY_HOSTS_MAX)?;
        within("bypass rules", self.bypass.len(), 0, BYPASS_RULES_MAX)?;
        within("epochs_in_flight", self.epochs_in_flight, 1, EPOCHS_IN_FLIGHT_MAX)?;
        within("hold_bytes", self.hold_bytes, 1 << 20, HOLD_BYTES_MAX)?;
        let log_bytes = usize::try_from(self.log_bytes).unwrap_or(usize::MAX);
        within("log_bytes", log_bytes, 64 << 10, LOG_BYTES_MAX)?;
        let ms = |ns: u64| usize::try_from(ns / 1_000_000).unwrap_or(usize::MAX);
        let deadline = ms(u64::try_from(self.timing.register_deadline.as_nanos()).unwrap_or(u64::MAX));
        within("ms of register_deadline", deadline, 0, ms(LONGEST_NS))?;
        within("ms of longest_hold", ms(self.longest_hold_ns), 10, ms(LONGEST_NS))?;
        within("ms of qemu_deadline", ms(self.qemu_deadline_ns), 100, ms(LONGEST_NS))?;
        if let Some(ns) = self.min_interval_ns {
            if !self.mode.gates_on_ack() {
                let mode = self.mode;
                return Err(SpecError::Value(format!("in the mode {mode} no output waits, so no epoch is cut for it")));
            }
            within("ms of the min_interval", ms(ns), ms(MINIMUM_ON_DEMAND_NS), ms(self.first_interval_ns()))?;
        }
        match self.interval {
            Interval::FixedNs(ns) => within("ms of the interval", ms(ns), ms(MINIMUM_INTERVAL_NS), ms(LONGEST_NS)),
            Interval::AutoOverhead(share) if !(0.001..=0.9).contains(&share) => {
                Err(SpecError::Value(format!("the share of overhead is {share}, it must be in 0.001 to 0.9")))
            }
            Interval::AutoOverhead(_) => Ok(()),
        }
    }

    /// What a standby has to have before the machine is protected: memory and disks.
    pub fn bytes_to_copy(&self) -> u64 {
        let disks: u64 = self.machine.disks.iter().map(|disk| disk.bytes).sum();
        self.machine.memory_bytes + disks
    }

    /// The first interval, before anything is known of the guest.
    pub fn first_interval(&self) -> Duration {
        Duration::from_nanos(self.first_interval_ns())
    }

    fn first_interval_ns(&self) -> u64 {
        match self.interval {
            Interval::FixedNs(ns) => ns,
            Interval::AutoOverhead(_) => 100_000_000,
        }
    }
}

fn within(what: &str, value: usize, least: usize, most: usize) -> Result<(), SpecError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(SpecError::Value(format!("there are {value} {what}, and {least} to {most} is what a member takes")))
}

fn default_qemu_deadline_ns() -> u64 {
    5_000_000_000
}

pub(crate) fn default_copy_order() -> u32 {
    100
}

pub(crate) fn default_longest_hold_ns() -> u64 {
    1_000_000_000
}

fn default_log_bytes() -> u64 {
    16 << 20
}

/// Below this the guest would be stopped more than it runs.
pub(crate) const MINIMUM_INTERVAL_NS: u64 = 5_000_000;
/// Of epochs that are cut on demand: they leave the guest as much time as they take, whatever this is.
const MINIMUM_ON_DEMAND_NS: u64 = 1_000_000;
/// An hour: nobody waits longer for anything here.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Each has a place in a queue that is made at once.
const EPOCHS_IN_FLIGHT_MAX: usize = 64;
/// Memory of the member, not of the guest.
const HOLD_BYTES_MAX: usize = 4 << 30;
/// Of each log, on a disk that is the host's.
const LOG_BYTES_MAX: usize = 1 << 30;
/// Each frame is held against each rule.
const BYPASS_RULES_MAX: usize = 256;
const STANDBY_HOSTS_MAX: usize = 64;
