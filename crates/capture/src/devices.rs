//! Which devices a protected machine may have.
//!
//! A device is only allowed if all its state is saved with the others, it writes the guest's memory through
//! QEMU's own page tables only, and nothing leaves the guest through it. What is not known to be so is
//! refused by name.

use serde_json::{Value, json};

use crate::qmp::{Qmp, QmpError};

/// Devices that a specification may add.
pub const ALLOWED_DEVICES: &[&str] =
    &["virtio-rng-pci", "virtio-rng-pci-non-transitional", "i6300esb", "pvpanic", "pvpanic-pci"];
/// Options that a specification may give them, each a number: others name files of the host (`romfile=`) or
/// other parts of the machine.
const ALLOWED_OPTIONS: &[&str] = &["max-bytes", "period", "ioport", "events"];
/// As many as anybody has had a use for.
const DEVICES_MAX: usize = 16;
/// The one that is always there.
const NETWORK: &str = "virtio-net-pci";
/// Those of the disks of the specification, and their controller.
const DISKS: [&str; 3] = ["virtio-blk-pci", "virtio-scsi-pci", "scsi-hd"];

/// A device with which a machine is not protected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the device `{device}` cannot be protected: {reason}")]
pub struct UnsupportedDevice {
    /// Its name on QEMU's command line.
    pub device: String,
    pub reason: &'static str,
}

/// Why the devices of a running machine were not found to be in order.
#[derive(Debug, thiserror::Error)]
pub enum RunningDeviceError {
    #[error(transparent)]
    Unsupported(#[from] UnsupportedDevice),
    #[error(transparent)]
    Qmp(#[from] QmpError),
}

/// Check the devices of a specification before QEMU is started.
pub fn check_devices(devices: &[String]) -> Result<(), UnsupportedDevice> {
    if let Some(device) = devices.get(DEVICES_MAX) {
        return Err(UnsupportedDevice { device: device.clone(), reason: "a machine has 16 devices at most" });
    }
    devices.iter().try_for_each(|device| {
        let mut parts = device.split(',');
        let name = parts.next().unwrap_or_default();
        if parts.clone().any(|option| option.trim_start().starts_with("drive=")) {
            return Err(UnsupportedDevice { device: name.into(), reason: reason_against("disk") });
        }
        check_name(name)?;
        if parts.all(is_allowed_option) {
            return Ok(());
        }
        let reason = "of its options only numbers are known to be harmless: max-bytes, period, ioport, events";
        Err(UnsupportedDevice { device: device.clone(), reason })
    })
}

fn is_allowed_option(option: &str) -> bool {
    let Some((name, value)) = option.split_once('=') else { return false };
    let number = value.strip_prefix("0x").unwrap_or(value);
    ALLOWED_OPTIONS.contains(&name) && !number.is_empty() && number.chars().all(|digit| digit.is_ascii_hexdigit())
}

fn check_name(name: &str) -> Result<(), UnsupportedDevice> {
    if ALLOWED_DEVICES.contains(&name) {
        return Ok(());
    }
    Err(UnsupportedDevice { device: name.into(), reason: reason_against(name) })
}

fn reason_against(name: &str) -> &'static str {
    let has = |part: &str| name.contains(part);
    if has("vfio") {
        "a passed-through device writes memory that no page table shows, and its state stays in the hardware"
    } else if has("vhost") {
        "another process or the kernel writes the guest's memory, which is not seen"
    } else if has("blk") || has("scsi") || has("nvme") || has("disk") || has("ide-") || has("usb-storage") {
        "disks are not devices here; name them under [[disks]]"
    } else if has("net") || has("e1000") || has("rtl8139") {
        "a machine has exactly one network card, the one that is held"
    } else if has("serial") || has("console") || has("vsock") || has("fs") || has("9p") {
        "what leaves the guest through it would not be held"
    } else {
        "it is not known that all its state is saved and that nothing leaves the guest through it"
    }
}

/// Check what a running QEMU really has: the devices that were added, and no disks but those of these nodes.
pub fn check_running_devices(qmp: &mut Qmp, disk_nodes: &[String]) -> Result<(), RunningDeviceError> {
    for folder in ["/machine/peripheral", "/machine/peripheral-anon"] {
        let children = qmp.execute("qom-list", json!({"path": folder}))?;
        let names = children.as_array().into_iter().flatten().filter_map(child_type);
        // A disk counts by its image: see below.
        for name in names.filter(|name| name != NETWORK && !DISKS.contains(&name.as_str())) {
            check_name(&name)?;
        }
    }
    let drives = qmp.execute("query-block", json!({}))?;
    let is_ours = |drive: &Value| disk_nodes.iter().any(|node| drive["inserted"]["node-name"] == node.as_str());
    let foreign = |drive: &&Value| drive["inserted"]["ro"] == false && !is_ours(drive);
    let Some(drive) = drives.as_array().into_iter().flatten().find(foreign) else { return Ok(()) };
    let name = drive["device"].as_str().filter(|name| !name.is_empty()).or(drive["qdev"].as_str());
    Err(UnsupportedDevice { device: name.unwrap_or("a disk").into(), reason: reason_against("disk") }.into())
}

/// `child<virtio-net-pci>` is a device of the type `virtio-net-pci`.
fn child_type(property: &Value) -> Option<String> {
    Some(property["type"].as_str()?.strip_prefix("child<")?.strip_suffix('>')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_random_number_generator_is_allowed() {
        let devices = ["virtio-rng-pci", "virtio-rng-pci,max-bytes=1024,period=0x3e8", "pvpanic,ioport=0x505"];
        check_devices(&devices.map(String::from)).unwrap();
    }

    #[test]
    fn other_devices_are_refused_by_name_and_reason() {
        for (device, name, part) in [
            ("vfio-pci,host=01:00.0", "vfio-pci", "no page table"),
            ("vhost-user-fs-pci,chardev=x", "vhost-user-fs-pci", "another process"),
            ("virtio-blk-pci,drive=d0", "virtio-blk-pci", "disks"),
            ("virtio-rng-pci,drive=d0", "virtio-rng-pci", "disks"),
            ("nvme,serial=1", "nvme", "disks"),
            ("e1000,netdev=net0", "e1000", "exactly one network card"),
            ("virtio-serial-pci", "virtio-serial-pci", "not be held"),
            ("qxl", "qxl", "not known"),
            ("", "", "not known"),
            ("virtio-rng-pci,romfile=/etc/shadow", "virtio-rng-pci,romfile=/etc/shadow", "only numbers"),
            ("virtio-rng-pci,max-bytes=/x", "virtio-rng-pci,max-bytes=/x", "only numbers"),
            ("virtio-rng-pci,", "virtio-rng-pci,", "only numbers"),
        ] {
            let refused = check_devices(&[device.into()]).unwrap_err();
            assert_eq!(refused.device, name);
            assert!(refused.reason.contains(part), "{device}: {refused}");
        }
    }

    #[test]
    fn more_devices_than_anybody_needs_are_refused() {
        check_devices(&vec!["pvpanic".into(); DEVICES_MAX]).unwrap();
        let refused = check_devices(&vec!["pvpanic".into(); DEVICES_MAX + 1]).unwrap_err();
        assert!(refused.reason.contains("16"), "{refused}");
    }

    #[test]
    fn the_type_of_a_running_device_is_read() {
        assert_eq!(child_type(&json!({"name": "device[0]", "type": "child<vfio-pci>"})).as_deref(), Some("vfio-pci"));
        assert_eq!(child_type(&json!({"name": "type", "type": "string"})), None);
    }
}
