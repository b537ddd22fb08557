"""Lists of CPUs as the kernel and people write them."""

from collections.abc import Iterable


def parse_cpu_list(text: str) -> list[int]:
    """Read a list of CPUs as the kernel writes it: ``0-2,5`` is 0, 1, 2, 5.

    Raises:
        ValueError: ``text`` is no such list.
    """
    cpus: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.extend(range(int(first), int(last or first) + 1))
    return cpus


def format_cpus(cpus: Iterable[int]) -> str:
    """Write CPUs as short as they are read: ``0-2,5``."""
    parts: list[str] = []
    ordered = sorted(cpus)
    while ordered:
        last = first = ordered.pop(0)
        while ordered and ordered[0] == last + 1:
            last = ordered.pop(0)
        parts.append(str(first) if first == last else f"{first}-{last}")
    return ",".join(parts)
