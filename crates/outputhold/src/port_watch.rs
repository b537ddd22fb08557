//! Whether the guest's port still leads to the network: somebody may take it away, or its bridge, while the guest runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::sys;

const SYSFS: &str = "/sys/class/net";

/// `BR_STATE_FORWARDING` of `linux/if_bridge.h`.
const FORWARDING: u64 = 3;

/// The kernel's link watch sees a new port within a second, and only then the bridge forwards to it.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// Of what a bridge tells of its times (`USER_HZ`).
const TICK: Duration = Duration::from_millis(10);

/// `IFF_NOARP` of `linux/if.h`.
const SPEAKS_NO_ARP: u64 = 0x80;

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
    #[error("the bridge {bridge} does not forward what comes from the TAP {tap} (hint: bridge link show dev {tap})")]
    NotForwarding { tap: String, bridge: String },
    #[error("no port of the bridge {0} has a carrier, other than those of guests")]
    NoCarrier(String),
    #[error("the bridge {0} has no ports any more, other than those of guests (hint: ip link set DEVICE master {0})")]
    WayOutGone(String),
    #[error("its TAP was deleted, and another interface has that name")]
    TapLost,
    #[error("what it sends cannot be read any more")]
    OutputBroken,
    #[error("the relay of its network has ended")]
    RelayEnded,
}

impl PortFault {
    /// Whether only another member can have a port again, as nobody can give this one its TAP back.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        matches!(self, Self::TapGone(_) | Self::TapLost | Self::OutputBroken | Self::RelayEnded)
    }
}

/// Looks at a port from time to time.
#[derive(Debug)]
pub struct PortWatch {
    tap: String,
    bridge: Option<String>,
    sysfs: PathBuf,
    /// A bridge without a way out is as its owner wants it, until it had one.
    had_way_out: bool,
    /// Says so to whoever looks at this bridge after us.
    note: Option<PathBuf>,
    /// Since when the bridge does not forward for the TAP.
    held_up_since: Option<Instant>,
}

impl PortWatch {
    /// Watch a TAP of this name, and the bridge that it is a port of.
    ///
    /// Which bridges had a way out is noted in `notes`: who stands by in this place next is to know of one that has
    /// lost it before.
    #[must_use]
    pub fn new(tap: &str, bridge: Option<&str>, notes: &Path) -> Self {
        let note = bridge.map(|bridge| notes.join(format!(".way-out-{bridge}")));
        Self {
            tap: tap.to_owned(),
            bridge: bridge.map(str::to_owned),
            sysfs: SYSFS.into(),
            had_way_out: note.as_deref().is_some_and(Path::exists),
            note,
            held_up_since: None,
        }
    }

