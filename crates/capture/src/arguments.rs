//! QEMU's command line.

use std::ffi::OsString;
use std::os::fd::RawFd;

use crate::lent::path_of;
use crate::machine::{Accelerator, DiskBus, DiskSpec, MachineSpec, Virtio};

/// Whether the guest boots or waits for a state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Fresh,
    /// It is paused until a saved state is loaded into it.
    Standby,
    /// As one that stands by, but it shows the memory of another one, and writes to copies of its own.
    Trial,
}

impl Role {
    pub(crate) fn waits_for_a_state(self) -> bool {
        self != Self::Fresh
    }
}

/// The descriptors that QEMU inherits, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherited {
    pub ram: RawFd,
    /// QMP: a connected stream socket.
    pub qmp: RawFd,
    /// The network: a connected stream socket; frames have a length of 4 bytes before them.
    pub netdev: RawFd,
    /// NBD servers, one for each disk: connected stream sockets.
    pub disks: Vec<RawFd>,
    /// The guest's serial console: a connected stream socket.
    pub console: RawFd,
    pub firmware: RawFd,
    pub kernel: Option<RawFd>,
    pub initramfs: Option<RawFd>,
}

/// Give QEMU's arguments.
///
/// - Nothing that is not named here exists (`-nodefaults`, `-no-user-config`, no display, no option ROM of
///   the network card): each further device would be state, and each further RAM block would be lost.
/// - `migration.send-configuration=off`: a state of `xen-save-devices-state` has no configuration section,
///   and loading it would be refused ("Configuration section missing").
/// - `suppress-vmdesc=on`: such a state has no description either, which loading would complain about.
/// - The firmware is a read-only flash chip: else a standby would be without it.
/// - The name of the memory, `pc.ram`, is the one that these machine types use by themselves.
/// - `vmport=off`: the mouse of another maker's hypervisor behind that port would be 4 KB of state.
/// - All files are descriptors: as another user than this process QEMU may open few by itself.
/// - `-sandbox`: nothing that QEMU does for such a guest needs another program, other privileges or old
///   system calls; who breaks out of the guest has none of them either (seccomp(2)). A QEMU that was built
///   without it says so and ends.
/// - The network is the only way out of the guest: the console goes to this process, which keeps it in a
///   file, and is held by nothing.
/// - `clock=host`, which is also what QEMU does by itself: the guest's real-time clock goes on while the
///   guest is stopped, and goes by the wall clock of whichever host it runs on. A guest can keep its own
///   clock with it.
/// - A disk is an export of this process, which has the image. What QEMU could not write it tells the guest,
///   and does not stop it. The geometry is given, for which QEMU would else read the disk: a standby's may not
///   have its content yet. A trial has a disk of the same size that holds nothing.
/// - `panic=none`: a guest whose kernel panics does about it what it was told to (a dump, a reboot). By
///   itself QEMU would end, as if the guest had powered off.
pub fn arguments(spec: &MachineSpec, inherited: &Inherited, role: Role) -> Vec<OsString> {
    let &Inherited { ram, qmp, netdev, console, .. } = inherited;
    let file = |number| path_of(number).into_os_string();
    let accelerator = match spec.accelerator {
        Accelerator::Tcg => "tcg",
        Accelerator::Kvm => "kvm",
    };
    let mut firmware = OsString::from("driver=file,node-name=firmware,read-only=on,filename=");
    firmware.push(file(inherited.firmware));
    let memory_bytes = spec.memory_bytes;
    let mut list: Vec<OsString> = Vec::new();
    let mut add = |option: &str, value: OsString| list.extend([option.into(), value]);
    add("-name", format!("guest={},debug-threads=on", spec.name.replace(',', ",,")).into());
    add("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny".into());
    add(
        "-machine",
        format!("{},memory-backend=pc.ram,pflash0=firmware,suppress-vmdesc=on,vmport=off", spec.machine).into(),
    );
    add("-accel", accelerator.into());
    add("-cpu", spec.cpu.clone().into());
    add("-smp", format!("cpus={0},sockets=1,cores={0},threads=1", spec.vcpus).into());
    add("-m", format!("size={memory_bytes}B").into());
    let share = if role == Role::Trial { "off" } else { "on" };
    let mut memory = OsString::from("memory-backend-file,id=pc.ram,mem-path=");
    memory.push(file(ram));
    memory.push(format!(",size={memory_bytes}B,share={share}"));
    add("-object", memory);
    add("-blockdev", firmware);
    add("-global", "migration.send-configuration=off".into());
    add("-rtc", "base=utc,clock=host".into());
    add("-action", "panic=none".into());
    add("-display", "none".into());
    add("-vga", "none".into());
    add("-chardev", format!("socket,id=console,fd={console}").into());
    add("-serial", "chardev:console".into());
    add("-chardev", format!("socket,id=qmp,fd={qmp}").into());
    add("-mon", "chardev=qmp,mode=control".into());
    add("-netdev", format!("stream,id=net0,server=off,addr.type=fd,addr.str={netdev}").into());
    // Of each device by itself: QEMU 11 knows the property of these types alone.
    let legacy = if spec.virtio == Virtio::Legacy { ",disable-modern=on" } else { "" };
    add("-device", format!("virtio-net-pci,id=nic0,netdev=net0,mac={},romfile={legacy}", spec.mac).into());
    for (number, (disk, socket)) in spec.disks.iter().zip(&inherited.disks).enumerate() {
        let node = disk_node(&disk.name);
        let backend = if role == Role::Trial {
            format!("driver=null-co,node-name={node},size={},read-zeroes=on", disk.bytes)
        } else {
            format!("driver=nbd,node-name={node},server.type=fd,server.str={socket},discard=unmap")
        };
        add("-blockdev", backend.into());
        // A kernel that is given is the first to be booted.
        let order = if spec.kernel.is_none() { format!(",bootindex={number}") } else { String::new() };
        let (name, cylinders) = (&disk.name, cylinders(disk));
        let device = match disk.bus {
            DiskBus::Virtio => format!("virtio-blk-pci{legacy}"),
            DiskBus::Scsi => {
                if !spec.disks[..number].iter().any(|other| other.bus == DiskBus::Scsi) {
                    add("-device", format!("virtio-scsi-pci,id=scsi{legacy}").into());
                }
                format!("scsi-hd,bus=scsi.0,channel=0,scsi-id=0,lun={number}")
            }
        };
        add(
            "-device",
            format!(
                "{device},drive={node}{order},serial={name},werror=report,rerror=report,cyls={cylinders},\
                 heads={HEADS},secs={SECTORS}"
            )
            .into(),
        );
    }
    for device in &spec.devices {
        let is_either = device.starts_with("virtio-") && !device.contains("transitional");
        add("-device", format!("{device}{}", if is_either { legacy } else { "" }).into());
    }
    if let Some(kernel) = inherited.kernel {
        add("-kernel", file(kernel));
        add("-append", spec.kernel_arguments.clone().into());
    }
    if let Some(initramfs) = inherited.initramfs {
        add("-initrd", file(initramfs));
    }
    list.extend(["-nodefaults", "-no-user-config"].map(OsString::from));
    // Also a fresh guest waits: until it was checked and the other side of its network is there.
    list.push("-S".into());
    if role.waits_for_a_state() {
        list.extend(["-incoming", "defer"].map(OsString::from));
    }
    list
}

