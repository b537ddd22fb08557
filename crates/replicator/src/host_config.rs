//! What a host that receives machines is told about itself, and what it makes of a machine that comes.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stealtime_capture::{MachineSpec, QemuUser};
use stealtime_disk::{Format, ImageFile};
use stealtime_shipping::{Endpoint, Identity};

use crate::assignment::Assignment;
use crate::spec::{Network, RegisterSpec, Spec, SpecError, StandbyHost};

/// Who a host is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Its name, as it stands in the register.
    pub name: String,
    /// `unix:/path` or `tcp:address:port`.
    pub listen: String,
    /// The bridge that machines are put into here.
    pub bridge: Option<String>,
    /// Which register decides here; the same as that of the active members.
    pub register: RegisterSpec,
    /// For `tcp:`.
    pub identity: Option<Identity>,
    /// Holds a folder for each machine.
    pub folder: PathBuf,
    pub qemu: PathBuf,
    /// As whom it runs; None: as a user of its own.
    #[serde(default)]
    pub qemu_user: Option<QemuUser>,
    /// Machines boot from files below these folders only: a guest can read what it was booted from.
    pub images: Vec<PathBuf>,
    /// Holds a folder for each machine with disks; None: no such machine is taken.
    #[serde(default)]
    pub disks: Option<PathBuf>,
    /// How many machines are copied to this host at a time.
    #[serde(default = "two")]
    pub copies: usize,
    /// Where members here tell their figures, each on the port that its machine names.
    #[serde(default = "loopback")]
    pub metrics: IpAddr,
    /// Whether tests may break the members here on purpose.
    #[serde(default)]
    pub allow_faults: bool,
}

fn two() -> usize {
    2
}

fn loopback() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

impl HostConfig {
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        let text = fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text).map_err(|source| SpecError::Parse { path: path.to_owned(), source })
    }

    /// Say what a member here is told of a machine that another host wants protected.
    ///
    /// # Errors
    /// What is wrong with the machine: nothing was made of its names yet.
    pub fn spec_of(&self, assignment: Assignment) -> Result<Spec, SpecError> {
        let vm = &assignment.machine.name;
        let address = |port| SocketAddr::new(self.metrics, port).to_string();
        let disk_images = self.disk_images(&assignment.machine)?;
        let spec = Spec {
            version: assignment.version,
            folder: self.folder.join(vm),
            network: Network { tap: tap_name(vm, &self.name), bridge: self.bridge.clone() },
            machine: assignment.machine,
            qemu: self.qemu.clone(),
            qemu_user: self.qemu_user.clone(),
            host: self.name.clone(),
            standby_hosts: assignment.standby_hosts,
            mode: assignment.mode,
            interval: assignment.interval,
            min_interval_ns: assignment.min_interval_ns,
            bypass: assignment.bypass,
            tracker: assignment.tracker,
            device_state: assignment.device_state,
            flush: assignment.flush,
            disk_images,
            disk_copy_bytes_per_s: assignment.disk_copy_bytes_per_s,
            register: self.register.clone(),
            timing: assignment.timing,
            identity: self.identity.clone(),
            longest_first_pause_ns: assignment.longest_first_pause_ns,
            longest_hold_ns: assignment.longest_hold_ns,
            copy_order: assignment.copy_order,
            epochs_in_flight: assignment.epochs_in_flight,
            hold_bytes: assignment.hold_bytes,
            qemu_deadline_ns: assignment.qemu_deadline_ns,
            log_bytes: assignment.log_bytes,
            metrics: assignment.metrics_port.map(address),
            allow_faults: self.allow_faults,
        };
        spec.check()?;
        self.check_reach(&spec.standby_hosts)?;
        Ok(spec)
    }

    /// Where the images of a machine are here: what they are called follows from names that are checked before any of
    /// them is opened. The ending of one that is there says how it holds the disk.
    fn disk_images(&self, machine: &MachineSpec) -> Result<Vec<ImageFile>, SpecError> {
        if machine.disks.is_empty() {
            return Ok(Vec::new());
        }
        let none = || SpecError::Value(format!("{} has disks, and {} has no folder for any", machine.name, self.name));
        let folder = self.disks.as_ref().ok_or_else(none)?.join(&machine.name);
        machine.disks.iter().map(|disk| image_of(&folder, &disk.name)).collect()
    }

    /// Who comes over TCP is on another machine, where a socket file means nothing of this one: the member
    /// here would connect to it, as root.
    fn check_reach(&self, hosts: &[StandbyHost]) -> Result<(), SpecError> {
        let is_file = |endpoint: &str| matches!(endpoint.parse(), Ok(Endpoint::Unix(_)));
        match hosts.iter().find(|host| is_file(&host.endpoint)) {
            Some(host) if !is_file(&self.listen) => Err(SpecError::Value(format!(
                "the standby host {} is at {}, and socket files of {} are not for other machines",
                host.name, host.endpoint, self.name
            ))),
            _ => Ok(()),
        }
    }
}

/// The image of a disk in the folder of its machine; a raw one is made where there is none.
fn image_of(folder: &Path, disk: &str) -> Result<ImageFile, SpecError> {
    let image = |format: Format| ImageFile { path: folder.join(format!("{disk}.{}", format.name())), format };
    let found: Vec<_> =
        Format::ALL.into_iter().map(image).filter(|image| image.path.symlink_metadata().is_ok()).collect();
    match &found[..] {
        [] => Ok(image(Format::Raw)),
        [one] => Ok(one.clone()),
        [one, other, ..] => {
            let [one, other] = [one, other].map(|image| image.path.display());
            Err(SpecError::Value(format!("{one} and {other} are both images of one disk: move one away")))
        }
    }
}

/// The TAP of a machine on this host: another one than where it comes from, which may be the same machine.
fn tap_name(vm: &str, host: &str) -> String {
    let mut hasher = DefaultHasher::new();
    (vm, host).hash(&mut hasher);
    format!("stt{:010x}", hasher.finish() >> 24)
}
