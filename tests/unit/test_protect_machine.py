"""From a VM.toml to the machine: the versioned type and the kernel's command line."""

import os
from pathlib import Path

import pytest

from stealtime.protect.machine import kernel_arguments, parse_machine_types, versioned_machine
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
