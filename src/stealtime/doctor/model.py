"""The finding: a level, the value that was read, why it matters and how to fix it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Union

from stealtime.vocabulary.readings import Absent, Model, Reading, Value

Data = Union[None, bool, int, float, str, Sequence["Data"], Mapping[str, "Data"]]  # noqa: UP007 - recursive
"""What JSON can hold; unlike pydantic's ``JsonValue`` it takes a ``list[str]`` as it is."""


class Level(StrEnum):
    """How much a finding matters to the main job: measuring this machine against its virtual machines."""

    OK = "ok"
    LIMITS = "limits"
    """Measuring works, but results are worse, or mean less, than they could."""
    BLOCKS = "blocks"
    """The main job cannot be done."""


class Group(StrEnum):
    """The headings of the table, in its order."""

    PLATFORMS = "platforms"
    SCHEDULING = "scheduling"
    CLOCK = "clock"
    PROCESSOR = "processor"
    MEMORY = "memory"
    TRACING = "tracing and counters"
    STORAGE = "programs and storage"


class Finding(Model):
    """One thing that was looked at."""

    id: str
    """A fixed name for scripts: ``rt_throttling``."""
    group: Group
    title: str
    level: Level
    text: str
    """One sentence with the value."""
    reading: Reading
    """The value for programs, units in its keys; or why there is none."""
    why: str
    """What it does to a result."""
    fix: str | None
    """A command, or what to change in which file; None if there is nothing to mend."""


@dataclass(frozen=True)
class Subject:
    """What stays the same about a finding, whatever is read."""

    id: str
    group: Group
    title: str
    why: str

    def ok(self, text: str, value: Data) -> Finding:
        return self._finding(Level.OK, text, Value.model_validate({"value": value}), None)

    def limits(self, text: str, value: Data, fix: str | None) -> Finding:
        """Results are worse, or mean less, than they could."""
        return self._finding(Level.LIMITS, text, Value.model_validate({"value": value}), fix)

    def blocks(self, text: str, value: Data, fix: str) -> Finding:
        """The main job cannot be done."""
        return self._finding(Level.BLOCKS, text, Value.model_validate({"value": value}), fix)

    def absent(self, level: Level, absent: Absent, fix: str | None = None) -> Finding:
        """Nothing could be read; ``level`` says what that means here."""
        return self._finding(level, absent.absent, absent, fix)

    def _finding(self, level: Level, text: str, reading: Reading, fix: str | None) -> Finding:
        return Finding(
            id=self.id,
            group=self.group,
            title=self.title,
            level=level,
            text=text,
            reading=reading,
            why=self.why,
            fix=fix,
        )
