"""Durations and sizes as people write them: ``68us``, ``1m30s``, ``3GiB``; parsed whole, printed back exactly."""

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "min": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_MOST = 2**63 - 1
"""What a signed 64-bit number holds, as everything that counts ns or bytes does: 292 years, 8 EiB."""
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)\s*")


def parse_duration_ns(text: str) -> int:
    """Read a duration such as ``68us``, ``1.5s`` or ``1m30s``.

    Returns:
        Nanoseconds, more than zero.

    Raises:
        ValueError: ``text`` is not a whole duration; the message holds it and what was expected.
    """
    return _parse(text, NANOSECONDS, "a duration such as 500ms, 5s or 1m30s", "ns")


def parse_size_bytes(text: str) -> int:
    """Read a size such as ``256MiB`` or ``3GiB``.

    Returns:
        Bytes, more than zero.

    Raises:
        ValueError: ``text`` is not a whole size; the message holds it and what was expected.
    """
    return _parse(text, BYTES, "a size such as 256MiB or 3GiB", "B")


def format_duration(nanoseconds: int) -> str:
    """Write a duration so that :func:`parse_duration_ns` reads the same number again: ``90s`` becomes ``1m30s``."""
    if nanoseconds == 0:
        return "0s"
    minute_ns = NANOSECONDS["m"]
    if nanoseconds >= minute_ns and nanoseconds % NANOSECONDS["s"] == 0:
        parts = []
        rest = nanoseconds
        for unit in ("h", "m", "s"):
            count, rest = divmod(rest, NANOSECONDS[unit])
            if count:
                parts.append(f"{count}{unit}")
        return "".join(parts)
    for unit in ("s", "ms", "us"):
        if nanoseconds % NANOSECONDS[unit] == 0:
            return f"{nanoseconds // NANOSECONDS[unit]}{unit}"
    return f"{nanoseconds}ns"


def format_size(size_bytes: int) -> str:
    """Write a size so that :func:`parse_size_bytes` reads the same number again."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % BYTES[unit] == 0:
            return f"{size_bytes // BYTES[unit]}{unit}"
    return f"{size_bytes}B"


def approximate_size(size_bytes: float) -> str:
    """Write a size for people, with three digits: ``1.27 GiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if size_bytes >= BYTES[unit]:
            size = size_bytes / BYTES[unit]
            return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"
    return f"{size_bytes:.0f} B"


def approximate_duration(seconds: float) -> str:
    """Write a duration for people, to the second from a minute on: ``4.2 s``, ``2 min 05 s``, ``3 h 10 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _parse(text: str, units: dict[str, int], expected: str, plain_unit: str) -> int:
    total = Fraction(0)  # a float would lose whole nanoseconds beyond 104 days
    position = 0
    stripped = text.strip()
    smallest_before: int | None = None
    while position < len(stripped):
        part = _PART.match(stripped, position)
        if part is None or part[2] not in units:
            raise ValueError(_refusal(text, stripped[position:], part, units, expected))
        size = units[part[2]]
        if smallest_before is not None and size >= smallest_before:
            raise ValueError(f"{text!r} is not {expected}: {part[0].strip()!r} must come first or not at all")
        smallest_before = size
        total += Fraction(part[1]) * size
        position = part.end()
    if not stripped:
        raise ValueError(f"an empty text is not {expected}")
    whole = round(total)
    if whole > _MOST:
        raise ValueError(f"{text!r} is more than can be counted, {_MOST} {plain_unit}; expected {expected}")
    if whole <= 0:
        raise ValueError(f"{text!r} is less than 1 {plain_unit}; expected {expected}")
    return whole


def _refusal(text: str, rest: str, part: re.Match[str] | None, units: dict[str, int], expected: str) -> str:
    if re.fullmatch(r"\d+(?:\.\d+)?", rest):
        return f"{text!r} has no unit; expected {expected}"
    if part is not None:
        return f"{text!r} has the unknown unit {part[2]!r} (known: {', '.join(units)}); expected {expected}"
    return f"{text!r} is not {expected}"


PARSED = "parsed"
"""The validation context of values that have been parsed: numbers in ns or bytes, which a file may not hold."""


def _duration_from(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and info.context == PARSED:
        return value
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is not text; expected a duration such as "5s", in quotes')  # noqa: TRY004 - pydantic shows ValueError
    return parse_duration_ns(value)


def _size_from(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and info.context == PARSED:
        return value
    if not isinstance(value, str):
        raise ValueError(f'{value!r} is not text; expected a size such as "256MiB", in quotes')  # noqa: TRY004 - pydantic shows ValueError
    return parse_size_bytes(value)


def _text_schema(units: dict[str, int], *examples: str) -> WithJsonSchema:
    """Give the JSON Schema of a quantity's text; that larger units come first is more than a pattern can say."""
    names = "|".join(sorted(units, key=len, reverse=True))
    pattern = rf"^\s*(\d+(\.\d+)?\s*({names})\s*)+$"
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


DurationNs = Annotated[
    int,
    BeforeValidator(_duration_from),
    PlainSerializer(format_duration, when_used="json"),
    _text_schema(NANOSECONDS, "500ms", "5s", "1m30s"),
]
"""A field that is written ``"5s"`` in a file and is nanoseconds in Python."""

SizeBytes = Annotated[
    int,
    BeforeValidator(_size_from),
    PlainSerializer(format_size, when_used="json"),
    _text_schema(BYTES, "256MiB", "3GiB"),
]
"""A field that is written ``"256MiB"`` in a file and is bytes in Python."""


def word_of(name: str, value: object) -> str:
    """Write the value of a parameter where its name is not written: what is true or not needs the name."""
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return format_duration(value) if name.endswith("_ns") and isinstance(value, int) else str(value)
