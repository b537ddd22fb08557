//! What this host can do for a machine, to be laid beside what the machine needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use stealtime_capture::{Accelerator, MachineSpec, QemuUser, Rights, find_firmware, hash_file};
use stealtime_shipping::{Image, LocalFacts, RegisterLook};
use stealtime_succession::MemberId;

use crate::host_config::HostConfig;

/// Look at the programs, files and memory that this machine would use here.
pub fn gather(config: &HostConfig, machine: &MachineSpec, member: MemberId, register: RegisterLook) -> LocalFacts {
    let images = machine
        .boot_files()
        .filter(|image| is_below(&image.path, &config.images))
        .filter_map(|image| Some((image.path.display().to_string(), hash_file(&image.path).ok()?)))
        .chain(firmware(&config.qemu).map(|image| (image.path, image.sha256)))
        .collect::<BTreeMap<_, _>>();
    LocalFacts {
        host: config.name.clone(),
        member,
        // Until a QEMU of this program has said it itself; see the second judgement in `standby`.
        qemu_version: String::new(),
        machines: machine_types(&config.qemu),
        accelerators: accelerators(config.qemu_user.as_ref()),
        available_bytes: stealtime_memory::usable_bytes(),
        images,
        delta: true,
        register,
        ram_blocks: None,
    }
}

/// Whether a path leads to a file in one of these folders, wherever its links lead. What is no file, such as
/// a pipe that nobody writes to, is never opened.
fn is_below(path: &Path, folders: &[PathBuf]) -> bool {
    let Ok(found) = path.canonicalize() else { return false };
    let folder_holds = |folder: &PathBuf| folder.canonicalize().is_ok_and(|folder| found.starts_with(folder));
    found.is_file() && folders.iter().any(folder_holds)
}

/// The firmware, which a guest that reboots reads again: by its name, as it may lie elsewhere on another
/// host.
pub fn firmware(qemu: &Path) -> Option<Image> {
    let path = find_firmware(qemu).ok()?;
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

fn accelerators(user: Option<&QemuUser>) -> Vec<String> {
    let mut names = vec![Accelerator::Tcg.name().to_owned()];
    // Whether it boots, the waiting QEMU will tell.
    if Rights::of(user, Accelerator::Kvm).may_use_kvm() {
        names.push(Accelerator::Kvm.name().to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_files_of_the_folders_are_read_wherever_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, outside) = (folder.path().join("images"), folder.path().join("secret"));
        fs::create_dir(&inside).unwrap();
        fs::write(&outside, "").unwrap();
        fs::write(inside.join("kernel"), "").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", inside.join("zero")).unwrap();
        let folders = [inside.clone()];
        assert!(is_below(&inside.join("kernel"), &folders));
        for path in [
            outside,
            inside.join("link"),
            inside.join("zero"),
            inside.join("../secret"),
            inside.join("nothing"),
            inside.clone(),
        ] {
            assert!(!is_below(&path, &folders), "{path:?}");
        }
        assert!(!is_below(&inside.join("kernel"), &[]));
    }
}
