//! The virtual machine that is protected, as its specification says it.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PAGE_BYTES;
use crate::devices::{UnsupportedDevice, check_devices};

/// How QEMU runs the guest's instructions.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    Tcg,
    Kvm,
}

impl Accelerator {
    /// As in a specification, and on QEMU's command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcg => "tcg",
            Self::Kvm => "kvm",
        }
    }
}

/// Which generation of virtio the guest's devices speak.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Virtio {
    /// Only the one before virtio 1.0. Whatever its size, a device that knows 1.0 saves three tables with a
    /// row for each of 1,024 queues (hw/virtio/virtio.c and virtio-pci.c, `VIRTIO_QUEUE_MAX`), element by
    /// element: some 45 KB.
    Legacy,
    /// Both; the guest chooses.
    Transitional,
}

/// A file that the guest boots from. QEMU reads it again when the guest reboots, so it must be the same on
/// every host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BootFile {
    pub path: PathBuf,
    /// Of its content, in lower-case hexadecimal.
    pub sha256: String,
}

/// Which controller a guest finds a disk at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskBus {
    /// virtio-blk: each disk is a device.
    #[default]
    Virtio,
    /// virtio-scsi: one controller for all disks.
    Scsi,
}

/// A disk of a machine, with an image on each host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Also the guest's word for it: its serial number.
    pub name: String,
    pub bytes: u64,
    #[serde(default)]
    pub bus: DiskBus,
}

/// As many as fit on the bus beside the others.
const DISKS_MAX: usize = 8;
/// What QEMU tells a guest of a serial number (`VIRTIO_BLK_ID_BYTES`).
const DISK_NAME_BYTES_MAX: usize = 20;
const SECTOR_BYTES: u64 = 512;
/// 64 TiB: what ext4 takes with blocks of 4 KiB is more, what anybody copies to a second host is less.
const DISK_BYTES_MAX: u64 = 64 << 40;

/// As many as `VM.toml` takes.
const VCPUS_MAX: u32 = 8;
/// As much as `VM.toml` takes: 1 TiB.
const MEMORY_BYTES_MAX: u64 = 1 << 40;

/// A machine that is not started. QEMU reads options and values from one text: whoever could write a comma
/// into a value would choose options (`-machine pc,dumpdtb=/etc/passwd`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineSpecError {
    #[error("the machine's {what} is {value:?}, which is no {expected}")]
    Word {
        what: &'static str,
        /// As it was given.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    #[error("the machine has {value} {what}; a protected one has {least} to {most}")]
    Number {
        what: &'static str,
        /// As it was given.
        value: u64,
        least: u64,
        most: u64,
    },
    #[error("the machine's disk {name} has {bytes} bytes, which is no whole number of sectors of {SECTOR_BYTES} bytes")]
    Sectors { name: String, bytes: u64 },
    #[error(
        "the machine has no kernel: it boots from a disk of its own then, and has neither initramfs nor kernel arguments"
    )]
    NoKernel,
    #[error("the machine has two disks with the name {0}")]
    SameDisk(String),
    #[error("the machine has {0} bytes of memory, which is no whole number of pages of {PAGE_BYTES} bytes")]
    Pages(u64),
    #[error(transparent)]
    Device(#[from] UnsupportedDevice),
}

/// A virtual machine. Equal on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// What the user calls it.
    pub name: String,
    pub accelerator: Accelerator,
    /// A versioned machine type, as `pc-i440fx-7.2`: `pc` would be another one with another QEMU.
    pub machine: String,
    /// A CPU model, as `max` or `host`.
    pub cpu: String,
    /// How many virtual CPUs.
    pub vcpus: u32,
    pub memory_bytes: u64,
    /// None: the first disk's own boot loader has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<BootFile>,
    /// The initramfs; of a guest without disks, its whole file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initramfs: Option<BootFile>,
    /// The kernel's command line.
    pub kernel_arguments: String,
    /// Of the network card.
    pub mac: String,
    /// Of all its virtio devices.
    pub virtio: Virtio,
    /// Further devices, as on QEMU's command line; see [`crate::check_devices`].
    pub devices: Vec<String>,
    /// In the order in which the guest finds them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskSpec>,
}

impl MachineSpec {
    /// Refuse what no machine has, and what QEMU would take for something else: whoever wrote this need not
    /// be a friend.
    pub fn check(&self) -> Result<(), MachineSpecError> {
        word("machine type", &self.machine, is_word, "name of a machine type such as pc-i440fx-7.2")?;
        word("cpu", &self.cpu, is_word, "name of a CPU model, without features")?;
        word("mac", &self.mac, is_mac, "MAC address such as 52:54:00:12:34:56")?;
        let is_line = |text: &str| !text.contains(char::is_control);
        word("kernel_arguments", &self.kernel_arguments, is_line, "line of text")?;
        if self.kernel.is_none()
            && (self.disks.is_empty() || self.initramfs.is_some() || !self.kernel_arguments.is_empty())
        {
            return Err(MachineSpecError::NoKernel);
        }
        for image in self.boot_files() {
            let path = image.path.to_string_lossy();
            word("image", &path, |path| path.starts_with('/') && is_line(path), "absolute path")?;
        }
        number("vCPUs", u64::from(self.vcpus), 1, u64::from(VCPUS_MAX))?;
        number("bytes of memory", self.memory_bytes, PAGE_BYTES as u64, MEMORY_BYTES_MAX)?;
        if !self.memory_bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Err(MachineSpecError::Pages(self.memory_bytes));
        }
        self.check_disks()?;
        Ok(check_devices(&self.devices)?)
    }
}

