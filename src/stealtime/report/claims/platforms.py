"""Which of our platforms stands for which of a publication's machines: decided by their names, and stated."""

from collections.abc import Iterable, Sequence

from stealtime.lab.platforms.traits import NATIVE
from stealtime.report.claims.document import StandIn
from stealtime.report.claims.model import PublishedMachine

_TRANSLATED = "-tcg"
"""In the name of a platform whose every instruction is translated in software."""


def choose_platforms(machines: Sequence[PublishedMachine], platforms: Iterable[str]) -> list[StandIn]:
    """Choose a platform for each machine.

    Those that are told by an ending are of one family (``qemu-kvm``, ``qemu-tcg``): a ratio between families would
    compare the hypervisors. A family with more of them is taken before one with fewer, one that runs on the hardware
    before a translated one.
    """
    there = set(platforms)
    endings = [machine.ending for machine in machines if machine.ending is not None]
    families = {name.removesuffix(ending) for name in there for ending in endings if name.endswith(ending)}
    ordered = sorted(
        families,
        key=lambda family: (-sum(family + ending in there for ending in endings), is_translated(family), family),
    )
    family = next(iter(ordered), None)
    stand_ins = []
    for machine in machines:
        name = machine.platform if machine.ending is None else f"{family}{machine.ending}"
        platform = name if name in there else None
        stand_ins.append(
            StandIn(role=machine.role, role_words=machine.words, platform=platform, words=_words(platform))
        )
    return stand_ins


def is_translated(platform: str) -> bool:
    """Tell whether a platform runs no guest code on the CPU itself: TCG, which must never be called KVM."""
    return _TRANSLATED in platform


def _words(platform: str | None) -> str:
    if platform is None:
        return "not in this run"
    if platform == NATIVE:
        return "the host itself, without a virtual machine of ours"
    is_emulated = platform.endswith("-emulated")
    devices = "the devices of a PC, emulated" if is_emulated else "paravirtual devices"
    if is_translated(platform):
        return f"{devices}, on TCG, which translates every instruction in software: this is not KVM"
    if "-kvm" in platform:
        return f"{devices}, on KVM {'without' if is_emulated else 'with'} its paravirtual clock and features"
    return devices
