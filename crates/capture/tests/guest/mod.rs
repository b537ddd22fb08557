//! A real guest for the tests that need one.
//!
//! They run when asked for (`--ignored`), with the environment: `STEALTIME_KERNEL` (a vmlinux or bzImage),
//! `STEALTIME_KERNEL_MODULES` (its `lib/modules/RELEASE`, unless the drivers are built in), if it is another one than
//! `qemu-system-x86_64`, `STEALTIME_QEMU`, and, for guests under KVM instead of TCG, `STEALTIME_ACCELERATOR=kvm`.

pub mod frames;
mod initramfs;

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use stealtime_capture::{
    Accelerator, BootFile, Guest, GuestError, GuestSettings, MachineSpec, QemuUser, TrackerKind, Virtio,
};
use tempfile::TempDir;

pub const MEMORY_BYTES: u64 = 160 << 20;

/// Where guests of one test live, and what they boot.
pub struct Lab {
    folder: TempDir,
    /// QEMU.
    pub program: PathBuf,
    pub spec: MachineSpec,
    pub tracker: Option<TrackerKind>,
}

impl Lab {
    pub fn new(vcpus: u32) -> Self {
        let kernel =
            PathBuf::from(std::env::var_os("STEALTIME_KERNEL").expect("STEALTIME_KERNEL names a kernel image"));
        let modules = std::env::var_os("STEALTIME_KERNEL_MODULES").map(PathBuf::from);
        let folder = tempfile::Builder::new().prefix("stealtime-capture-").tempdir().unwrap();
        let initramfs = initramfs::build(modules.as_deref(), folder.path());
        let program = std::env::var_os("STEALTIME_QEMU").unwrap_or_else(|| "qemu-system-x86_64".into());
        let file = |path: PathBuf| BootFile { path, sha256: String::new() };
        let (accelerator, cpu) = match std::env::var("STEALTIME_ACCELERATOR").as_deref() {
            Ok("kvm") => (Accelerator::Kvm, "host"),
            Ok("tcg") | Err(_) => (Accelerator::Tcg, "max"),
            Ok(other) => panic!("STEALTIME_ACCELERATOR is tcg or kvm, not {other}"),
        };
        let spec = MachineSpec {
            name: "capture, test".into(),
            accelerator,
            machine: "pc-i440fx-7.2".into(),
            cpu: cpu.into(),
            vcpus,
            memory_bytes: MEMORY_BYTES,
            kernel: Some(file(kernel)),
            initramfs: Some(file(initramfs)),
            kernel_arguments: "console=ttyS0 quiet panic=-1 no_timer_check".into(),
            mac: "52:54:00:00:00:01".into(),
            virtio: Virtio::Legacy,
            devices: vec!["virtio-rng-pci".into()],
            disks: Vec::new(),
        };
        Self { folder, program: program.into(), spec, tracker: None }
    }

    fn settings(&self, name: &str) -> GuestSettings {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        GuestSettings { tracker: self.tracker, ..GuestSettings::new(&self.program, &folder) }
    }

    pub fn boot(&self, name: &str, netdev: OwnedFd) -> Guest {
        self.try_boot(name, netdev).unwrap()
    }

    pub fn try_boot(&self, name: &str, netdev: OwnedFd) -> Result<Guest, GuestError> {
        Guest::boot(&self.spec, &self.settings(name), netdev)
    }

    /// The same, with a QEMU that runs as this user.
    pub fn boot_as(&self, name: &str, netdev: OwnedFd, user: QemuUser) -> Guest {
        let settings = GuestSettings { user: Some(user), ..self.settings(name) };
        Guest::boot(&self.spec, &settings, netdev).unwrap()
    }

    /// A program that starts QEMU with further arguments; everybody may run it.
    pub fn program_that_adds(&self, arguments: &str) -> PathBuf {
        let path = self.folder.path().join("qemu");
        let script = format!("#!/bin/sh\nexec {} \"$@\" {arguments}\n", self.program.display());
        std::fs::write(&path, script).unwrap();
        for open in [path.as_path(), self.folder.path()] {
            std::fs::set_permissions(open, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        path
    }

    pub fn standby(&self, name: &str, netdev: OwnedFd) -> Guest {
        Guest::standby(&self.spec, &self.settings(name), netdev).unwrap()
    }

    /// A QEMU that tries out a state on the memory of a standby.
    pub fn trial(&self, name: &str, standby: &Guest) -> Guest {
        let (_, netdev) = UnixStream::pair().unwrap();
        Guest::trial(&self.spec, &self.settings(name), netdev.into(), Arc::clone(&standby.ram)).unwrap()
    }

    pub fn console(&self, name: &str) -> String {
        std::fs::read(self.folder.path().join(name).join("console.log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }
}