impl MachineSpec {
    /// What it boots from besides its disks.
    pub fn boot_files(&self) -> impl Iterator<Item = &BootFile> {
        self.kernel.iter().chain(&self.initramfs)
    }

    fn check_disks(&self) -> Result<(), MachineSpecError> {
        number("disks", self.disks.len() as u64, 0, DISKS_MAX as u64)?;
        for (before, DiskSpec { name, bytes, .. }) in self.disks.iter().enumerate() {
            let is_name = |text: &str| text.len() <= DISK_NAME_BYTES_MAX && is_word(text);
            word("disk", name, is_name, "name of a disk: up to 20 letters, digits, dots and dashes")?;
            number("bytes of a disk", *bytes, SECTOR_BYTES, DISK_BYTES_MAX)?;
            if !bytes.is_multiple_of(SECTOR_BYTES) {
                return Err(MachineSpecError::Sectors { name: name.clone(), bytes: *bytes });
            }
            if self.disks[..before].iter().any(|other| other.name == *name) {
                return Err(MachineSpecError::SameDisk(name.clone()));
            }
        }
        Ok(())
    }
}

fn word(
    what: &'static str,
    value: &str,
    is_one: impl Fn(&str) -> bool,
    expected: &'static str,
) -> Result<(), MachineSpecError> {
    if is_one(value) { Ok(()) } else { Err(MachineSpecError::Word { what, value: value.to_owned(), expected }) }
}

fn number(what: &'static str, value: u64, least: u64, most: u64) -> Result<(), MachineSpecError> {
    let is_in = (least..=most).contains(&value);
    if is_in { Ok(()) } else { Err(MachineSpecError::Number { what, value, least, most }) }
}

/// `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`, as in `vm_file.py`.
fn is_word(text: &str) -> bool {
    text.len() <= 64
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "._-".contains(one))
}

fn is_mac(text: &str) -> bool {
    text.len() == 17
        && text.split(':').count() == 6
        && text.split(':').all(|byte| byte.len() == 2 && byte.chars().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn machine() -> MachineSpec {
        let file = |path: &str| BootFile { path: path.into(), sha256: String::new() };
        MachineSpec {
            name: "phone".into(),
            accelerator: Accelerator::Tcg,
            machine: "pc-i440fx-7.2".into(),
            cpu: "Skylake-Server-v4".into(),
            vcpus: 1,
            memory_bytes: 128 << 20,
            kernel: Some(file("/boot/kernel")),
            initramfs: Some(file("/boot/a, b.cpio")),
            kernel_arguments: "console=ttyS0 a=b,c".into(),
            mac: "52:54:00:00:00:0A".into(),
            virtio: Virtio::Legacy,
            devices: vec!["virtio-rng-pci,max-bytes=1024".into()],
            disks: vec![DiskSpec { name: "root".into(), bytes: 1 << 30, bus: DiskBus::Virtio }],
        }
    }

    #[test]
    fn a_machine_as_people_have_it_is_taken() {
        machine().check().unwrap();
    }

    #[test]
    fn what_qemu_would_take_for_another_option_is_refused_by_name() {
        type Change = fn(&mut MachineSpec);
        let changes: [(Change, &str); 23] = [
            (|spec| spec.machine = "pc,dumpdtb=/etc/passwd".into(), "machine type"),
            (|spec| spec.machine = "none\n".into(), "machine type"),
            (|spec| spec.machine = "-help".into(), "machine type"),
            (|spec| spec.machine = String::new(), "machine type"),
            (|spec| spec.cpu = "max,host-phys-bits=on".into(), "cpu"),
            (|spec| spec.mac = "52:54:00:00:00:01,romfile=/etc/shadow".into(), "mac"),
            (|spec| spec.mac = "52:54:00:00:00:+1".into(), "mac"),
            (|spec| spec.kernel_arguments = "quiet\0".into(), "kernel_arguments"),
            (|spec| spec.kernel.as_mut().unwrap().path = "kernel".into(), "image"),
            (|spec| spec.kernel = None, "no kernel"),
            (|spec| spec.vcpus = 0, "vCPUs"),
            (|spec| spec.vcpus = 1 << 20, "vCPUs"),
            (|spec| spec.memory_bytes = 0, "bytes of memory"),
            (|spec| spec.memory_bytes = !4095, "bytes of memory"),
            (|spec| spec.memory_bytes = 4097, "whole number of pages"),
            (|spec| spec.devices = vec!["virtio-rng-pci,romfile=/etc/shadow".into()], "romfile"),
            (|spec| spec.disks[0].name = "a,file=/etc/shadow".into(), "disk"),
            (|spec| spec.disks[0].name = "../shadow".into(), "disk"),
            (|spec| spec.disks[0].name = "a-name-of-21-letters-".into(), "disk"),
            (|spec| spec.disks[0].bytes = 0, "bytes of a disk"),
            (|spec| spec.disks[0].bytes = 1000, "sectors"),
            (|spec| spec.disks.push(spec.disks[0].clone()), "two disks"),
            (|spec| spec.disks = vec![spec.disks[0].clone(); 9], "disks"),
        ];
        for (change, named) in changes {
            let mut hostile = machine();
            change(&mut hostile);
            let refused = hostile.check().unwrap_err().to_string();
            assert!(refused.contains(named), "{named}: {refused}");
        }
    }
}
