"""The figures of a cell in whose trials a client counted with a guest; :mod:`.counted_result` is what those stored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from stealtime.report.catalogue.cell import CatalogueCell
from stealtime.store.model import Cell


class CountedFigures(CatalogueCell):
    """What clients were told in all repetitions."""

    acknowledged: int
    """Values that clients were told."""
    unanswered: int
    """Requests that were not answered when the client ended."""
    violations: dict[str, int]
    """What a client saw that must not happen, by kind: values that were forgotten, repeated or wrong."""

    @classmethod
    def more(cls, _cell: Cell, results: Sequence[Any]) -> Mapping[str, Any]:
        return {"violations": dict(sum((Counter(one.violations) for one in results), Counter[str]()))}

    @property
    def wrong(self) -> int:
        """How often something was seen that must not happen."""
        return sum(self.violations.values())

    @property
    def violations_in_words(self) -> list[str]:
        """Say each of it."""
        return [f"clients saw what must not happen: {count} x {one}" for one, count in sorted(self.violations.items())]
