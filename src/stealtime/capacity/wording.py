"""How a figure is called, and how its values are written, with their unit."""

from collections.abc import Callable


def unit_of(figure: str) -> tuple[str, Callable[[float], str]]:
    """Give the name of a figure without its unit, and what writes a value of it."""
    name, _, unit = figure.rpartition("_")
    if unit == "percent":
        return name.replace("_", " "), lambda value: f"{value:.3g} %"
    if unit == "ns":
        return name.replace("_", " "), duration
    return figure.replace("_", " "), lambda value: f"{value:.3g}"


def duration(figure_ns: float) -> str:
    """Write a duration with three digits."""
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(figure_ns) >= size_ns:
            return f"{figure_ns / size_ns:.3g} {unit}"
    return f"{figure_ns:.0f} ns"
