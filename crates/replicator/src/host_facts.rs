//! What this host can do for a machine, to be laid beside what the machine needs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use stealtime_capture::{Accelerator, MachineSpec, find_firmware, hash_file};
use stealtime_shipping::{Image, LocalFacts};
use stealtime_succession::{MemberId, Term};

use crate::host::HostConfig;

/// Look at the programs, files and memory that this machine would use here.
pub fn gather(config: &HostConfig, machine: &MachineSpec, member: MemberId) -> LocalFacts {
    let images = [&machine.kernel, &machine.initramfs]
        .into_iter()
        .filter_map(|image| Some((image.path.display().to_string(), hash_file(&image.path).ok()?)))
        .chain(firmware(machine).map(|image| (image.path, image.sha256)))
        .collect::<BTreeMap<_, _>>();
    LocalFacts {
        host: config.name.clone(),
        member,
        // Until a QEMU of this program has said it itself; see the second judgement in `standby`.
        qemu_version: String::new(),
        machines: machine_types(&machine.program),
        accelerators: accelerators(),
        available_bytes: available_bytes(),
        images,
        delta: true,
        vms: Vec::new(),
        highest_term: Term(0),
        ram_blocks: None,
    }
}

/// The firmware, which a guest that reboots reads again: by its name, as it may lie elsewhere on another host.
pub fn firmware(machine: &MachineSpec) -> Option<Image> {
    let path = find_firmware(&machine.program).ok()?;
    let sha256 = hash_file(&path).ok()?;
    Some(Image { path: path.file_name()?.to_string_lossy().into_owned(), sha256 })
}

/// The first words of the lines of `-machine help`.
fn machine_types(program: &Path) -> Vec<String> {
    let Ok(output) = Command::new(program).args(["-machine", "help"]).output() else { return Vec::new() };
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(ToOwned::to_owned)
        .collect()
}

fn accelerators() -> Vec<String> {
    let mut names = vec![Accelerator::Tcg.name().to_owned()];
    // Whether it boots, the waiting QEMU will tell.
    if fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok() {
        names.push(Accelerator::Kvm.name().to_owned());
    }
    names
}

/// `MemAvailable` of /proc/meminfo; unknown counts as enough.
fn available_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |kibibytes| kibibytes << 10)
}
