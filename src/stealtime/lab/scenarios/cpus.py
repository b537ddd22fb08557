"""CPU lists as people write them: ``1,3-5``."""

import os
import re

from stealtime.vocabulary.errors import UsageError

_PART = re.compile(r"(\d+)(?:-(\d+))?")


def allowed_cpus() -> tuple[int, ...]:
    """Give the CPUs that this process may run on, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def format_cpus(cpus: tuple[int, ...] | list[int]) -> str:
    """Write CPUs as short as :func:`parse_cpus` reads them: ``0-2,5``."""
    parts: list[str] = []
    ordered = sorted(cpus)
    while ordered:
        last = first = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)


def parse_cpus(text: str, allowed: tuple[int, ...]) -> tuple[int, ...]:
    """Read a list such as ``1,3-5``, in the order in which it is written.

    Args:
        text: Numbers and ranges, separated by commas.
        allowed: The CPUs that may be used here.

    Raises:
        UsageError: It is no such list, a CPU is named twice, or one of them may not be used; the message says which.
    """
    hint = f"this machine allows the CPUs {format_cpus(allowed)}"
    cpus: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise UsageError(
                f"{text!r} is not a CPU list: {part!r} is neither a number nor a range such as 3-5", hint=hint
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UsageError(f"{text!r} is not a CPU list: the range {part.strip()} runs backwards", hint=hint)
        # Looked at before the range is spelled out, so that 0-99999999999 costs nothing.
        for cpu in (first, last):
            if cpu not in allowed:
                raise UsageError(f"CPU {cpu} of {text!r} does not exist or may not be used", hint=hint)
        cpus.extend(range(first, last + 1))
    for cpu in cpus:
        if cpu not in allowed:
            raise UsageError(f"CPU {cpu} of {text!r} does not exist or may not be used", hint=hint)
        if cpus.count(cpu) > 1:
            raise UsageError(f"CPU {cpu} is listed twice in {text!r}", hint="name each CPU once")
    return tuple(cpus)
