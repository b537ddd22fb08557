"""What became of each threshold, as a list: failed and by how much, not judged and why, passed. The worst first.

It is what ``run --max-overhead`` and ``show --accept`` show before everything else, in the terminal and on the page.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from stealtime.report.acceptance.document import Acceptance
from stealtime.report.acceptance.wording import sentence
from stealtime.report.cells.figures import NamedCell
from stealtime.report.gate import Gate
from stealtime.report.plain_table import cell_title

Outcome = Literal["fail", "not judged", "pass"]
_WORST_FIRST: tuple[Outcome, ...] = ("fail", "not judged", "pass")
_OF_GATE: dict[str, Outcome] = {"exceeded": "fail", "not judged": "not judged", "passed": "pass"}
_OF_BARS: dict[str, Outcome] = {
    "failed": "fail",
    "not judged": "not judged",
    "watched too short": "not judged",
    "passed": "pass",
}
_SAID = "not judged: "
"""The outcome says that already."""
SHOWN = 10
"""More are counted: the document and the JUnit file have all."""


@dataclass(frozen=True)
class VerdictLine:
    """One threshold of one cell, or some that are left out."""

    outcome: Outcome
    name: str
    words: str


@dataclass(frozen=True)
class Verdicts:
    """A run held against thresholds."""

    title: str
    verdict: str
    """The worst, in the words of its document."""
    outcome: Outcome
    """What that is here."""
    lines: Sequence[VerdictLine]


def verdicts_of_gate(gate: Gate) -> Verdicts:
    """Give what became of the thresholds of a run; a cell that others are held against has no line."""
    several = len({one.scenario for one in gate.cells}) > 1
    lines = [
        VerdictLine(_OF_GATE[one.verdict], _name(one, several=several), one.brief)
        for one in gate.cells
        if one.verdict in _OF_GATE
    ]
    outcome = _OF_GATE[gate.verdict]
    return _made(f"--max-overhead {', '.join(gate.thresholds)}", lines, outcome, outcome)


def verdicts_of_bars(acceptance: Acceptance) -> Verdicts:
    """Give what became of the bars that a run was held against."""
    several = len({one.scenario for one in acceptance.cells}) > 1
    lines = [
        VerdictLine(
            _OF_BARS[one.verdict], f"{_name(one, several=several)} {one.quantity}", sentence(one).removeprefix(_SAID)
        )
        for one in acceptance.cells
    ]
    lines += [
        VerdictLine("not judged", quantity, "no cell of this run measures it") for quantity in acceptance.unmeasured
    ]
    lines += [VerdictLine("not judged", "the run", words) for words in acceptance.missing]
    return _made(acceptance.bars, lines, acceptance.verdict, _OF_BARS[acceptance.verdict])


def _name(one: NamedCell, *, several: bool) -> str:
    scenario = f" in {one.scenario}" if several else ""
    return f"{one.platform} {cell_title(one.probe, one.parameters)}{scenario}"


def _made(title: str, lines: Sequence[VerdictLine], verdict: str, outcome: Outcome) -> Verdicts:
    ordered = sorted(lines, key=lambda one: _WORST_FIRST.index(one.outcome))
    left = Counter(one.outcome for one in ordered[SHOWN:])
    more = [VerdictLine(one, f"{left[one]} more", "") for one in _WORST_FIRST if left[one]]
    return Verdicts(title, verdict, outcome, [*ordered[:SHOWN], *more])
