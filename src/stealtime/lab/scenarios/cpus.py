"""CPU lists as people write them: ``1,3-5``."""

import re

from stealtime.lab.processors import MOST_CPUS
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.errors import UsageError

_PART = re.compile(r"(\d+)(?:-(\d+))?")


def parse_cpus(text: str, allowed: tuple[int, ...] | None) -> tuple[int, ...]:
    """Read a list such as ``1,3-5``, in the order in which it is written.

    Args:
        text: Numbers and ranges, separated by commas.
        allowed: The CPUs that may be named; None where they are not known yet.

    Raises:
        UsageError: It is no such list, a CPU is named twice, or one of them may not be used; the message says which.
    """
    hint = "write numbers and ranges such as 1,3-5"
    if allowed is not None:
        hint = f"the kernel grants the CPUs {format_cpus(allowed)} here"
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
            if cpu not in (range(MOST_CPUS) if allowed is None else allowed):
                raise UsageError(f"CPU {cpu} of {text!r} does not exist or may not be used", hint=hint)
        cpus.extend(range(first, last + 1))
    for cpu in cpus:
        if allowed is not None and cpu not in allowed:
            raise UsageError(f"CPU {cpu} of {text!r} does not exist or may not be used", hint=hint)
        if cpus.count(cpu) > 1:
            raise UsageError(f"CPU {cpu} is listed twice in {text!r}", hint="name each CPU once")
    return tuple(cpus)
