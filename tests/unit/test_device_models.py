"""The device models of guests: what QEMU is asked for, and what is refused."""

import itertools
import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from stealtime.lab.platforms.device_models import (
    DEVICE_MODELS,
    QEMU_MODELS,
    DeviceChoice,
    find_model,
    mark_of,
    module_wishes,
)
from stealtime.lab.platforms.qemu_devices import (
    back_devices,
    device_arguments,
    parse_known_devices,
    refuse_lacking,
)
from stealtime.lab.platforms.qemu_trace import WallClock, interrupts_in
from stealtime.lab.platforms.traits import TRAITS
from stealtime.vocabulary.errors import StealtimeError, UsageError

_HELP = """Storage devices:
name "ich9-ahci", bus PCI, alias "ahci"
name "ide-hd", bus IDE, desc "virtual IDE disk"
name "virtio-blk-pci", bus PCI, alias "virtio-blk"
"""


def choices(*names: str, backing: str = "nothing") -> list[DeviceChoice]:
    return [DeviceChoice(find_model(name), backing, 2 << 20) for name in names]


def test_all_models_of_qemu_stand_beside_each_other_in_one_machine(tmp_path: Path) -> None:
    with ExitStack() as resources:
        arguments = device_arguments(back_devices(choices(*QEMU_MODELS), tmp_path, resources))
    devices = [value for option, value in itertools.pairwise(arguments) if option == "-device"]
    wanted = {device for name in QEMU_MODELS for device in find_model(name).qemu_devices}
    assert {device.partition(",")[0] for device in devices} == wanted
    identities = [part for value in arguments for part in value.split(",") if part.startswith("id=")]
    assert len(identities) == len(set(identities))


def test_a_model_that_this_qemu_lacks_is_refused_in_one_sentence() -> None:
    known = parse_known_devices(_HELP)
    assert known == {"ich9-ahci", "ahci", "ide-hd", "virtio-blk-pci", "virtio-blk"}
    refuse_lacking(choices("virtio-blk", "ahci"), known, "qemu")
    with pytest.raises(UsageError, match="qemu has no 'e1000', which the device model 'e1000' needs"):
        refuse_lacking(choices("ahci", "e1000"), known, "qemu")


def test_a_disk_is_marked_written_whole_and_has_no_name(tmp_path: Path) -> None:
    with ExitStack() as resources:
        (file,) = back_devices(choices("virtio-blk", backing="file"), tmp_path, resources)
        (memory,) = back_devices(choices("virtio-blk", backing="memory"), tmp_path, resources)
        for device in (file, memory):
            assert device.descriptor is not None
            assert os.fstat(device.descriptor).st_size == 2 << 20
            mark = mark_of(find_model("virtio-blk"))
            assert os.pread(device.descriptor, len(mark), 0) == mark
            assert os.fstat(device.descriptor).st_nlink == 0
        assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_room_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int, _bytes: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with ExitStack() as resources, pytest.raises(StealtimeError, match="has no room for a disk of 2 MiB: No space"):
        back_devices(choices("ahci", backing="file"), tmp_path, resources)


def test_what_cannot_be_behind_a_disk_is_refused(tmp_path: Path) -> None:
    with ExitStack() as resources:
        backed = back_devices(choices("ide", backing="tape"), tmp_path, resources)
    with pytest.raises(UsageError, match="nothing known is behind a disk 'tape'"):
        device_arguments(backed)
    with pytest.raises(UsageError, match="no device model 'floppy'"):
        find_model("floppy")


def test_a_guest_gets_the_modules_that_its_devices_need() -> None:
    names = [wish.name for wish in module_wishes(choices("virtio-scsi", "ahci"))]
    assert names == ["virtio_pci", "virtio_scsi", "sd_mod", "ahci"]


def test_every_model_can_be_had_on_some_platform() -> None:
    offered = {name for traits in TRAITS.values() for name in traits.device_models}
    assert offered | {"own"} == set(DEVICE_MODELS)


def test_interrupts_are_taken_from_the_emulators_trace_onto_the_hosts_clock() -> None:
    text = (
        "77@10.000000:apic_deliver_irq dest 1 dest_mode 1 delivery_mode 0 vector 47 trigger_mode 0\n"
        "77@10.500000:virtio_notify vdev 0x1 vq 0x2\n"
        "78@11.000001:pic_interrupt irq 3 intno 11\nqemu: a warning\n"
    )
    begin = WallClock(monotonic_raw_ns=500, wall_ns=9_000_000_000, error_ns=0)
    end = WallClock(monotonic_raw_ns=500 + 4_000_000_000, wall_ns=13_000_000_000, error_ns=0)
    assert list(interrupts_in(text, begin, end)) == [1_000_000_500, 2_000_001_500]
    now = WallClock.read()
    assert now.error_ns >= 0
    assert now.wall_ns > now.monotonic_raw_ns
