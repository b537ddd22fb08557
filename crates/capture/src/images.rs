//! Whether this host has what the specification says: the kernel, the initramfs, and QEMU's version.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::machine::{BootFile, MachineSpec};

/// Why a machine cannot be started on this host.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("the file {path} cannot be read")]
    Read { path: PathBuf, source: io::Error },
    #[error("the file {path} is not the one that the machine boots from: its SHA-256 is {found}, not {expected}")]
    Content {
        path: PathBuf,
        /// Of what is there.
        found: String,
        /// Of what should be there.
        expected: String,
    },
    #[error("the firmware of {program} cannot be found: {what}")]
    Firmware { program: PathBuf, what: String },
    #[error("the program {program} does not tell its version: {what}")]
    Program { program: PathBuf, what: String },
}

/// Check that kernel and initramfs are the files that the specification means.
pub fn verify_images(spec: &MachineSpec) -> Result<(), ImageError> {
    spec.boot_files().try_for_each(verify)
}

fn verify(image: &BootFile) -> Result<(), ImageError> {
    let failed = |source| ImageError::Read { path: image.path.clone(), source };
    let found = hash_file(&image.path).map_err(failed)?;
    if found == image.sha256.to_lowercase() {
        return Ok(());
    }
    Err(ImageError::Content { path: image.path.clone(), found, expected: image.sha256.clone() })
}

/// The SHA-256 of a file, in lower-case hexadecimal.
pub fn hash_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => digest.update(&buffer[..read]),
        }
    }
    Ok(format!("{:x}", digest.finalize()))
}

/// The first line of `program --version`: both sides of a protection must have the same.
pub fn program_version(program: &Path) -> Result<String, ImageError> {
    let failed = |what: String| ImageError::Program { program: program.into(), what };
    let output = Command::new(program).arg("--version").output().map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() && line.starts_with("QEMU") => Ok(line.to_owned()),
        _ => Err(failed(format!("{}, {:?}", output.status, text.lines().next().unwrap_or_default()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_other_content_is_refused_with_both_digests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kernel");
        std::fs::write(&path, "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let image = BootFile { path: path.clone(), sha256: sha256.into() };
        verify(&image).unwrap();
        std::fs::write(&path, "abd").unwrap();
        let refused = verify(&image).unwrap_err();
        assert!(
            matches!(&refused, ImageError::Content { expected, found, .. } if expected == sha256 && found != sha256)
        );
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(verify(&image), Err(ImageError::Read { .. })));
    }

    #[test]
    fn a_program_that_is_no_qemu_is_refused() {
        for program in ["/bin/true", "/nonexistent"] {
            assert!(matches!(program_version(Path::new(program)), Err(ImageError::Program { .. })), "{program}");
        }
    }
}