/// QEMU's name for the image of a disk.
pub(crate) fn disk_node(name: &str) -> String {
    format!("disk-{name}")
}

const HEADS: u64 = 16;
const SECTORS: u64 = 63;
/// What ATA has a word for; larger disks go by their size.
const CYLINDERS_MAX: u64 = 16383;

fn cylinders(disk: &DiskSpec) -> u64 {
    (disk.bytes / (512 * HEADS * SECTORS)).clamp(1, CYLINDERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::BootFile;

    fn given(accelerator: Accelerator, role: Role) -> Vec<String> {
        let file = |path: &str| BootFile { path: path.into(), sha256: String::new() };
        let spec = MachineSpec {
            name: "a,b".into(),
            accelerator,
            machine: "pc-i440fx-7.2".into(),
            cpu: "max".into(),
            vcpus: 2,
            memory_bytes: 128 << 20,
            kernel: Some(file("/boot/kernel")),
            initramfs: Some(file("/boot/initramfs")),
            kernel_arguments: "console=ttyS0 quiet".into(),
            mac: "52:54:00:00:00:01".into(),
            virtio: Virtio::Legacy,
            devices: vec!["virtio-rng-pci".into()],
            disks: vec![DiskSpec { name: "root".into(), bytes: 1 << 30, bus: DiskBus::Virtio }],
        };
        let inherited = Inherited {
            ram: 10,
            qmp: 11,
            netdev: 12,
            disks: vec![17],
            console: 13,
            firmware: 14,
            kernel: Some(15),
            initramfs: Some(16),
        };
        arguments(&spec, &inherited, role).into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn a_fresh_guest_is_given_all_that_it_has() {
        let expected = "-name guest=a,,b,debug-threads=on \
            -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny \
            -machine pc-i440fx-7.2,memory-backend=pc.ram,pflash0=firmware,suppress-vmdesc=on,vmport=off \
            -accel tcg -cpu max -smp cpus=2,sockets=1,cores=2,threads=1 -m size=134217728B \
            -object memory-backend-file,id=pc.ram,mem-path=/proc/self/fd/10,size=134217728B,share=on \
            -blockdev driver=file,node-name=firmware,read-only=on,filename=/proc/self/fd/14 \
            -global migration.send-configuration=off \
            -rtc base=utc,clock=host -action panic=none -display none -vga none \
            -chardev socket,id=console,fd=13 -serial chardev:console \
            -chardev socket,id=qmp,fd=11 -mon chardev=qmp,mode=control \
            -netdev stream,id=net0,server=off,addr.type=fd,addr.str=12 \
            -device virtio-net-pci,id=nic0,netdev=net0,mac=52:54:00:00:00:01,romfile=,disable-modern=on \
            -blockdev driver=nbd,node-name=disk-root,server.type=fd,server.str=17,discard=unmap \
            -device virtio-blk-pci,disable-modern=on,drive=disk-root,serial=root,werror=report,rerror=report,cyls=2080,heads=16,secs=63 \
            -device virtio-rng-pci,disable-modern=on \
            -kernel /proc/self/fd/15";
        let mut expected: Vec<&str> = expected.split_whitespace().collect();
        expected.extend(["-append", "console=ttyS0 quiet", "-initrd", "/proc/self/fd/16"]);
        expected.extend(["-nodefaults", "-no-user-config", "-S"]);
        assert_eq!(given(Accelerator::Tcg, Role::Fresh), expected);
    }

    #[test]
    fn a_standby_differs_only_by_waiting_for_a_state() {
        for accelerator in [Accelerator::Tcg, Accelerator::Kvm] {
            let mut expected = given(accelerator, Role::Fresh);
            expected.extend(["-incoming".into(), "defer".into()]);
            assert_eq!(given(accelerator, Role::Standby), expected);
        }
    }

    #[test]
    fn a_trial_differs_from_a_standby_only_by_writing_neither_memory_nor_disk() {
        let trial = given(Accelerator::Tcg, Role::Trial);
        let standby = given(Accelerator::Tcg, Role::Standby);
        let disk = "driver=nbd,node-name=disk-root,server.type=fd,server.str=17,discard=unmap";
        let nothing = "driver=null-co,node-name=disk-root,size=1073741824,read-zeroes=on";
        let change = |argument: &String| argument.replace("share=on", "share=off").replace(disk, nothing);
        let expected: Vec<String> = standby.iter().map(change).collect();
        assert_ne!(trial, standby);
        assert_eq!(trial, expected);
    }

    #[test]
    fn a_machine_without_a_kernel_boots_from_its_first_disk() {
        let spec = MachineSpec {
            kernel: None,
            initramfs: None,
            kernel_arguments: String::new(),
            disks: [("root", DiskBus::Virtio), ("data", DiskBus::Scsi), ("more", DiskBus::Scsi)]
                .map(|(name, bus)| DiskSpec { name: name.into(), bytes: 1 << 30, bus })
                .to_vec(),
            ..crate::machine::tests::machine()
        };
        spec.check().unwrap();
        let inherited = Inherited {
            ram: 10,
            qmp: 11,
            netdev: 12,
            disks: vec![15, 16, 17],
            console: 13,
            firmware: 14,
            kernel: None,
            initramfs: None,
        };
        let given = arguments(&spec, &inherited, Role::Fresh);
        let given: Vec<String> = given.into_iter().map(|argument| argument.into_string().unwrap()).collect();
        let order: Vec<&String> = given.iter().filter(|argument| argument.contains("bootindex=")).collect();
        assert!(order[0].contains("drive=disk-root,bootindex=0"), "{order:?}");
        assert!(order[1].contains("drive=disk-data,bootindex=1") && order.len() == 3, "{order:?}");
        assert!(order[2].starts_with("scsi-hd,bus=scsi.0,channel=0,scsi-id=0,lun=2,drive=disk-more"), "{order:?}");
        let controllers = given.iter().filter(|argument| argument.starts_with("virtio-scsi-pci")).count();
        assert_eq!(controllers, 1);
        assert!(!given.iter().any(|argument| ["-kernel", "-initrd", "-append"].contains(&argument.as_str())));
    }

    #[test]
    fn kvm_is_asked_for_by_name_alone() {
        let tcg = given(Accelerator::Tcg, Role::Fresh);
        let kvm = given(Accelerator::Kvm, Role::Fresh);
        let differing: Vec<(&String, &String)> = tcg.iter().zip(&kvm).filter(|(tcg, kvm)| tcg != kvm).collect();
        assert_eq!(differing, [(&"tcg".to_owned(), &"kvm".to_owned())]);
        assert_eq!(tcg.len(), kvm.len());
    }
}
