"""In which order runs were measured, also where the clock was set back between two of them.

Names and ``created_at`` are of the wall clock. So each run also notes ``taken_up_at`` when it is begun and whenever it
is resumed: the time of the clock, or just after the latest of the runs beside it, whichever is later. That is the clock
part of hybrid logical clocks (Kulkarni et al., "Logical Physical Clocks", OPODIS 2014): never out of order for what
happens in one folder, and as near to the clock as that allows, so that runs from elsewhere fall into their place.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

_TICK = timedelta(microseconds=1)
"""The least difference of two times."""


def moment_of(manifest: Path) -> datetime:
    """Tell when a run was begun or resumed last; of one whose manifest is damaged, when that was written.

    Args:
        manifest: Its ``manifest.json``; only what is needed is read of it.
    """
    try:
        document = json.loads(manifest.read_bytes())
        told = document.get("taken_up_at")
        if told is None:
            # An earlier version has no better.
            told = max([document["created_at"], *(one["at"] for one in document.get("provenance", []))])
        moment = datetime.fromisoformat(told)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return _written_at(manifest)


def moment_after(manifests: Iterable[Path], now: datetime) -> datetime:
    """Give the moment of a run that is taken up now.

    Args:
        manifests: Of the runs beside it, and its own where it is resumed.
        now: By the clock.
    """
    return max([now, *(moment_of(manifest) + _TICK for manifest in manifests)])


def _written_at(manifest: Path) -> datetime:
    try:
        return datetime.fromtimestamp(manifest.stat().st_mtime, UTC)
    except OSError:
        return datetime.fromtimestamp(0, UTC)
