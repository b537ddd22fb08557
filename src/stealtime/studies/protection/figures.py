"""What a cell holds beside the declared figures, and what of it is held against a threshold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from stealtime.hosts.counted_figures import CountedFigures
from stealtime.report.catalogue.failovers import limits_of_failovers
from stealtime.report.cells.model import Bounded
from stealtime.store.model import Cell


class ProtectionFigures(CountedFigures):
    """A cell of this study."""

    study: Literal["protection"] = "protection"
    pages_wrong: int = 0
    """Of the guest's own memory, by its own check after each failover."""
    connections_lost: int
    """TCP connections that did not live through the failover."""
    unanswered_protocols: dict[str, int] = Field(default_factory=dict)
    """After how many failovers nothing was answered any more over a protocol."""

    @classmethod
    def more(cls, cell: Cell, results: Sequence[Any]) -> Mapping[str, Any]:
        silent = Counter(name for one in results for name in getattr(one, "unanswered_protocols", ()))
        return {**super().more(cell, results), "unanswered_protocols": dict(silent)}

    def limits_by(self, results: Sequence[Any]) -> Sequence[str]:
        return [*self.gone, *limits_of_failovers(results)]

    def bounded(self) -> Bounded:
        """Give the longest silence over TCP or UDP of a client whose guest's host died."""
        # What is gone does not come back in any time.
        if self.gone:
            return Bounded(None, endless="; ".join(self.gone))
        silences = [self.figure(name).largest for name in ("silence_tcp_ns", "silence_udp_ns")]
        return Bounded(max((one for one in silences if one is not None), default=None))

    @property
    def gone(self) -> list[str]:
        """Say what was lost."""
        told = self.violations_in_words
        told += [f"{self.pages_wrong} pages of the guest's memory are wrong"] if self.pages_wrong else []
        lost = self.connections_lost
        told += [f"{lost} of {self.repetitions} TCP connections were lost"] if lost else []
        return [*told, *self.silences]

    @property
    def silences(self) -> list[str]:
        """Say over what nothing was answered any more."""
        told = "nothing was answered any more after"
        return [f"over {name.upper()} {told} {count} failovers" for name, count in self.unanswered_protocols.items()]
