"""What is true of a platform is declared once, by its name."""

import pytest

from stealtime.lab.platforms.registry import all_platforms
from stealtime.lab.platforms.traits import TRAITS, PlatformTraits, traits_of


def test_every_platform_declares_its_traits() -> None:
    assert {platform.name for platform in all_platforms()} == set(TRAITS)


@pytest.mark.parametrize("platform", ["qemu-tcg-emulated", "qemu-tcg-paravirt"])
def test_tcg_is_said_not_to_be_kvm(platform: str) -> None:
    text = traits_of(platform).description
    assert "TCG" in text
    assert "not KVM" in text


def test_only_the_host_is_native_and_only_what_we_boot_is_a_guest() -> None:
    assert [name for name in TRAITS if traits_of(name).is_native] == ["native"]
    assert [name for name in (*TRAITS, "ssh:lab") if not traits_of(name).is_guest] == ["native", "ssh:lab"]


def test_a_machine_over_ssh_is_traced_by_its_own_agent() -> None:
    traits = traits_of("ssh:me@lab:22")
    assert (traits.is_remote, traits.has_own_kernel_trace) == (True, True)
    assert "me@lab:22" in traits.description


def test_nothing_is_claimed_of_a_platform_that_is_not_known() -> None:
    assert traits_of("xen") == PlatformTraits()
