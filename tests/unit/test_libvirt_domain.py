"""Domains of libvirt as protected machines: what is taken, replaced, dropped, and refused by name."""

from pathlib import Path

import pytest
from qcow2_header import qcow2_header

from stealtime.protect.libvirt_domain import read_domain
from stealtime.vocabulary.errors import UsageError

# As virt-install writes it for a server (Debian 12: libvirt 9.0), shortened where nothing is to be seen.
DOMAIN = """<domain type='kvm'>
  <name>Web_Server.1</name>
  <uuid>5b2e6c1e-9c0c-4e6e-8d2c-1f2a3b4c5d6e</uuid>
  <metadata>
    <libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">
      <libosinfo:os id="http://debian.org/debian/12"/>
    </libosinfo:libosinfo>
  </metadata>
  <memory unit='KiB'>1048576</memory>
  <currentMemory unit='KiB'>524288</currentMemory>
  <vcpu placement='static'>2</vcpu>
  <cputune><shares>512</shares></cputune>
  <os><type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/><hyperv><relaxed state='on'/></hyperv></features>
  <cpu mode='host-passthrough' check='none' migratable='on'/>
  <clock offset='utc'><timer name='rtc' tickpolicy='catchup'/></clock>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='none' discard='unmap'/>
      <source file='{image}'/>
      <backingStore/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <disk type='file' device='cdrom'><target dev='hda' bus='ide'/><readonly/></disk>
    <controller type='usb' index='0' model='piix3-uhci'/>
    <controller type='pci' index='0' model='pci-root'/>
    <interface type='bridge'>
      <mac address='52:54:00:aa:bb:cc'/>
      <source bridge='br0'/>
      <model type='virtio'/>
    </interface>
    <serial type='pty'><target port='0'/></serial>
    <console type='pty'><target type='serial' port='0'/></console>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <input type='mouse' bus='ps2'/>
    <input type='keyboard' bus='ps2'/>
    <graphics type='vnc' port='-1' autoport='yes'/>
    <video><model type='vga'/></video>
    <memballoon model='virtio'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <watchdog model='i6300esb' action='reset'/>
    <panic model='isa'/>
  </devices>
</domain>
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "web.raw"
    path.write_bytes(bytes(4096))
    return path


def domain(tmp_path: Path, image: Path, *changes: tuple[str, str]) -> Path:
    text = DOMAIN.replace("{image}", str(image))
    for before, after in changes:
        assert before in text, before
        text = text.replace(before, after)
    path = tmp_path / "web.xml"
    path.write_text(text)
    return path


def test_a_server_of_virt_install_is_taken(tmp_path: Path, image: Path) -> None:
    imported = read_domain(domain(tmp_path, image))
    vm = imported.vm
    assert (vm.name, vm.memory_bytes, vm.vcpus, vm.accelerator) == ("web-server-1", 1 << 30, 2, "kvm")
    assert (vm.machine, vm.kernel, vm.initramfs, vm.cpu) == ("pc-i440fx-7.2", "disk", None, "host")
    assert [(disk.name, disk.path) for disk in vm.disks] == [("vda", image)]
    assert (vm.network.bridge, vm.mac) == ("br0", "52:54:00:aa:bb:cc")
    assert vm.devices == ["virtio-rng-pci", "i6300esb", "pvpanic"]
    assert imported.remarks == [
        "replaced: the name Web_Server.1 by web-server-1",
        "dropped: a smaller current memory: the guest has all of its memory",
        "dropped: where virtual CPUs run, and their shares",
        "replaced: the CPU (host-passthrough) by QEMU's model 'host'",
        "dropped: enlightenments (hyperv)",
        "dropped: the cdrom hda",
        "replaced: vhost for the network card 52:54:00:aa:bb:cc by QEMU's own",
        "dropped: a serial port: what the guest says on its first one is kept in the member's console.log",
        "dropped: a channel to an agent",
        "dropped: keyboard or mouse",
        "dropped: the screen (VNC, SPICE)",
        "dropped: the graphics adapter",
        "dropped: the balloon of memory",
    ]


def test_a_disk_of_qemus_own_format_is_taken_as_one(tmp_path: Path, image: Path) -> None:
    image.write_bytes(qcow2_header(size=1 << 30))
    (disk,) = read_domain(domain(tmp_path, image, ("type='raw'", "type='qcow2'"))).vm.disks
    assert (disk.path, disk.image_format, disk.size_bytes) == (image, "qcow2", 1 << 30)


def test_a_disk_of_a_scsi_controller_is_taken_if_that_is_virtio(tmp_path: Path, image: Path) -> None:
    def with_controller(model: str) -> Path:
        controller = f"<controller type='scsi' index='0'{model}/><controller type='usb' "
        return domain(tmp_path, image, ("bus='virtio'", "bus='scsi'"), ("<controller type='usb' ", controller))

    assert [disk.bus for disk in read_domain(with_controller(" model='virtio-scsi'")).vm.disks] == ["scsi"]
    for model in ("", " model='lsilogic'"):
        with pytest.raises(UsageError, match="on a SCSI controller of the model lsilogic"):
            read_domain(with_controller(model))


def test_a_card_of_a_network_of_libvirt_joins_its_bridge_or_the_one_that_is_named(tmp_path: Path, image: Path) -> None:
    network = ("<interface type='bridge'>", "<interface type='network'>")
    runs = domain(tmp_path, image, network, ("bridge='br0'", "network='default' bridge='virbr0'"))
    assert read_domain(runs).vm.network.bridge == "virbr0"
    is_off = domain(tmp_path, image, network, ("bridge='br0'", "network='default'"))
    assert read_domain(is_off, bridge="br7").vm.network.bridge == "br7"


def test_a_kernel_of_the_domain_is_taken_with_its_arguments(tmp_path: Path, image: Path) -> None:
    boot = "<kernel>/boot/vmlinuz</kernel><initrd>/boot/initrd.img</initrd><cmdline>root=/dev/vda quiet</cmdline></os>"
    vm = read_domain(domain(tmp_path, image, ("<boot dev='hd'/></os>", boot), ("type='kvm'", "type='qemu'"))).vm
    assert (vm.kernel, str(vm.initramfs)) == ("/boot/vmlinuz", "/boot/initrd.img")
    assert (vm.kernel_arguments, vm.accelerator, vm.cpu) == ("root=/dev/vda quiet", "tcg", "max")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("type='raw'", "type='vmdk'"), "the disk vda with an image of the format 'vmdk' cannot be protected"),
        (("bus='virtio'", "bus='sata'"), "the disk vda on the bus 'sata'"),
        (("bus='virtio'", "bus='scsi'"), "on a SCSI controller of the model none"),
        (("<disk type='file' device='disk'", "<disk type='network' device='disk'"), "the disk vda of type 'network'"),
        (("<backingStore/>", "<backingStore type='file'><source file='/x'/></backingStore>"), "which is backingStore"),
        (("<backingStore/>", "<shareable/>"), "which is shareable"),
        (("<interface type='bridge'>", "<interface type='user'>"), "which bridge of the host it joins"),
        (("<source bridge='br0'/>", "<source network='default'/>"), "which bridge of the host it joins"),
        (("<model type='virtio'/>", "<model type='e1000'/>"), "of the model 'e1000'"),
        (("<model type='virtio'/>", "<model type='virtio'/><vlan><tag id='5'/></vlan>"), "with <vlan>"),
        (("<panic model='isa'/>", "<tpm model='tpm-crb'/>"), "<tpm> cannot be protected: the state of a TPM"),
        (("<panic model='isa'/>", "<hostdev mode='subsystem' type='pci'/>"), "passed-through device"),
        (("<panic model='isa'/>", "<filesystem type='mount'/>"), "<filesystem>"),
        (("<panic model='isa'/>", "<teapot/>"), "<teapot> cannot be protected: it is not known"),
        (("<os>", "<os firmware='efi'>"), "UEFI cannot be protected"),
        (("<boot dev='hd'/>", "<loader type='pflash'>/x</loader>"), "UEFI cannot be protected"),
        (("offset='utc'", "offset='localtime'"), "a clock of offset 'localtime'"),
        (("type='kvm'", "type='xen'"), "a domain of type 'xen'"),
        (("arch='x86_64'", "arch='aarch64'"), "the architecture 'aarch64'"),
        (("<on_crash>", "<launchSecurity type='sev'/><on_crash>"), "<launchSecurity> cannot be protected"),
        (("1048576", "a lot"), "memory of a lot KiB"),
        (("Web_Server.1", "___"), "the name '___'"),
        (("{image}", "{image}"), None),
    ],
)
def test_what_cannot_be_protected_is_refused_by_name(
    tmp_path: Path, image: Path, change: tuple[str, str], told: str | None
) -> None:
    if told is None:
        image.unlink()
        with pytest.raises(UsageError, match="cannot be read: No such file"):
            read_domain(domain(tmp_path, image))
        return
    with pytest.raises(UsageError) as refused:
        read_domain(domain(tmp_path, image, change))
    assert told in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name = 'web'",
        "<network/>",
        "<!DOCTYPE domain [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><domain type='kvm'><name>&x;</name></domain>",
    ],
)
def test_what_is_no_domain_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "web.xml"
    path.write_text(text)
    with pytest.raises(UsageError, match="is no domain of libvirt") as refused:
        read_domain(path)
    assert "virsh dumpxml" in str(refused.value.hint)


def test_a_file_of_the_host_can_be_named_nowhere_but_as_an_image(tmp_path: Path, image: Path) -> None:
    # A hostile domain: each of these would be an option of QEMU, a helper or a file in libvirt's own hands.
    hostile = domain(
        tmp_path,
        image,
        ("/usr/bin/qemu-system-x86_64", "/tmp/evil"),
        ("/dev/urandom", "/etc/shadow"),
        ("<console type='pty'>", "<console type='file'><source path='/etc/passwd'/></console><console type='pty'>"),
        ("<graphics type='vnc'", "<graphics type='vnc' socket='/tmp/evil'"),
    )
    told = read_domain(hostile).vm.model_dump_json()
    for path in ("/tmp/evil", "/etc/shadow", "/etc/passwd"):
        assert path not in told
    options = "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/><on_crash>"
    with pytest.raises(UsageError, match="commandline"):
        read_domain(domain(tmp_path, image, ("<on_crash>", options)))
