"""One more guest, as it is given on the command line: ``2vcpu,busy=60%``; pure."""

import re
from dataclasses import dataclass
from typing import NoReturn

from stealtime.vocabulary.cpu_lists import parse_cpu_list
from stealtime.vocabulary.errors import UsageError

_HINT = "write for example 2vcpu,busy=60% or 4vcpu,busy=25%,weight=200,cpus=0-3,count=2"
_MOST_VCPUS = 4096
"""Of a guest no KVM has more (Documentation/virt/kvm/api.rst, KVM_CAP_MAX_VCPUS, is below it). Of all that are added
together, more would take the prediction minutes."""
_MOST_GUESTS = 1000
_LEAST_WEIGHT, _MOST_WEIGHT = 1, 10_000
"""Of ``cpu.weight``."""
_CPU_LIST = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_NUMBER = re.compile(r"-?[0-9]{1,9}(\.[0-9]{1,9})?")
"""As people type it: ``float`` also reads ``6_0``, ``1e1``, ``nan`` and the digits of other scripts."""
_KEYS = ("busy", "weight", "cpus", "count", "name")


@dataclass(frozen=True)
class Addition:
    """Guests that are not there yet."""

    text: str
    """As it was given."""
    vcpus: int
    busy: float
    """Of each virtual CPU: share of the time in which it runs if it never waits, above 0 up to 1."""
    weight: int | None = None
    """Of its CPU group, 100 is the default; None: each virtual CPU competes like one thread."""
    cpus: frozenset[int] | None = None
    """Where it may run; None for all."""
    count: int = 1
    name: str = "added"


def read_addition(text: str, host_cpus: frozenset[int]) -> Addition:
    """Read one more guest.

    Args:
        text: ``Nvcpu,busy=P%`` and, as wanted, ``weight=``, ``cpus=``, ``count=`` and ``name=``.
        host_cpus: That are online.

    Raises:
        UsageError: It is no such text; the message has the part that is wrong.
    """
    first, *rest = (part.strip() for part in text.split(","))
    vcpus = _vcpus(text, first)
    # Commas also separate CPUs: what has no '=' belongs to the list before it.
    parts: list[str] = []
    for part in rest:
        if "=" not in part and parts and parts[-1].startswith("cpus="):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    options: dict[str, str] = {}
    for part in parts:
        key, sign, value = part.partition("=")
        if not sign or key not in _KEYS:
            _refuse(text, f"{part!r} is none of {', '.join(f'{one}=' for one in _KEYS)}")
        if key in options:
            _refuse(text, f"{key}= is there twice")
        options[key] = value
    if "busy" not in options:
        _refuse(text, "it does not say how busy its virtual CPUs are (busy=60%)")
    count = _whole(text, "count", options["count"], 1, _MOST_GUESTS) if "count" in options else 1
    if vcpus * count > _MOST_VCPUS:
        _refuse(text, f"{count} guests of {vcpus} virtual CPUs are more than {_MOST_VCPUS} virtual CPUs")
    return Addition(
        text=text,
        vcpus=vcpus,
        busy=_busy(text, options["busy"]),
        weight=_whole(text, "weight", options["weight"], _LEAST_WEIGHT, _MOST_WEIGHT) if "weight" in options else None,
        cpus=_cpus(text, options["cpus"], host_cpus) if "cpus" in options else None,
        count=count,
        name=_name(text, options.get("name", "added")),
    )


def _vcpus(text: str, first: str) -> int:
    found = re.fullmatch(r"(\d+)\s*vcpus?", first, re.IGNORECASE)
    if found is None:
        _refuse(text, f"{first!r} is no number of virtual CPUs (2vcpu)")
    return _whole(text, "vcpu", found[1], 1, _MOST_VCPUS)


def _busy(text: str, value: str) -> float:
    if not value.endswith("%"):
        _refuse(text, f"busy={value} is no percentage: write busy={value or 60}% if percent is meant")
    if not _NUMBER.fullmatch(value.removesuffix("%")):
        _refuse(text, f"busy={value} is no number")
    percent = float(value.removesuffix("%"))
    if not 0.0 < percent <= 100.0:
        _refuse(text, f"busy={value} is not above 0 % and up to 100 % of each virtual CPU")
    return percent / 100.0


def _whole(text: str, name: str, value: str, least: int, most: int) -> int:
    # `isdecimal` alone takes digits of other scripts, which `int` reads too; nobody types them on purpose.
    if not (value.isascii() and value.isdecimal() and len(value) <= len(str(most)) and least <= int(value) <= most):
        _refuse(text, f"{name}={value} is no whole number from {least} to {most}")
    return int(value)


def _cpus(text: str, value: str, host_cpus: frozenset[int]) -> frozenset[int]:
    if not _CPU_LIST.fullmatch(value):
        _refuse(text, f"cpus={value} is no list of CPUs")
    cpus = frozenset(parse_cpu_list(value))
    if not cpus:
        _refuse(text, f"cpus={value} names no CPU")
    if strange := sorted(cpus - host_cpus):
        _refuse(text, f"cpus={value} names CPU {strange[0]}, which this host does not have online")
    return cpus


def _name(text: str, value: str) -> str:
    if not value or not value.isprintable():
        _refuse(text, "name= is empty or cannot be printed")
    return value


def _refuse(text: str, why: str) -> NoReturn:
    raise UsageError(f"--add {text!r}: {why}", hint=_HINT)
