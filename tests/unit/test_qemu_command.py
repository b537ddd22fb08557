"""Command lines of QEMU as protected machines: what is taken, replaced, dropped, and refused by name."""

import re
from pathlib import Path

import pytest
from command import make_command
from qcow2_header import qcow2_header

from stealtime.protect.qemu_command import read_command
from stealtime.protect.qemu_options import options_of, values_of
from stealtime.protect.vm_file import read_vm_file
from stealtime.vocabulary.errors import UsageError

# As `qm showcmd ID --pretty` of Proxmox VE 8 prints it for a server.
PROXMOX = """/usr/bin/kvm \\
  -id 100 \\
  -name 'Web_1,debug-threads=on' \\
  -no-shutdown \\
  -chardev 'socket,id=qmp,path=/var/run/qemu-server/100.qmp,server=on,wait=off' \\
  -mon 'chardev=qmp,mode=control' \\
  -pidfile /var/run/qemu-server/100.pid \\
  -daemonize \\
  -smbios 'type=1,uuid=0d2e3c1f-55f0-4f6a-9c0c-2f7b7e1f7a10' \\
  -smp '4,sockets=2,cores=2,maxcpus=4' \\
  -nodefaults \\
  -boot 'menu=on,strict=on,reboot-timeout=1000,splash=/usr/share/qemu-server/bootsplash.jpg' \\
  -vnc 'unix:/var/run/qemu-server/100.vnc,password=on' \\
  -cpu 'x86-64-v2-AES,enforce,+kvm_pv_eoi,+kvm_pv_unhalt' \\
  -m 2048 \\
  -object 'iothread,id=iothread-virtioscsi0' \\
  -device 'pci-bridge,id=pci.1,chassis_nr=1,bus=pci.0,addr=0x1e' \\
  -device 'vmgenid,guid=3a0f7e5e-0000-4f6a-9c0c-2f7b7e1f7a10' \\
  -device 'piix3-usb-uhci,id=uhci,bus=pci.0,addr=0x1.0x2' \\
  -device 'usb-tablet,id=tablet,bus=uhci.0,port=1' \\
  -device 'VGA,id=vga,bus=pci.0,addr=0x2' \\
  -chardev 'socket,path=/var/run/qemu-server/100.qga,server=on,wait=off,id=qga0' \\
  -device 'virtio-serial,id=qga0,bus=pci.0,addr=0x8' \\
  -device 'virtserialport,chardev=qga0,name=org.qemu.guest_agent.0' \\
  -device 'virtio-balloon-pci,id=balloon0,bus=pci.0,addr=0x3,free-page-reporting=on' \\
  -iscsi 'initiator-name=iqn.1993-08.org.debian:01:5d2f2a3c' \\
  -drive 'if=none,id=drive-ide2,media=cdrom,aio=io_uring' \\
  -device 'ide-cd,bus=ide.1,unit=0,drive=drive-ide2,id=ide2,bootindex=101' \\
  -device 'virtio-scsi-pci,id=virtioscsi0,bus=pci.3,addr=0x1,iothread=iothread-virtioscsi0' \\
  -drive 'file={image},if=none,id=drive-scsi0,format=raw,cache=none,aio=io_uring,detect-zeroes=on' \\
  -device 'scsi-hd,bus=virtioscsi0.0,channel=0,scsi-id=0,lun=0,drive=drive-scsi0,id=scsi0,bootindex=100' \\
  -netdev 'type=tap,id=net0,ifname=tap100i0,script=/var/lib/qemu-server/pve-bridge,vhost=on' \\
  -device 'virtio-net-pci,mac=BC:24:11:aa:bb:CC,netdev=net0,bus=pci.0,addr=0x12,id=net0,rx_queue_size=1024' \\
  -machine 'type=pc-i440fx-8.1+pve0'
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "vm-100-disk-0"
    path.write_bytes(bytes(4096))
    return path


def command(tmp_path: Path, image: Path, *changes: tuple[str, str]) -> Path:
    text = PROXMOX.replace("{image}", str(image))
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    path = tmp_path / "showcmd"
    path.write_text(text)
    return path


def test_a_server_of_proxmox_is_taken(tmp_path: Path, image: Path) -> None:
    imported = read_command(command(tmp_path, image), bridge="vmbr0")
    vm = imported.vm
    assert (vm.name, vm.memory_bytes, vm.vcpus, vm.accelerator) == ("web-1", 2 << 30, 4, "tcg")
    assert (vm.machine, vm.kernel, vm.initramfs) == ("pc-i440fx-8.1", "disk", None)
    assert [(disk.name, disk.path, disk.image_format, disk.bus) for disk in vm.disks] == [
        ("scsi0", image, "raw", "scsi")
    ]
    assert (vm.network.bridge, vm.mac) == ("vmbr0", "bc:24:11:aa:bb:cc")
    assert imported.remarks == [
        "replaced: the name Web_1 by web-1",
        "dropped: what the BIOS tells of the machine (-smbios)",
        "replaced: sockets, dies and threads of virtual CPUs by one socket with as many cores",
        "dropped: the order in which it boots: the first disk has the boot loader",
        "dropped: the screen (VNC, SPICE)",
        "dropped: single features of the CPU",
        "dropped: threads and limits of disks",
        "dropped: a CD-ROM drive",
        "replaced: the machine type pc-i440fx-8.1+pve0 by pc-i440fx-8.1",
        "dropped: the number of the machine's generation",
        "dropped: USB",
        "dropped: keyboard or mouse",
        "dropped: the graphics adapter",
        "dropped: a channel to an agent",
        "dropped: the balloon of memory",
        "replaced: vhost for the network card bc:24:11:aa:bb:cc by QEMU's own",
        "replaced: the CPU (x86-64-v2-AES) by QEMU's model 'max'",
    ]


def test_a_machine_can_be_kept_as_a_file(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stealtime = make_command(monkeypatch, capsys)
    source, file = f"qemu:{command(tmp_path, image)}", tmp_path / "web.toml"
    done = stealtime("protect", "describe", source, "--bridge", "vmbr0", "-o", str(file))
    assert done.code == 0, done.err
    assert "dropped: USB" in done.err
    assert file.read_text().startswith("# replaced: the name Web_1 by web-1\n# dropped: ")
    assert read_vm_file(file) == read_command(command(tmp_path, image), bridge="vmbr0").vm
    assert stealtime("protect", "describe", source, "--bridge", "vmbr0").out == file.read_text()
    again = stealtime("protect", "describe", source, "--bridge", "vmbr0", "-o", str(file))
    assert (again.code, "it is there already" in again.err) == (2, True)
    nowhere = stealtime("protect", "describe", source, "--bridge", "vmbr0", "-o", str(tmp_path / "no" / "web.toml"))
    assert nowhere.code == 1


def test_a_block_graph_ends_in_a_file(tmp_path: Path, image: Path) -> None:
    # As Proxmox VE 9 and libvirt say it.
    image.write_bytes(qcow2_header(size=1 << 30))
    graph = (
        '{"driver":"throttle","node-name":"drive-scsi0","throttle-group":"t","file":{"driver":"qcow2","file":'
        f'{{"driver":"file","filename":"{image}","node-name":"f1"}},"node-name":"q1"}}}}'
    )
    drive = f"-drive 'file={image},if=none,id=drive-scsi0,format=raw,cache=none,aio=io_uring,detect-zeroes=on'"
    imported = read_command(command(tmp_path, image, (drive, f"-blockdev '{graph}'")), bridge="br0")
    (disk,) = imported.vm.disks
    assert (disk.path, disk.image_format, disk.size_bytes) == (image, "qcow2", 1 << 30)
    assert "dropped: limits of the disk scsi0" in imported.remarks
    nodes = (
        f"-blockdev driver=file,filename={image},node-name=storage "
        "-blockdev driver=qcow2,file=storage,node-name=drive-scsi0"
    )
    (disk,) = read_command(command(tmp_path, image, (drive, nodes)), bridge="br0").vm.disks
    assert (disk.path, disk.image_format) == (image, "qcow2")
    dotted = f"-blockdev driver=qcow2,node-name=drive-scsi0,file.driver=file,file.filename={image}"
    (disk,) = read_command(command(tmp_path, image, (drive, dotted)), bridge="br0").vm.disks
    assert (disk.path, disk.image_format) == (image, "qcow2")


def test_a_kernel_and_a_simple_disk_are_taken(tmp_path: Path, image: Path) -> None:
    path = tmp_path / "run.sh"
    path.write_text(
        f"qemu-system-x86_64 -name small -enable-kvm -cpu host,migratable=on -m size=1G,slots=2,maxmem=4G -smp cpus=2 "
        f"-kernel /boot/vmlinuz --initrd /boot/initrd.img -append 'root=/dev/vda quiet' -no-reboot -nographic "
        f"-drive file={image},if=virtio,format=raw -netdev bridge,id=n,br=br7 -device virtio-net-pci,netdev=n "
        "-device virtio-rng-pci,rng=r -object rng-random,id=r,filename=/dev/urandom -watchdog-action reset"
    )
    with pytest.raises(UsageError, match=r"-watchdog-action cannot be protected: it is not known"):
        read_command(path)
    path.write_text(path.read_text().replace(" -watchdog-action reset", ""))
    vm = read_command(path).vm
    assert (vm.accelerator, vm.cpu, vm.memory_bytes, vm.vcpus) == ("kvm", "host", 1 << 30, 2)
    assert (vm.kernel, str(vm.initramfs), vm.kernel_arguments) == (
        *("/boot/vmlinuz", "/boot/initrd.img"),
        "root=/dev/vda quiet",
    )
    assert ([disk.bus for disk in vm.disks], vm.network.bridge, vm.devices) == (["virtio"], "br7", ["virtio-rng-pci"])


def test_virtual_cpus_are_counted_by_sockets_dies_cores_and_threads(tmp_path: Path, image: Path) -> None:
    path = command(tmp_path, image)
    (smp,) = re.findall(r"-smp '?[^ '\\]+'?", path.read_text())
    path.write_text(path.read_text().replace(smp, "-smp sockets=1,dies=2,cores=2,threads=1"))
    imported = read_command(path, bridge="vmbr0")
    assert imported.vm.vcpus == 4
    assert any("sockets, dies and threads" in remark for remark in imported.remarks)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("format=raw", "format=vmdk"), "of the format 'vmdk' cannot be protected: only raw and qcow2 are"),
        (("format=raw,", ""), "its format is not said"),
        (("file={image}", "file=rbd:pool/vm-100"), "at rbd:pool/vm-100 cannot be protected: only files"),
        (("format=raw,", "format=raw,readonly=on,"), "which is not written"),
        (("format=raw,", "format=raw,snapshot=on,"), "which is not written"),
        (("drive=drive-scsi0,", "drive=drive-x,"), "there is no drive 'drive-x'"),
        (("'virtio-scsi-pci,", "'lsi,"), "the device lsi cannot be protected"),
        (("'virtio-scsi-pci,", "'virtio-rng-pci,"), "on another SCSI controller"),
        (("'scsi-hd,", "'ide-hd,"), "the device ide-hd cannot be protected: disks are on virtio"),
        (("'VGA,", "'vfio-pci,host=01:00.0,"), "the device vfio-pci cannot be protected: a passed-through"),
        (("'VGA,", "'teapot,"), "the device teapot cannot be protected: it is not known"),
        (("'virtio-net-pci,", "'e1000,"), "the device e1000 cannot be protected: only a virtio network card"),
        (("type=tap,", "type=user,"), "of the type 'user' cannot be protected"),
        (("-m 2048", "-m a-lot"), "memory of a-lot cannot be protected"),
        (("4,sockets=2", "4,sockets=two"), "'two' is no number"),
        (("-no-shutdown", "-tpmdev passthrough,id=t"), "a TPM cannot be protected"),
        (("-no-shutdown", "-set device.net0.mac=1"), "values that -set gives to devices cannot be protected"),
        (("-no-shutdown", "-readconfig /etc/passwd"), "-readconfig cannot be protected"),
        (("-no-shutdown", "-teapot 1"), "-teapot cannot be protected: it is not known"),
        (("-no-shutdown", "-drive if=pflash,format=raw,file=/x"), "UEFI cannot be protected"),
        (("type=pc-i440fx", "pflash0=x,type=pc-i440fx"), "UEFI cannot be protected"),
        (("-no-shutdown", "-rtc base=localtime"), "a clock that begins at 'localtime'"),
        (("-no-shutdown", "-object sev-guest,id=s"), "an object 'sev-guest'"),
        (("-no-shutdown", "disk.img"), "'disk.img' is no option"),
        (("/usr/bin/kvm", ""), "does not begin with a program"),
        (("-no-shutdown", "-blockdev '{\"driver\"'"), "is no JSON"),
        (("-name 'Web_1,debug-threads=on'", ""), "a machine without -name"),
        (("pc-i440fx-8.1+pve0'", "pc-i440fx-8.1+pve0' -device"), "-device has no value"),
    ],
)
def test_what_cannot_be_left_out_is_refused_by_name(
    tmp_path: Path, image: Path, change: tuple[str, str], told: str
) -> None:
    before, after = (part.replace("{image}", str(image)) for part in change)
    with pytest.raises(UsageError, match=told) as refused:
        read_command(command(tmp_path, image, (before, after)), bridge="vmbr0")
    assert refused.value.hint


def test_a_bridge_is_asked_for_that_no_command_line_names(tmp_path: Path, image: Path) -> None:
    with pytest.raises(UsageError, match="which bridge of the host it joins is not said") as refused:
        read_command(command(tmp_path, image))
    assert "--bridge" in str(refused.value.hint)


def test_values_are_split_as_qemu_splits_them() -> None:
    assert values_of("guest=a,,b,debug-threads=on", "guest") == {"guest": "a,b", "debug-threads": "on"}
    assert values_of("socket,id=x,server", "backend") == {"backend": "socket", "id": "x", "server": "on"}
    assert values_of('{"driver": "raw"}', "driver") == {"driver": "raw"}
    assert list(options_of("kvm -S -name 'a b' \\\n --m 1")) == [("S", ""), ("name", "a b"), ("m", "1")]
