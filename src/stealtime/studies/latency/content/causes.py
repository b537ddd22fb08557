"""Whose fault the lost time is, as plain data: gathered by ``causes``, drawn by ``section_causes.html.jinja``."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stealtime.studies.latency.content.cause_palette import RT_THROTTLING, UNEXPLAINED

TINY_SHARE = 0.002
"""Causes below it are folded: a busy host has dozens of interrupts and threads that took a microsecond."""


@dataclass(frozen=True)
class CauseLine:
    """One cause of one cell: a line of its table."""

    family: str
    """A key of ``cause_palette.LOOKS``."""
    label: str
    lost_ns: float
    share: float
    """Of the excess of all judged spikes."""
    spikes: int
    largest_ns: float


@dataclass(frozen=True)
class StackPart:
    """One piece of a stacked bar."""

    family: str
    lost_ns: float
    share: float
    """Of the whole bar, which holds what was not judged too."""
    label: str
    """What the piece consists of, in words."""


@dataclass(frozen=True)
class SpikePart:
    """A part of a spike's excess."""

    family: str
    label: str
    ns: int
    """Rounded so that the parts of a spike add up to its excess."""


@dataclass(frozen=True)
class WorstSpike:
    """One of the longest spikes of a cell."""

    identity: str
    """Unique in the page, fit for an HTML id."""
    repetition: int
    index: int
    """Which sample it is."""
    at_s: float
    duration_ns: float
    excess_ns: int
    is_judged: bool
    parts: tuple[SpikePart, ...]
    """They add up to the excess; none if it was not judged."""
    drawing: Mapping[str, Any]
    """What ``templates/spike_figure.js`` reads."""

    @property
    def families(self) -> str:
        """The families of its parts, space-separated."""
        return " ".join(dict.fromkeys(part.family for part in self.parts)) if self.is_judged else "not_judged"


@dataclass(frozen=True)
class View:
    """One of the three instruments that see the time a machine could not run."""

    name: str
    ns: float | None
    absent_because: str | None


@dataclass(frozen=True)
class TraceFacts:
    """What one repetition's traces are worth."""

    repetition: int
    threshold_ns: float
    left_out: int
    """Spikes over the threshold that were too many, and shorter than all that were looked at."""
    scaled: int
    """Judged spikes whose causes took more than the excess, and were scaled down together."""
    steal_at_most_ns: float | None
    """How much of what is unexplained the host's own host can have taken."""
    time_line: str
    """How host and machine were put on one time line."""
    error_ns: float
    """The bound of that."""
    events: tuple[tuple[str, int, int], ...]
    """Whose events, how many, how many were lost."""
    steps: tuple[str, ...]
    """What tracing had to do without."""
    views: tuple[View, ...]
    agreement: str


@dataclass(frozen=True)
class Refused:
    """A trial whose spikes could not be attributed."""

    trial: str
    reason: str
    hint: str | None


@dataclass(frozen=True)
class TracedCell:
    """Whose fault the spikes of one cell are, of all its attributed repetitions together."""

    identity: str
    platform: str
    scenario: str
    probe: str
    """With its parameters, in words."""
    measured_s: float
    """How long was measured, all attributed repetitions together."""
    spikes: int
    judged: int
    not_judged: int
    excess_ns: float
    """Of the judged spikes: what the lines add up to."""
    not_judged_ns: float
    """Excess of the spikes that were not judged."""
    lines: tuple[CauseLine, ...]
    stack: tuple[StackPart, ...]
    worst: tuple[WorstSpike, ...]
    facts: tuple[TraceFacts, ...]
    rule: str
    refused: tuple[Refused, ...]

    @property
    def lost_ns_per_s(self) -> float:
        """Excess of all spikes in a second of measuring."""
        return (self.excess_ns + self.not_judged_ns) / self.measured_s if self.measured_s > 0 else 0.0

    @property
    def held_back_ns_per_s(self) -> float:
        """What the machine's own kernel, or the host's, took of it by its limit on real-time threads."""
        held_back_ns = sum(line.lost_ns for line in self.lines if line.family == RT_THROTTLING)
        return held_back_ns / self.measured_s if self.measured_s > 0 else 0.0

    @property
    def tiny_lines(self) -> tuple[CauseLine, ...]:
        """Causes that are too small to be listed one by one at first; ``unexplained`` is never among them."""
        tiny = tuple(line for line in self.lines if line.share < TINY_SHARE and line.family != UNEXPLAINED)
        return tiny if len(tiny) > 1 else ()

    @property
    def drawings(self) -> list[dict[str, Any]]:
        """What the page's scripts read of the longest spikes."""
        return [
            {
                **spike.drawing,
                "families": spike.families,
                "repetition": spike.repetition if len(self.facts) > 1 else None,
            }
            for spike in self.worst
        ]

    @property
    def summary(self) -> str:
        """The largest causes in a few words."""
        if not self.facts:
            return "not attributed"
        if not self.lines or self.excess_ns <= 0:
            return "no spike was judged" if self.spikes else "no spike"
        largest = [line for line in self.lines if line.lost_ns > 0][:2]
        return ", ".join(f"{line.share:.0%} {line.label}" for line in largest)


@dataclass(frozen=True)
class ProbeCauses:
    """All traced cells of one probe with its parameters: bars side by side, on one scale."""

    identity: str
    title: str
    cells: tuple[TracedCell, ...]

    @property
    def most_ns_per_s(self) -> float:
        """The longest absolute bar."""
        return max((cell.lost_ns_per_s for cell in self.cells), default=0.0)

    @property
    def held_back_alone(self) -> dict[str, tuple[TracedCell, ...]]:
        """By platform, the cells that a limit on real-time threads held back, and no other platform beside them."""
        found: dict[str, tuple[TracedCell, ...]] = {}
        for _, cells in self.scenarios:
            held_back = [cell for cell in cells if cell.held_back_ns_per_s > 0]
            if len(held_back) == 1 < len(cells):
                found[held_back[0].platform] = (*found.get(held_back[0].platform, ()), held_back[0])
        return found

    @property
    def scenarios(self) -> tuple[tuple[str, tuple[TracedCell, ...]], ...]:
        """The cells by scenario."""
        names = dict.fromkeys(cell.scenario for cell in self.cells)
        return tuple((name, tuple(cell for cell in self.cells if cell.scenario == name)) for name in names)


@dataclass(frozen=True)
class Shift:
    """How far tracing moved a figure, over pairs of trials."""

    median_ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True)
class OverheadLine:
    """What tracing cost in one cell."""

    cell: str
    pairs: int
    floor: Shift
    p999: Shift
    maximum: Shift
    words: str


@dataclass(frozen=True)
class Causes:
    """All that a report says about causes."""

    probes: tuple[ProbeCauses, ...]
    families: tuple[str, ...]
    """Those that occur, and always ``unexplained`` and ``not_judged``."""
    overheads: tuple[OverheadLine, ...]
    overhead_absent_because: str | None = None

    @property
    def cells(self) -> tuple[TracedCell, ...]:
        """All traced cells."""
        return tuple(cell for probe in self.probes for cell in probe.cells)
