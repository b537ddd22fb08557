//! That a host is to go down: a mark in its folder, which `stealtime protect leave` makes before any machine moves
//! (`state.py`). While it is there, no standby is let in, and what stands by already takes no guest that is offered.
//!
//! Without it two hosts that go down at the same time could move their machines to each other.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use crate::wording;

/// No machine has such a name.
const MARK: &str = ".leaving";

/// Changes with each boot of the kernel. Where it cannot be read a mark counts until it is removed.
static BOOT: LazyLock<String> =
    LazyLock::new(|| fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned());

/// Whether the host with this folder is to go down.
pub fn is_leaving(host_folder: &Path) -> bool {
    // On a full disk a mark is made all the same, and is empty.
    fs::read_to_string(host_folder.join(MARK)).is_ok_and(|boot| boot.trim().is_empty() || boot.trim() == *BOOT)
}

/// The daemon of a host begins: say whether it is still to go down, and remove a mark of before it was booted.
///
/// A daemon that ended by itself and is started anew while its host is left does not bring the host back.
pub fn come_back(name: &str, host_folder: &Path) {
    if is_leaving(host_folder) {
        wording::say(&format!("{name}: it takes no machines, as it is to go down: `stealtime protect leave --back`"));
    } else {
        let _ = fs::remove_file(host_folder.join(MARK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_left_until_its_next_boot_or_until_the_mark_is_removed() {
        let host = tempfile::tempdir().unwrap();
        let mark = host.path().join(MARK);
        assert!(!is_leaving(host.path()));
        for text in ["", &format!("{}\n", *BOOT)] {
            fs::write(&mark, text).unwrap();
            come_back("b", host.path());
            assert!(is_leaving(host.path()), "{text:?}");
            fs::remove_file(&mark).unwrap();
            assert!(!is_leaving(host.path()));
        }
        fs::write(&mark, "00000000-0000-0000-0000-000000000000\n").unwrap();
        assert!(!is_leaving(host.path()), "it was booted since");
        come_back("b", host.path());
        assert!(!mark.exists());
    }
}
