//! The virtual machine that is protected, as its specification says it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How QEMU runs the guest's instructions.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// In software.
    Tcg,
    /// By the processor.
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
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Virtio {
    /// Only the one before virtio 1.0. Whatever its size, a device that knows 1.0 saves three tables with a row for each
    /// of 1,024 queues (hw/virtio/virtio.c and virtio-pci.c, `VIRTIO_QUEUE_MAX`), element by element: some 45 KB.
    Legacy,
    /// Both; the guest chooses.
    Transitional,
}

/// A file that the guest boots from. QEMU reads it again when the guest reboots, so it must be the same on every host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BootFile {
    /// Where it is.
    pub path: PathBuf,
    /// Of its content, in lower-case hexadecimal.
    pub sha256: String,
}

/// A virtual machine. Equal on both sides, except for the paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// What the user calls it.
    pub name: String,
    /// QEMU.
    pub program: PathBuf,
    /// How it runs.
    pub accelerator: Accelerator,
    /// A versioned machine type, as `pc-i440fx-7.2`: `pc` would be another one with another QEMU.
    pub machine: String,
    /// A CPU model, as `max` or `host`.
    pub cpu: String,
    /// How many virtual CPUs.
    pub vcpus: u32,
    /// How much memory.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: BootFile,
    /// The initramfs: all the guest has for a disk.
    pub initramfs: BootFile,
    /// The kernel's command line.
    pub kernel_arguments: String,
    /// Of the network card.
    pub mac: String,
    /// Of all its virtio devices.
    pub virtio: Virtio,
    /// Further devices, as on QEMU's command line; see [`crate::check_devices`].
    pub devices: Vec<String>,
}