    /// What is wrong now, if anything. What cannot be looked at is not wrong.
    pub fn look(&mut self) -> Option<PortFault> {
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> Option<PortFault> {
        let of_tap = look_whether_up(&self.tap, PortFault::TapGone, PortFault::TapDown);
        if of_tap.is_some() {
            return of_tap;
        }
        let bridge = self.bridge.clone()?;
        look_whether_up(&bridge, PortFault::BridgeGone, PortFault::BridgeDown)
            .or_else(|| self.look_at_bridge(&bridge, now))
    }

    /// By sysfs, which shows the interfaces of the network namespace that it was mounted in: those of another one have
    /// no files there.
    fn look_at_bridge(&mut self, bridge: &str, now: Instant) -> Option<PortFault> {
        let ports = self.sysfs.join(bridge).join("brif");
        if !self.sysfs.join(&self.tap).exists() || !ports.is_dir() {
            return None;
        }
        if !ports.join(&self.tap).exists() {
            return Some(PortFault::Removed { tap: self.tap.clone(), bridge: bridge.to_owned() });
        }
        self.look_at_state(bridge, now).or_else(|| self.look_for_way_out(&ports, bridge))
    }

    /// A spanning tree, or somebody, may keep the bridge from forwarding; a new port waits for a while.
    fn look_at_state(&mut self, bridge: &str, now: Instant) -> Option<PortFault> {
        let state = number_in(&self.sysfs.join(&self.tap).join("brport/state"))?;
        if state == FORWARDING {
            self.held_up_since = None;
            return None;
        }
        let since = *self.held_up_since.get_or_insert(now);
        let is_late = now >= since + forwards_within(&self.sysfs.join(bridge).join("bridge"));
        is_late.then(|| PortFault::NotForwarding { tap: self.tap.clone(), bridge: bridge.to_owned() })
    }

    fn look_for_way_out(&mut self, ports: &Path, bridge: &str) -> Option<PortFault> {
        let ports = fs::read_dir(ports).ok()?.filter_map(Result::ok).map(|entry| self.sysfs.join(entry.file_name()));
        let ways_out: Vec<PathBuf> = ports.filter(|port| may_lead_out(port)).collect();
        if ways_out.iter().any(|port| number_in(&port.join("carrier")) == Some(1)) {
            self.note_way_out();
            return None;
        }
        if !ways_out.is_empty() {
            return Some(PortFault::NoCarrier(bridge.to_owned()));
        }
        self.had_way_out.then(|| PortFault::WayOutGone(bridge.to_owned()))
    }

    fn note_way_out(&mut self) {
        if std::mem::replace(&mut self.had_way_out, true) {
            return;
        }
        if let Some(note) = &self.note {
            // Without it this one knows all the same.
            let _ = fs::write(note, "");
        }
    }
}

/// How long a bridge may take to forward to a new port: with a spanning tree it listens, then learns.
fn forwards_within(bridge: &Path) -> Duration {
    let ticks = number_in(&bridge.join("forward_delay")).unwrap_or(0);
    let has_tree = number_in(&bridge.join("stp_state")).is_some_and(|state| state != 0);
    let tree = TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)).saturating_mul(2);
    SEEN_WITHIN + if has_tree { tree } else { Duration::ZERO }
}

/// Whether frames may leave a host by a port: a device, what stands on one (a bond, a VLAN), or one end of a veth. Not
/// the TAP of a guest, nor a `dummy` or `ifb`, which have a carrier and lead nowhere: they speak no ARP.
fn may_lead_out(port: &Path) -> bool {
    let speaks_arp = || number_in(&port.join("flags")).is_none_or(|flags| flags & SPEAKS_NO_ARP == 0);
    !port.join("tun_flags").exists() && (speaks_arp() || port.join("device").exists() || stands_on_another(port))
}

fn stands_on_another(port: &Path) -> bool {
    let mut entries = fs::read_dir(port).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().to_string_lossy().starts_with("lower_"))
}

