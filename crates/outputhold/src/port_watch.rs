//! Whether the guest's port still leads to the network: somebody may take it away, or its bridge, while the guest runs.

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::sys;

const SYSFS: &str = "/sys/class/net";

/// Why what the guest sends reaches nobody.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PortFault {
    #[error("there is no TAP {0} any more")]
    TapGone(String),
    #[error("the TAP {0} was taken out of use (hint: ip link set {0} up)")]
    TapDown(String),
    #[error("there is no bridge {0} any more")]
    BridgeGone(String),
    #[error("the bridge {0} was taken out of use (hint: ip link set {0} up)")]
    BridgeDown(String),
    #[error("the TAP {tap} is no port of the bridge {bridge} any more (hint: ip link set {tap} master {bridge})")]
    Removed { tap: String, bridge: String },
    #[error("no port of the bridge {0} has a carrier any more, other than those of guests")]
    NoCarrier(String),
}

/// Looks at a port from time to time.
#[derive(Debug)]
pub struct PortWatch {
    tap: String,
    bridge: Option<String>,
    sysfs: PathBuf,
    /// A bridge without a way out is as its owner wants it, until it had one.
    had_carrier: bool,
}

impl PortWatch {
    /// Watch a TAP of this name, and the bridge that it is a port of.
    #[must_use]
    pub fn new(tap: &str, bridge: Option<&str>) -> Self {
        Self { tap: tap.to_owned(), bridge: bridge.map(str::to_owned), sysfs: SYSFS.into(), had_carrier: false }
    }

    /// What is wrong now, if anything. What cannot be looked at is not wrong.
    pub fn look(&mut self) -> Option<PortFault> {
        let of_tap = look_at(&self.tap, PortFault::TapGone, PortFault::TapDown);
        if of_tap.is_some() {
            return of_tap;
        }
        let bridge = self.bridge.clone()?;
        look_at(&bridge, PortFault::BridgeGone, PortFault::BridgeDown).or_else(|| self.look_at_ports(&bridge))
    }

    /// By sysfs, which shows the interfaces of the network namespace that it was mounted in: those of another one have
    /// no files there.
    fn look_at_ports(&mut self, bridge: &str) -> Option<PortFault> {
        let ports = self.sysfs.join(bridge).join("brif");
        if !self.sysfs.join(&self.tap).exists() || !ports.is_dir() {
            return None;
        }
        if !ports.join(&self.tap).exists() {
            return Some(PortFault::Removed { tap: self.tap.clone(), bridge: bridge.to_owned() });
        }
        let names = fs::read_dir(&ports).ok()?.filter_map(Result::ok).map(|entry| self.sysfs.join(entry.file_name()));
        let has_carrier = names.filter(|port| !port.join("tun_flags").exists()).any(|port| carrier_of(&port));
        let lost = self.had_carrier && !has_carrier;
        self.had_carrier |= has_carrier;
        lost.then(|| PortFault::NoCarrier(bridge.to_owned()))
    }
}

/// An interface that is not in use has no file to read.
fn carrier_of(port: &Path) -> bool {
    fs::read_to_string(port.join("carrier")).is_ok_and(|text| text.trim() == "1")
}

fn look_at(name: &str, gone: fn(String) -> PortFault, down: fn(String) -> PortFault) -> Option<PortFault> {
    match sys::is_up(name) {
        Ok(true) => None,
        Ok(false) => Some(down(name.to_owned())),
        Err(error) => (error.raw_os_error() == Some(libc::ENODEV)).then(|| gone(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(sysfs: &Path, name: &str, files: &[(&str, &str)]) {
        fs::create_dir_all(sysfs.join(name)).unwrap();
        for (file, text) in files {
            fs::write(sysfs.join(name).join(file), text).unwrap();
        }
    }

    /// A bridge `lo` (which is up everywhere) with a TAP, which is `lo` too for the look at what is up.
    fn watch(sysfs: &Path) -> PortWatch {
        for port in ["lo", "eth0", "stt1"] {
            fs::create_dir_all(sysfs.join("lo/brif").join(port)).unwrap();
        }
        interface(sysfs, "eth0", &[("carrier", "1\n")]);
        interface(sysfs, "stt1", &[("carrier", "1\n"), ("tun_flags", "0x1002\n")]);
        interface(sysfs, "lo", &[("carrier", "1\n"), ("tun_flags", "0x1002\n")]);
        PortWatch { sysfs: sysfs.to_owned(), ..PortWatch::new("lo", Some("lo")) }
    }

    #[test]
    fn what_is_not_there_is_named() {
        let gone = PortWatch::new("stt-nowhere", None).look();
        assert_eq!(gone, Some(PortFault::TapGone("stt-nowhere".to_owned())));
        let gone = PortWatch::new("lo", Some("br-nowhere")).look();
        assert_eq!(gone, Some(PortFault::BridgeGone("br-nowhere".to_owned())));
    }

    #[test]
    fn a_carrier_that_was_there_and_is_lost_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = watch(folder.path());
        assert_eq!(watch.look(), None);
        fs::write(folder.path().join("eth0/carrier"), "0\n").unwrap();
        assert_eq!(watch.look(), Some(PortFault::NoCarrier("lo".to_owned())));
        fs::remove_file(folder.path().join("eth0/carrier")).unwrap();
        assert!(watch.look().is_some(), "it is out of use");
        fs::write(folder.path().join("eth0/carrier"), "1\n").unwrap();
        assert_eq!(watch.look(), None);
    }

    #[test]
    fn a_bridge_that_never_had_a_way_out_is_as_it_should_be() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = watch(folder.path());
        fs::write(folder.path().join("eth0/carrier"), "0\n").unwrap();
        assert_eq!(watch.look(), None);
    }

    #[test]
    fn a_port_that_was_taken_out_of_its_bridge_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = watch(folder.path());
        fs::remove_dir(folder.path().join("lo/brif/lo")).unwrap();
        assert!(matches!(watch.look(), Some(PortFault::Removed { .. })));
    }
}
