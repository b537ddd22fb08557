"""Measured quantities as people read them: four digits, the unit that fits, absent as a dash."""

import math

ABSENT = "\N{EN DASH}"
_UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def duration(nanoseconds: float | None, digits: int = 4) -> str:
    """Write a duration with ``digits`` significant digits: 50128345 becomes ``50.13 ms``."""
    if nanoseconds is None or math.isnan(nanoseconds):
        return ABSENT
    if nanoseconds == 0:
        return "0"
    # 999.97 ns with four digits would read "1000 ns": the larger unit is taken already then.
    rounded = float(f"{abs(nanoseconds):.{digits}g}")
    unit, size = next((pair for pair in _UNITS if rounded >= pair[1]), _UNITS[-1])
    return f"{_significant(nanoseconds / size, digits)} {unit}"


def signed_duration(nanoseconds: float, digits: int = 3) -> str:
    """Write a time before or after something: ``+124 ms``."""
    if nanoseconds == 0:
        return "0"
    sign = "\N{MINUS SIGN}" if nanoseconds < 0 else "+"
    return f"{sign}{duration(abs(nanoseconds), digits)}"


def trimmed_duration(nanoseconds: int) -> str:
    """Write a duration that somebody chose, without zeros that would only say how exact a measurement is: ``68 µs``."""
    number, _, unit = duration(nanoseconds, 9).partition(" ")
    return f"{float(number):g} {unit}"


def exact_duration(nanoseconds: float) -> str:
    """Write a duration to the tenth of a nanosecond: ``50,128,345.2 ns``."""
    return f"{nanoseconds:,.1f} ns"


def moment(seconds: float | None) -> str:
    """Write a point in time of a trial, to the microsecond: ``3.217345 s``."""
    return ABSENT if seconds is None else f"{seconds:.6f} s"


def number_of(number: int, word: str) -> str:
    """Write how many there are of something: ``1 host``, ``1,000 hosts``."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def count(number: int | None) -> str:
    """Write a count with its thousands apart: ``50,000,000``."""
    return ABSENT if number is None else f"{number:,}"


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """Write a duration (unit ``ns``), or a count."""
    return duration(value, digits) if unit == "ns" else count(None if value is None else round(value))


def ratio(value: float | None) -> str:
    """Write how many times something is, with a multiplication sign."""
    if value is None or not math.isfinite(value):
        return ABSENT
    return f"{_significant(value, 3 if round(value, 2) >= 1 else 2)}\N{MULTIPLICATION SIGN}"


def factor_from_above(value: float) -> str:
    """Write a factor of at least 1 with three digits, rounded up, so that it stays a bound."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{three_digits(math.ceil(value / step - 1e-9) * step)}\N{MULTIPLICATION SIGN}"


def percent(share: float) -> str:
    """Write a share with one decimal; what is there but rounds to nought says so: ``12.3 %``, ``< 0.1 %``."""
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def three_digits(value: float) -> str:
    """Write a rate with three significant digits and its thousands apart: ``388,000``, ``4.5``."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def whole_ns(nanoseconds: float) -> str:
    """Write a duration in whole nanoseconds, so that parts can be added up by hand: ``50,128,345 ns``."""
    return f"{nanoseconds:,.0f} ns"


def _significant(value: float, digits: int) -> str:
    """Write ``value`` with significant digits and without an exponent; trailing zeros say how exact it is."""
    magnitude = 0 if value == 0 else math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    # Rounding can carry into the next decade (9.9996 -> 10.000): count the decimals from there.
    magnitude = 0 if rounded == 0 else math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(0, digits - 1 - magnitude)}f}"