/// The number in a file of sysfs. An interface that is not in use has no carrier to read.
fn number_in(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn look_whether_up(name: &str, gone: fn(String) -> PortFault, down: fn(String) -> PortFault) -> Option<PortFault> {
    match sys::is_up(name) {
        Ok(true) => None,
        Ok(false) => Some(down(name.to_owned())),
        Err(error) => (error.raw_os_error() == Some(libc::ENODEV)).then(|| gone(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn interface(sysfs: &Path, name: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            let path = sysfs.join(name).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    /// A bridge `lo` (which is up everywhere) with a TAP, which is `lo` too for the look at what is up; with a device
    /// that leads out, and the TAP of another guest.
    struct Host {
        sysfs: TempDir,
        notes: TempDir,
    }

    impl Host {
        fn new() -> Self {
            let host = Self { sysfs: tempfile::tempdir().unwrap(), notes: tempfile::tempdir().unwrap() };
            for port in ["lo", "eth0", "stt1"] {
                host.add_port(port);
            }
            let sysfs = host.sysfs.path();
            interface(sysfs, "eth0", &[("carrier", "1\n"), ("flags", "0x1003\n"), ("device/vendor", "")]);
            interface(sysfs, "stt1", &[("carrier", "1\n"), ("flags", "0x1003\n"), ("tun_flags", "0x1002\n")]);
            interface(sysfs, "lo", &[("carrier", "1\n"), ("tun_flags", "0x1002\n"), ("brport/state", "3\n")]);
            interface(sysfs, "lo", &[("bridge/stp_state", "0\n"), ("bridge/forward_delay", "1500\n")]);
            host
        }

        fn add_port(&self, port: &str) {
            fs::create_dir_all(self.sysfs.path().join("lo/brif").join(port)).unwrap();
        }

        fn take_port(&self, port: &str) {
            fs::remove_dir(self.sysfs.path().join("lo/brif").join(port)).unwrap();
        }

        fn says(&self, file: &str, text: &str) {
            fs::write(self.sysfs.path().join(file), text).unwrap();
        }

        /// As a new member watches it.
        fn watch(&self) -> PortWatch {
            let watch = PortWatch::new("lo", Some("lo"), self.notes.path());
            PortWatch { sysfs: self.sysfs.path().to_owned(), ..watch }
        }
    }

    fn bridge() -> String {
        "lo".to_owned()
    }

    #[test]
    fn what_is_not_there_is_named() {
        let notes = tempfile::tempdir().unwrap();
        let gone = PortWatch::new("stt-nowhere", None, notes.path()).look();
        assert_eq!(gone, Some(PortFault::TapGone("stt-nowhere".to_owned())));
        let gone = PortWatch::new("lo", Some("br-nowhere"), notes.path()).look();
        assert_eq!(gone, Some(PortFault::BridgeGone("br-nowhere".to_owned())));
    }

    #[test]
    fn a_carrier_that_is_lost_is_a_fault_for_a_member_that_never_saw_it_too() {
        let host = Host::new();
        let mut watch = host.watch();
        assert_eq!(watch.look(), None);
        host.says("eth0/carrier", "0\n");
        assert_eq!(watch.look(), Some(PortFault::NoCarrier(bridge())));
        assert_eq!(host.watch().look(), Some(PortFault::NoCarrier(bridge())), "of a standby that came later");
        fs::remove_file(host.sysfs.path().join("eth0/carrier")).unwrap();
        assert!(watch.look().is_some(), "it is out of use");
        host.says("eth0/carrier", "1\n");
        assert_eq!(watch.look(), None);
    }

    #[test]
    fn any_kind_of_way_out_is_one() {
        let host = Host::new();
        for (files, leads_out) in [
            (vec![("flags", "0x1003\n")], true),
            (vec![("flags", "0x83\n")], false),
            (vec![("flags", "0x83\n"), ("device/vendor", "")], true),
            (vec![("flags", "0x83\n"), ("lower_eth1/mtu", "")], true),
            (vec![("flags", "0x1003\n"), ("tun_flags", "0x1002\n")], false),
        ] {
            host.says("eth0/carrier", "0\n");
            host.add_port("other");
            interface(host.sysfs.path(), "other", &[("carrier", "1\n")]);
            interface(host.sysfs.path(), "other", &files);
            assert_eq!(host.watch().look().is_none(), leads_out, "{files:?}");
            fs::remove_dir_all(host.sysfs.path().join("other")).unwrap();
            host.take_port("other");
        }
    }

    #[test]
    fn a_bridge_of_guests_alone_is_as_it_should_be_until_it_had_a_way_out() {
        let host = Host::new();
        host.take_port("eth0");
        assert_eq!(host.watch().look(), None);
        host.add_port("eth0");
        let mut watch = host.watch();
        assert_eq!(watch.look(), None);
        host.take_port("eth0");
        assert_eq!(watch.look(), Some(PortFault::WayOutGone(bridge())));
        assert_eq!(host.watch().look(), Some(PortFault::WayOutGone(bridge())), "of a standby that came later");
    }

    #[test]
    fn a_port_that_was_taken_out_of_its_bridge_is_a_fault() {
        let host = Host::new();
        host.take_port("lo");
        assert!(matches!(host.watch().look(), Some(PortFault::Removed { .. })));
    }

    #[test]
    fn a_port_that_is_not_forwarded_for_is_a_fault_once_the_bridge_had_its_time() {
        let host = Host::new();
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        for (has_tree, patience_s) in [("0\n", 2), ("1\n", 32)] {
            host.says("lo/bridge/stp_state", has_tree);
            let mut watch = host.watch();
            host.says("lo/brport/state", "0\n");
            assert_eq!(watch.look_at(began), None, "a new port");
            assert_eq!(watch.look_at(after(patience_s - 1)), None);
            assert!(matches!(watch.look_at(after(patience_s)), Some(PortFault::NotForwarding { .. })));
            host.says("lo/brport/state", "3\n");
            assert_eq!(watch.look_at(after(patience_s)), None);
            host.says("lo/brport/state", "4\n");
            assert_eq!(watch.look_at(after(patience_s)), None, "its time begins anew");
        }
    }
}
