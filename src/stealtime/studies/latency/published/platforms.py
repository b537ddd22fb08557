"""Which of our platforms stands for which of a publication's machines: decided by the end of its name, and stated."""

from collections.abc import Iterable

from stealtime.lab.platforms.traits import NATIVE
from stealtime.studies.latency.published.comparison_model import StandIn
from stealtime.studies.latency.published.model import Role

_SUFFIXES: dict[Role, str] = {"emulated": "-emulated", "paravirt": "-paravirt"}
_TRANSLATED = "-tcg"
"""In the name of a platform whose every instruction is translated in software."""


def choose_platforms(platforms: Iterable[str]) -> tuple[StandIn, StandIn, StandIn]:
    """Choose for the bare, the emulated and the paravirtual machine.

    Both guests are of one family (``qemu-kvm``, ``qemu-tcg``): a ratio between families would compare the hypervisors.
    A family with both is taken before one with only one of them, one that runs on the hardware before a translated
    one, as Hyper-V runs on the hardware.
    """
    there = set(platforms)
    families = {name.removesuffix(suffix) for name in there for suffix in _SUFFIXES.values() if name.endswith(suffix)}
    ordered = sorted(
        families,
        key=lambda family: (
            -sum(family + suffix in there for suffix in _SUFFIXES.values()),
            is_translated(family),
            family,
        ),
    )
    family = next(iter(ordered), None)
    guests = {role: f"{family}{suffix}" for role, suffix in _SUFFIXES.items() if f"{family}{suffix}" in there}
    return (
        _stand_in("bare", NATIVE if NATIVE in there else None),
        _stand_in("emulated", guests.get("emulated")),
        _stand_in("paravirt", guests.get("paravirt")),
    )


def is_translated(platform: str) -> bool:
    """Tell whether a platform runs no guest code on the CPU itself: TCG, which must never be called KVM."""
    return _TRANSLATED in platform


def _stand_in(role: Role, platform: str | None) -> StandIn:
    return StandIn(role=role, platform=platform, words=_words(role, platform))


def _words(role: Role, platform: str | None) -> str:
    if platform is None:
        return "not in this run"
    if role == "bare":
        return "the host itself, without a virtual machine of ours"
    devices = "the devices of a PC, emulated" if role == "emulated" else "paravirtual devices"
    if is_translated(platform):
        return f"{devices}, on TCG, which translates every instruction in software: this is not KVM"
    if "-kvm" in platform:
        clock = "without" if role == "emulated" else "with"
        return f"{devices}, on KVM {clock} its paravirtual clock and features"
    return devices
