"""The progress of a run on stderr: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from stealtime.campaigns.events import (
    Booting,
    Calibrating,
    CellCutShort,
    CellDropped,
    CellFailed,
    CellMeasured,
    CellPreparing,
    CellProgressed,
    CellStarted,
    CellStopping,
    CellStoring,
    Event,
    MachineLost,
    Observer,
    RunStarted,
)
from stealtime.campaigns.planned import PlannedCell
from stealtime.campaigns.validity import is_usable, not_as_asked, reasons_of, too_short
from stealtime.store.model import Failure, TrialRecord
from stealtime.vocabulary.quantities import approximate_duration

_REFRESHES_A_SECOND = 4
"""Drawing costs under a millisecond of a housekeeping CPU; more would only cost more."""
_BAR_WIDTH = 24
_TAIL_LINES_SHOWN = 5


@contextmanager
def show_progress(console: Console) -> Iterator[Observer]:
    """Give an observer that shows what happens on ``console`` until the context is left."""
    # On a terminal that cannot move its cursor (TERM=dumb), rich shows nothing that is live.
    if not console.is_terminal or console.is_dumb_terminal:
        yield PlainProgress(console)
        return
    progress = LiveProgress(console)
    with Live(console=console, refresh_per_second=_REFRESHES_A_SECOND, get_renderable=progress.render, transient=True):
        yield progress


class PlainProgress:
    """One line an event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._count = 0
        self._total = 0

    def on_event(self, event: Event) -> None:
        """Write a line, if ``event`` deserves one."""
        match event:
            case RunStarted(plan, expected_s, _):
                self._total = len(plan.cells)
                self._say(f"{self._total} cells, about {approximate_duration(expected_s)}")
            case Calibrating():
                self._say("calibrating the busy loop")
            case Booting(boot, again):
                self._say(f"booting {boot.platform}{' once more' if again else ''}")
            case CellMeasured(cell, record):
                self._count += 1
                self._say(f"[{self._count}/{self._total}] {cell.trial_id}: {outcome_words(record)}")
            case CellFailed(cell, failure):
                self._count += 1
                self._say(f"[{self._count}/{self._total}] {cell.trial_id}: failed")
                for line in failure_lines(failure):
                    self._say(f"    {line}")
            case CellPreparing(cell, words):
                self._say(f"{cell.trial_id}: {words}")
            case CellStopping(cell):
                self._say(stopping_words(cell))
            case CellCutShort(cell, record):
                self._say(f"{cell.trial_id}: {outcome_words(record)}")
            case CellDropped(cell):
                self._say(dropped_words(cell))
            case MachineLost(boot, reason):
                self._say(f"{boot.platform} was lost: {reason}")
            case CellStarted() | CellProgressed() | CellStoring():
                pass

    def _say(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


class LiveProgress:
    """A bar with the cell, elapsed and remaining time and the current maximum; failures stay above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._begin = time.monotonic()
        self._expected_s = 0.0
        self._done = 0
        self._total = 0
        self._doing = "starting"
        self._cell: PlannedCell | None = None
        self._cell_begin = 0.0
        self._max_ns: float | None = None

    def on_event(self, event: Event) -> None:
        """Take note; what is shown is drawn by :meth:`render`."""
        match event:
            case RunStarted(plan, expected_s, _):
                self._begin = time.monotonic()
                self._expected_s = expected_s
                self._total = len(plan.cells)
            case Calibrating():
                self._doing = "calibrating the busy loop"
            case Booting(boot, again):
                self._cell = None
                self._doing = f"booting {boot.platform}{' once more' if again else ''}"
            case CellStarted(cell):
                self._cell, self._cell_begin, self._max_ns = cell, time.monotonic(), None
                self._doing = cell.trial_id
            case CellPreparing(cell, words):
                self._doing = f"{cell.trial_id} ({words})"
            case CellProgressed(_, _, _, max_ns):
                self._max_ns = max_ns
            case CellStoring(cell):
                self._doing = f"{cell.trial_id} (storing)"
            case CellMeasured(cell, record):
                self._done += 1
                words = outcome_words(record)
                if not is_usable(record) or too_short(record) is not None or not_as_asked(record):
                    self._console.print(Text(f"{cell.trial_id}: {words}", style="yellow"))
            case CellFailed(cell, failure):
                self._done += 1
                self._console.print(Text(f"{cell.trial_id}: failed", style="red"))
                for line in failure_lines(failure):
                    self._console.print(Text(f"    {line}"), soft_wrap=True)
            case CellStopping(cell):
                self._doing = stopping_words(cell)
            case CellCutShort(cell, record):
                self._console.print(Text(f"{cell.trial_id}: {outcome_words(record)}", style="yellow"))
            case CellDropped(cell):
                self._console.print(Text(dropped_words(cell), style="yellow"))
            case MachineLost(boot, reason):
                self._console.print(Text(f"{boot.platform} was lost: {reason}", style="yellow"))

    def render(self) -> Text:
        """Draw what is going on now, in two lines."""
        elapsed_s = time.monotonic() - self._begin
        left_s = max(0.0, self._remaining_s(elapsed_s))
        line = _bar(self._done, self._total)
        line.append(f" {self._done}/{self._total}  elapsed {approximate_duration(elapsed_s)}")
        line.append(f"  left about {approximate_duration(left_s)}\n")
        line.append(self._doing, style="bold")
        line.append(self._cell_words())
        return line

    def _remaining_s(self, elapsed_s: float) -> float:
        """Start from the plan's estimate and lean on what was seen as more cells are done."""
        if not self._done:
            return self._expected_s - elapsed_s
        share = self._done / self._total
        seen_s = elapsed_s / share
        return (1 - share) * self._expected_s + share * seen_s - elapsed_s

    def _cell_words(self) -> str:
        if self._cell is None:
            return ""
        words = f"  {min(time.monotonic() - self._cell_begin, self._cell.duration_ns / 1e9):.1f} s"
        words += f" of {approximate_duration(self._cell.duration_ns / 1e9)}"
        return words if self._max_ns is None else f"{words}, max {self._max_ns / 1000:.1f} us"


def stopping_words(cell: PlannedCell) -> str:
    return f"{cell.trial_id}: taking what was measured so far; Ctrl-C once more gives it up"


def dropped_words(cell: PlannedCell) -> str:
    """Say that an interruption left nothing of a trial."""
    return f"{cell.trial_id}: interrupted before it had a figure; nothing of it is kept"


def outcome_words(record: TrialRecord) -> str:
    """Say in a few words what came of a trial: the number of samples, and why it is invalid if it is."""
    count = None if record.outcome is None else record.outcome.counters.get("recorded")
    words = f"{count} samples" if count is not None else record.state
    if invalid := reasons_of([record])[0]:
        return f"{words}, {'invalid' if record.cut_short is None else 'cut short'}: {'; '.join(invalid)}"
    short = too_short(record)
    return "; ".join([words if short is None else f"{words}, {short}", *not_as_asked(record)])


def failure_lines(failure: Failure) -> list[str]:
    """Give the lines that tell of a failure: message, hint, and the end of the machine's log."""
    lines = [failure.message]
    if failure.hint is not None:
        lines.append(f"hint: {failure.hint}")
    lines += [f"| {line}" for line in failure.log_tail[-_TAIL_LINES_SHOWN:]]
    return lines


def _bar(done: int, total: int) -> Text:
    filled = _BAR_WIDTH * done // total if total else 0
    return Text("━" * filled, style="green") + Text("━" * (_BAR_WIDTH - filled), style="bright_black")
