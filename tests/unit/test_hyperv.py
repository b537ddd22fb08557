"""Which enlightenments a guest gets, from what QEMU and KVM say."""

import struct
from pathlib import Path

import pytest

from stealtime.lab.platforms.hyperv import (
    ENLIGHTENMENTS,
    Leaves,
    choose,
    parse_leaves,
    supported_leaves,
    uses_hardware_interrupts,
)

EVERY_PROPERTY = frozenset(one.name for one in ENLIGHTENMENTS)
EVERYTHING: Leaves = {
    leaf: {"eax": 0xFFFF_FFFF, "ebx": 0xFFFF_FFFF, "ecx": 0, "edx": 0xFFFF_FFFF} for leaf in (0x4000_0003, 0x4000_0004)
}


def without(leaf: int, register: str, mask: int) -> Leaves:
    leaves = {number: dict(registers) for number, registers in EVERYTHING.items()}
    leaves[leaf][register] &= ~mask  # type: ignore[index]
    return leaves


def test_all_are_taken_where_all_are_there_each_after_what_it_needs() -> None:
    choice = choose(EVERY_PROPERTY, EVERYTHING, hardware_interrupts=True)
    assert choice.options == tuple(one.option for one in ENLIGHTENMENTS)
    assert choice.left_out == {}
    seen: set[str] = set()
    for one in ENLIGHTENMENTS:
        assert set(one.needs) <= seen
        seen.add(one.name)


def test_what_this_qemu_does_not_know_is_left_out() -> None:
    choice = choose(frozenset({"hv-time", "hv-relaxed", "kvmclock"}), EVERYTHING, hardware_interrupts=True)
    assert choice.options == ("hv-relaxed=on", "hv-time=on")
    assert choice.left_out["hv-synic"] == "this QEMU does not know it"


def test_one_missing_bit_takes_only_what_needs_it() -> None:
    choice = choose(EVERY_PROPERTY, without(0x4000_0003, "eax", 1 << 2), hardware_interrupts=True)
    assert choice.left_out == {
        "hv-synic": "this host's KVM does not have it",
        "hv-stimer": "it needs hv-synic",
        "hv-stimer-direct": "it needs hv-stimer",
    }


def test_both_bits_of_one_that_has_two_are_needed() -> None:
    assert "hv-time" in choose(EVERY_PROPERTY, without(0x4000_0003, "eax", 1 << 9), hardware_interrupts=True).left_out


def test_avic_is_for_processors_that_deliver_interrupts_by_themselves() -> None:
    choice = choose(EVERY_PROPERTY, EVERYTHING, hardware_interrupts=False)
    assert choice.left_out == {"hv-avic": "KVM uses no AVIC or APICv here"}


def test_qemu_finds_out_where_kvm_cannot_be_asked() -> None:
    assert choose(EVERY_PROPERTY, None, hardware_interrupts=True).left_out == {}


def test_the_kernel_s_answer_is_read() -> None:
    rows = [(0x4000_0003, 0, 0, 0xABE, 0, 0, 0x8_0110, 0, 0, 0), (0x4000_0004, 0, 0, 0xE2C, 0xFFF, 0, 0, 0, 0, 0)]
    answer = struct.pack("=II", len(rows), 0) + b"".join(struct.pack("=10I", *row) for row in rows) + bytes(400)
    assert parse_leaves(answer) == {
        0x4000_0003: {"eax": 0xABE, "ebx": 0, "ecx": 0, "edx": 0x8_0110},
        0x4000_0004: {"eax": 0xE2C, "ebx": 0xFFF, "ecx": 0, "edx": 0},
    }


def test_what_is_no_kvm_is_not_asked(tmp_path: Path) -> None:
    assert supported_leaves(tmp_path / "kvm") is None
    (tmp_path / "kvm").touch()
    assert supported_leaves(tmp_path / "kvm") is None


@pytest.mark.parametrize(("text", "uses"), [("Y\n", True), ("1\n", True), ("N\n", False)])
def test_hardware_interrupts_are_read_from_the_module(tmp_path: Path, text: str, uses: bool) -> None:
    parameter = tmp_path / "kvm_amd/parameters/avic"
    parameter.parent.mkdir(parents=True)
    parameter.write_text(text)
    assert uses_hardware_interrupts(tmp_path) == uses
    assert not uses_hardware_interrupts(tmp_path / "nothing")
