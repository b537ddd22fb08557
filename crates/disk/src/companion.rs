//! Files that belong to an image: they lie beside it.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The file with this ending beside an image. A link counts as what it leads to, unless that is a device: beside one
/// nothing outlives a reboot, so what belongs to it lies beside the link.
pub(crate) fn beside(image: &Path, ending: &str) -> PathBuf {
    let is_device = fs::metadata(image).is_ok_and(|found| found.file_type().is_block_device());
    let place = if is_device { None } else { image.canonicalize().ok() };
    let mut path = place.unwrap_or_else(|| image.to_owned()).into_os_string();
    path.push(ending);
    path.into()
}
