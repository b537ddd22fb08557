"""The exact command line of each flavour of QEMU, as a user would find it in `ps`."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from stealtime.lab.platforms.hyperv import ENLIGHTENMENTS
from stealtime.lab.platforms.qemu_arguments import QemuGuest, kernel_arguments, qemu_arguments
from stealtime.lab.platforms.qemu_flavour import FLAVOURS, QemuFlavour
from stealtime.lab.platforms.qemu_program import parse_version
from stealtime.vocabulary.errors import StealtimeError, UsageError


def guest(flavour: QemuFlavour, vcpus: int = 1, serial_log: str = "/cell/serial.log") -> QemuGuest:
    return QemuGuest(
        flavour=flavour,
        program="qemu-system-x86_64",
        name="stealtime-guest",
        vcpus=vcpus,
        memory_bytes=256 << 20,
        kernel=Path("/cache/vmlinux"),
        initramfs=Path("/cache/initramfs.cpio"),
        serial_log=Path(serial_log),
        qmp=10,
        channel=11,
        bulk=12 if flavour.has_bulk_disk else None,
        hyperv_options=tuple(one.option for one in ENLIGHTENMENTS) if flavour.style == "hyperv" else (),
        host_tsc_khz=2_596_140 if flavour.trusts_host_tsc else None,
    )


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)
def test_the_command_line_of_each_flavour(flavour: QemuFlavour, snapshot: SnapshotAssertion) -> None:
    assert qemu_arguments(guest(flavour)) == snapshot


def test_a_talkative_kernel_tells_all_from_its_first_line(snapshot: SnapshotAssertion) -> None:
    assert kernel_arguments(QemuFlavour("kvm", "paravirt"), talkative=True) == snapshot


@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)
def test_only_what_is_named_is_in_the_machine_and_it_waits_to_be_pinned(flavour: QemuFlavour) -> None:
    arguments = qemu_arguments(guest(flavour))
    assert {"-nodefaults", "-no-user-config", "-no-reboot", "-S"} <= set(arguments)
    assert f"accel={flavour.accelerator}" in arguments[arguments.index("-machine") + 1]
    text = " ".join(arguments)
    assert ("virtio" in text) == (flavour.style != "emulated")
    assert ("e1000" in text) == (flavour.style == "emulated")
    assert ("hv-" in text) == (flavour.style == "hyperv")
    if flavour.accelerator == "kvm":
        assert ("kvm=off" in text) == (flavour.style != "paravirt")


def test_an_emulated_machine_with_two_virtual_cpus_is_refused() -> None:
    with pytest.raises(UsageError, match="qemu-tcg-emulated has one virtual CPU, 2 were asked for"):
        qemu_arguments(guest(QemuFlavour("tcg", "emulated"), vcpus=2))
    assert "2" in qemu_arguments(guest(QemuFlavour("tcg", "paravirt"), vcpus=2))


def test_a_comma_in_a_path_is_doubled() -> None:
    arguments = qemu_arguments(guest(FLAVOURS[1], serial_log="/a,b/serial.log"))
    assert "file,id=console,path=/a,,b/serial.log" in arguments


def test_qemu_versions_are_read_and_too_old_ones_refused() -> None:
    said = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022 Fabrice Bellard"
    assert parse_version("qemu", said) == "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"
    assert parse_version("qemu", "QEMU emulator version 10.0.2") == "10.0.2"
    with pytest.raises(StealtimeError, match=r"version 6\.2\.0, older than 7\.2"):
        parse_version("qemu", "QEMU emulator version 6.2.0")
    with pytest.raises(StealtimeError, match="not a version"):
        parse_version("qemu", "")
