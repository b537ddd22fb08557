"""What of a trial travels: all but its samples and traces, which stay with the host."""

from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 8 << 20
"""Of one trial; the counts of one take some KiB."""
_STAYS = ("samples", "events", "iterations", "jobs", "host_trace", "machine_trace")
"""Parquet files with a row for each sample or event."""


@dataclass(frozen=True)
class Parcel:
    """The files of one trial."""

    files: dict[str, bytes]
    left: tuple[str, ...]
    """Names of those that stay with the host."""


def travels(trial: Path) -> Parcel:
    """Read what of a trial travels; of what is too much for one message the largest files stay, by name."""
    files: dict[str, bytes] = {}
    left: list[str] = []
    for path in sorted(trial.iterdir(), key=lambda one: (one.stat().st_size, one.name)):
        too_much = sum(map(len, files.values())) + path.stat().st_size > MOST_BYTES
        if path.stem.split(".")[0] in _STAYS or too_much or not path.is_file():
            left.append(path.name)
        else:
            files[path.name] = path.read_bytes()
    return Parcel(files, tuple(sorted(left)))
