"""A row of little bars; pure."""

from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_MISSING = "·"


def sparkline(values: Sequence[float | None], *, highest: float = 100.0, width: int = 20) -> str:
    """Draw the last values as bars; what is missing is a dot, not the lowest bar.

    Args:
        values: Oldest first.
        highest: What the tallest bar stands for; greater values are drawn as it.
        width: How many are drawn.
    """
    drawn = []
    for value in values[-width:]:
        if value is None:
            drawn.append(_MISSING)
        else:
            share = min(max(value / highest, 0.0), 1.0)
            drawn.append(_BARS[min(int(share * len(_BARS)), len(_BARS) - 1)])
    return "".join(drawn).rjust(width)
