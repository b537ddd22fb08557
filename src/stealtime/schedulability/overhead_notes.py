"""What a CSV of overheads says about itself: ``# key: value`` lines, which SchedCAT's files do not have.

| key | value |
| -- | -- |
| ``statistic`` | ``average``, ``p99``, ``p99.9`` or ``worst`` |
| ``machine`` | that was measured |
| ``tick-period-ns`` | from one tick to the next |
| ``seed`` | of the draw of equally many samples, where not all were taken |
| ``samples`` | ``NAME=N/N/N`` with commas between them: one N for each row, or one for all |
| ``boundaries``, ``discards`` | ``NAME=VALUE`` with commas between them |
| ``not-charged`` | ``NAME=LONGEST/COUNT/SHARE`` with commas between them, in ns, times and parts of a million |
| ``interference`` | ``NAME=COST/PERIOD/JITTER`` in ns, several with ``;``: its curves, as `overhead_seen` has them |

Other comments are left alone.
"""

from collections.abc import Iterable, Mapping

KEYS = (
    "statistic",
    "machine",
    "tick-period-ns",
    "seed",
    "samples",
    "boundaries",
    "discards",
    "not-charged",
    "interference",
)


def read_notes(lines: Iterable[str]) -> dict[str, str]:
    """Give the notes among the lines of a file; of a key that comes twice the last."""
    notes = {}
    for line in lines:
        key, colon, value = line.lstrip("#").partition(":")
        if line.startswith("#") and colon and key.strip() in KEYS:
            notes[key.strip()] = value.strip()
    return notes


def note(key: str, value: str) -> str:
    return f"# {key}: {value}\n"


def joined(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def parted(text: str) -> dict[str, str]:
    """Read what :func:`joined` wrote."""
    pairs = (pair.strip().partition("=") for pair in text.split(",") if pair.strip())
    return {name: value for name, _, value in pairs}
