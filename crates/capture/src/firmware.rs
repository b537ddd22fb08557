//! The guest's firmware: a file of QEMU's that it is given as a read-only flash chip.
//!
//! By itself QEMU copies the firmware into the RAM block `pc.bios` when the machine is reset, but not in a
//! standby: there it would come with the migration (hw/core/loader.c, `rom_reset`), of which a state of
//! `xen-save-devices-state` has nothing. The guest would go on in the standby, and hang at its next reboot. A
//! flash chip is filled from its file when it is made, on both sides.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::images::ImageError;

/// `SeaBIOS`, as QEMU takes it for these machine types.
const FILE_NAME: &str = "bios-256k.bin";

/// Find the firmware in the folders in which `program` looks for its files (`-L help`).
pub fn find_firmware(program: &Path) -> Result<PathBuf, ImageError> {
    let failed = |what: String| ImageError::Firmware { program: program.into(), what };
    let output = Command::new(program).args(["-L", "help"]).output().map_err(|error| failed(error.to_string()))?;
    let folders = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = folders.lines().map(|folder| Path::new(folder.trim()).join(FILE_NAME)).find(|path| path.is_file());
    found.ok_or_else(|| {
        failed(format!("{FILE_NAME} is in none of the folders {:?}", folders.lines().collect::<Vec<_>>()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_firmware_is_looked_for_where_the_program_says() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("qemu");
        let script = format!("#!/bin/sh\necho /nonexistent\necho {}\n", folder.path().display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let refused = find_firmware(&program).unwrap_err().to_string();
        assert!(refused.contains(FILE_NAME) && refused.contains("/nonexistent"), "{refused}");
        std::fs::write(folder.path().join(FILE_NAME), "").unwrap();
        assert_eq!(find_firmware(&program).unwrap(), folder.path().join(FILE_NAME));
    }
}
