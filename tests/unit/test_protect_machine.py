"""From a VM.toml to the machine: the versioned type and the kernel's command line."""

import os
import tempfile
from pathlib import Path

import pytest

from stealtime.protect import machine
from stealtime.protect.machine import kernel_arguments, parse_machine_types, versioned_machine
from stealtime.protect.specification import MachineSpec
from stealtime.protect.vm_file import parse_vm_file
from stealtime.vocabulary.errors import UsageError

SAID = """Supported machines are:
microvm              microvm (i386)
pc                   Standard PC (i440FX + PIIX, 1996) (alias of pc-i440fx-7.2)
pc-i440fx-7.2        Standard PC (i440FX + PIIX, 1996) (default)
pc-i440fx-1.7        Standard PC (i440FX + PIIX, 1996) (deprecated)
q35                  Standard PC (Q35 + ICH9, 2009) (alias of pc-q35-7.2)
pc-q35-7.2           Standard PC (Q35 + ICH9, 2009)
isapc                ISA-only PC
none                 empty machine
x-remote             Experimental remote machine
"""


@pytest.mark.parametrize("version", ["7.2.22 (Debian 1:7.2+dfsg-7)", "10.0.13 (Debian 1:10.0)", "11.1.3"])
def test_a_qemu_with_which_failovers_were_shown_is_taken(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _resolved(version, "", monkeypatch).machine == "pc-i440fx-7.2"


def test_another_release_of_qemu_is_refused_unless_it_is_allowed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"shown with QEMU 7\.2, 10\.0, 11\.1, and this host has 9\.2\.1") as refused:
        _resolved("9.2.1 (Debian)", "", monkeypatch)
    assert 'allow_qemu = "9.2"' in str(refused.value.hint)
    assert _resolved("9.2.1 (Debian)", 'allow_qemu = "9.2"\n', monkeypatch).machine == "pc-i440fx-7.2"
    with pytest.raises(UsageError, match=r"this host has 9\.20\.1"):
        _resolved("9.20.1", 'allow_qemu = "9.2"\n', monkeypatch)


def _resolved(version: str, more: str, monkeypatch: pytest.MonkeyPatch) -> MachineSpec:
    """Give the machine that a host with this QEMU builds; its disk has its own boot loader."""
    monkeypatch.setattr(machine, "find_qemu", lambda: "qemu")
    monkeypatch.setattr(machine, "qemu_version", lambda _: version)
    monkeypatch.setattr(machine, "machine_types", lambda _: parse_machine_types(SAID))
    with tempfile.NamedTemporaryFile() as disk:
        disk.truncate(4096)
        text = f'name = "vm"\nkernel = "disk"\n{more}[[disks]]\nname = "root"\npath = "{disk.name}"\n'
        return machine.resolve_machine(parse_vm_file(text, "VM.toml", Path("/")))


def test_the_machine_types_of_a_qemu_are_read() -> None:
    types = parse_machine_types(SAID)
    assert types["pc"] == "pc-i440fx-7.2"
    assert types["q35"] == "pc-q35-7.2"
    assert types["pc-i440fx-1.7"] is None
    assert types["microvm"] is None
    assert len(types) == 9


def test_an_alias_becomes_a_type_with_a_version() -> None:
    types = parse_machine_types(SAID)
    assert versioned_machine("pc", types) == "pc-i440fx-7.2"
    assert versioned_machine("pc-q35-7.2", types) == "pc-q35-7.2"


@pytest.mark.parametrize(
    ("wanted", "told"), [("pc-q35-99.0", "no machine type"), ("microvm", "no version"), ("x-remote", "no version")]
)
def test_a_type_that_another_qemu_could_understand_otherwise_is_refused(wanted: str, told: str) -> None:
    with pytest.raises(UsageError, match=told) as refused:
        versioned_machine(wanted, parse_machine_types(SAID))
    assert "pc" in str(refused.value.hint)


def test_the_builtin_program_is_told_on_the_kernels_command_line() -> None:
    vm = parse_vm_file(
        'name = "phone"\nprogram = "counter"\nprogram_arguments = ["tcp=7", "memory=4MiB"]\n'
        'kernel_arguments = "loglevel=7"\n[network]\naddress = "10.0.0.2/24"\ngateway = "10.0.0.1"\n',
        "VM.toml",
        Path("/"),
    )
    words = kernel_arguments(vm)
    assert "stealtime.run=counter,tcp=7,memory=4MiB" in words
    assert "stealtime.address=10.0.0.2/24" in words
    assert "stealtime.gateway=10.0.0.1" in words
    assert words[-1] == "loglevel=7"


def test_a_guest_of_ones_own_is_told_nothing_of_programs() -> None:
    vm = parse_vm_file(f'name = "phone"\ninitramfs = "{os.devnull}"\n', "VM.toml", Path("/"))
    assert not any(word.startswith("stealtime.run") for word in kernel_arguments(vm))
