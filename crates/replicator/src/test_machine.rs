//! A machine for tests that boot none.

use std::path::Path;

use stealtime_capture::{Accelerator, BootFile, MachineSpec, Virtio};

/// Of one mebibyte. `image` is its kernel and its initramfs.
pub fn machine(image: &Path) -> MachineSpec {
    let image = || BootFile { path: image.to_owned(), sha256: String::new() };
    MachineSpec {
        name: "phone".into(),
        accelerator: Accelerator::Tcg,
        machine: "pc-i440fx-7.2".into(),
        cpu: "max".into(),
        vcpus: 1,
        memory_bytes: 1 << 20,
        kernel: Some(image()),
        initramfs: Some(image()),
        kernel_arguments: String::new(),
        mac: "52:54:00:00:00:01".into(),
        virtio: Virtio::Legacy,
        devices: Vec::new(),
        disks: Vec::new(),
    }
}
