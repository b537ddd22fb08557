"""The rows of the live screen: what is shown of each guest, in which order, and which are left out; pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.rules import Verdict
from stealtime.capacity.severity import severity
from stealtime.capacity.stretching import stretch_of
from stealtime.capacity.use import GuestUse, run_percent
from stealtime.capacity.watch.state import Snapshot
from stealtime.vocabulary.readings import Absent

Key = tuple[int, int]
"""``Guest.key``."""


@dataclass(frozen=True, slots=True)
class Row:
    """One guest, now; percentages are of one CPU, None is absent."""

    key: Key
    name: str
    verdict: Verdict | None
    """None before the first."""
    vcpus: int
    run_percent: float | None
    """Of all its virtual CPUs."""
    wait_percent: float | None
    """Likewise, without its quota."""
    stretch: float | None
    """(run + wait) / run: how much longer its work takes than if it never waited for a CPU; None of one that idles."""
    wait_per_dispatch_ns: float | None
    """Of the virtual CPU that waits longest each time."""
    emulator_percent: float | None
    """Emulator and I/O."""


def row_of(key: Key, use: GuestUse, snapshot: Snapshot) -> Row:
    advice = snapshot.guests.get(key)
    verdict = None if advice is None else advice.judgement.verdict
    if use.unreadable is not None or not use.vcpus:
        return Row(key, use.guest.name, verdict, len(use.vcpus), None, None, None, None, None)
    run = sum(one.run_percent for one in use.vcpus.values())
    waits = [net_wait_percent(use, one) for one in use.vcpus.values()]
    known_waits = [one for one in waits if not isinstance(one, Absent)]
    wait = sum(known_waits) if len(known_waits) == len(waits) else None
    each = [one.wait_per_dispatch_ns for one in use.vcpus.values()]
    others = [run_percent(one) for one in (use.emulator, use.io)]
    known = [one for one in others if not isinstance(one, Absent)]
    return Row(
        key=key,
        name=use.guest.name,
        verdict=verdict,
        vcpus=len(use.vcpus),
        run_percent=run,
        wait_percent=wait,
        stretch=None if isinstance(stretch := stretch_of([use]), Absent) else stretch,
        wait_per_dispatch_ns=max((one for one in each if not isinstance(one, Absent)), default=None),
        emulator_percent=sum(known) if known else None,
    )


def _descending(figure: float | None) -> tuple[bool, float]:
    return figure is None, -(figure or 0.0)


ORDERS: Final[Mapping[str, Callable[[Row], tuple[object, ...]]]] = {
    "worst": lambda row: (severity(row.verdict), _descending(row.wait_percent), row.name),
    "wait": lambda row: (_descending(row.wait_percent), row.name),
    "stretch": lambda row: (_descending(row.stretch), row.name),
    "run": lambda row: (_descending(row.run_percent), row.name),
    "name": lambda row: (row.name,),
}
"""By what rows can be sorted."""


class Order:
    """In which order guests stand. They stay where they are until they are sorted anew: who reads a line keeps it."""

    def __init__(self) -> None:
        self._keys: list[Key] = []
        self.by = "worst"
        self.part = ""
        """Guests whose name does not hold it are left out."""

    def sort(self, rows: Sequence[Row], by: str) -> None:
        self.by = by
        self._keys = [row.key for row in sorted(rows, key=ORDERS[by])]

    def shown(self, rows: Sequence[Row]) -> list[Row]:
        """Give the rows to show: those that began since stand at the end, those that have ended are gone."""
        current = {row.key: row for row in rows}
        known = set(self._keys)
        self._keys = [key for key in self._keys if key in current] + [row.key for row in rows if row.key not in known]
        part = self.part.casefold()
        return [current[key] for key in self._keys if part in current[key].name.casefold()]
