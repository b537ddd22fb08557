"""What a cell holds beside the declared figures, and what of it is held against a threshold."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.report.catalogue.failovers import limits_of_failovers
from stealtime.report.cells.model import Bounded
from stealtime.store.model import Cell


class ProtectionFigures(CatalogueCell):
    """A cell of this study."""

    study: Literal["protection"] = "protection"
    acknowledged: int
    """Values that clients were told, in all repetitions."""
    unanswered: int
    """Requests that were not answered when the client ended."""
    violations: dict[str, int]
    """What a client saw that must not happen, by kind: values that were forgotten, repeated or wrong."""
    pages_wrong: int = 0
    """Of the guest's own memory, by its own check after each failover."""
    connections_lost: int
    """TCP connections that did not live through the failover."""
    unanswered_protocols: dict[str, int] = Field(default_factory=dict)
    """After how many failovers nothing was answered any more over a protocol."""

    @classmethod
    def more(cls, _cell: Cell, results: Sequence[Any]) -> Mapping[str, Any]:
        violations = sum((Counter(one.violations) for one in results), Counter[str]())
        silent = Counter(name for one in results for name in getattr(one, "unanswered_protocols", ()))
        return {"violations": dict(violations), "unanswered_protocols": dict(silent)}

    def limits_by(self, results: Sequence[Any]) -> Sequence[str]:
        return [*self._wrongs, *self.silences, *limits_of_failovers(results)]

    def bounded(self) -> Bounded:
        """Give the longest silence over TCP or UDP of a client whose guest's host died."""
        lost = self.connections_lost
        cut = [f"{lost} of {self.repetitions} TCP connections were lost"] if lost else []
        # What is gone does not come back in any time.
        if gone := self._wrongs or cut or self.silences:
            return Bounded(None, endless="; ".join(gone))
        silences = [self.figure(name).largest for name in ("silence_tcp_ns", "silence_udp_ns")]
        return Bounded(max((one for one in silences if one is not None), default=None))

    @property
    def wrong(self) -> int:
        """How often something was seen that must not happen."""
        return sum(self.violations.values())

    @property
    def _wrongs(self) -> list[str]:
        told = [f"clients saw what must not happen: {self.violations[one]} x {one}" for one in sorted(self.violations)]
        return [*told, f"{self.pages_wrong} pages of the guest's memory are wrong"] if self.pages_wrong else told

    @property
    def silences(self) -> list[str]:
        """Say over what nothing was answered any more."""
        told = "nothing was answered any more after"
        return [f"over {name.upper()} {told} {count} failovers" for name, count in self.unanswered_protocols.items()]
