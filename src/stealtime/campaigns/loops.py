"""Which busy loop a run measures with: that of an earlier run where it is as good, so that the two can be compared.

Each calibration finds other iterations, by some tenths of a percent on a quiet machine and by several percent on a busy
one. Two runs with different loops have done different work, and the median of ``tick`` shows nothing but that.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from stealtime.campaigns.intention import Intention
from stealtime.store.model import LoopRecord
from stealtime.store.run import Run, runs_in
from stealtime.vocabulary.errors import StealtimeError, UsageError
from stealtime.vocabulary.quantities import NANOSECONDS, format_duration
from stealtime.wire.connection import CALIBRATION_DEADLINE_S

REUSE_LIMIT = 0.05
"""A loop within this share of a new calibration is taken again: more apart, the machine is not as fast as it was."""
_RUNS_LOOKED_AT = 20
_CALIBRATION_TURNS = 16
"""At least, of each loop (``crates/probe/src/tick.rs``)."""


def earlier_loops(runs_folder: Path) -> dict[int, LoopRecord]:
    """Give the newest loop of each length that a run in ``runs_folder`` measured with; a damaged run has none."""
    loops: dict[int, LoopRecord] = {}
    for folder in reversed(runs_in(runs_folder)[-_RUNS_LOOKED_AT:]):
        try:
            run = Run.open(folder)
        except StealtimeError:
            continue
        for loop_ns, loop in _own_loops(run).items():
            loops.setdefault(loop_ns, loop)
    return loops


def choose_loop(calibrated: LoopRecord, earlier: Mapping[int, LoopRecord]) -> LoopRecord:
    """Give the earlier loop of the same length if it is within :data:`REUSE_LIMIT`, else the one just calibrated."""
    known = earlier.get(calibrated.loop_ns)
    if known is None or abs(calibrated.iterations / known.iterations - 1.0) > REUSE_LIMIT:
        return calibrated
    return known


def loops_of(run: Run, wanted_ns: set[int]) -> list[LoopRecord]:
    """Give the loops of ``run`` that the user asked to measure with, whatever a calibration here would find.

    Args:
        run: The one that is to be compared with.
        wanted_ns: The lengths that a plan needs.

    Raises:
        UsageError: The run has no loop of one of these lengths.
    """
    loops = _own_loops(run)
    for loop_ns in sorted(wanted_ns):
        if loop_ns not in loops:
            have = ", ".join(format_duration(each) for each in loops) or "none"
            raise UsageError(
                f"{run.run_id} measured with no loop of {format_duration(loop_ns)} (it has {have})",
                hint="choose the length with --loop, or leave --loop-of out",
            )
    return [loops[loop_ns] for loop_ns in sorted(wanted_ns)]


def refuse_loops_too_long(intention: Intention) -> Sequence[str]:
    """See that a calibration of each loop ends in time.

    Raises:
        UsageError: One does not.
    """
    longest_ns = int(CALIBRATION_DEADLINE_S * NANOSECONDS["s"]) // _CALIBRATION_TURNS
    for loop_ns in sorted(intention.plan.loops_ns):
        if loop_ns > longest_ns:
            raise UsageError(
                f"a loop of {format_duration(loop_ns)} is too long to be calibrated: {_CALIBRATION_TURNS} of them must "
                f"end within {CALIBRATION_DEADLINE_S:.0f} s",
                hint=f"choose one of {format_duration(longest_ns)} at most (--loop)",
            )
    return ()


def _own_loops(run: Run) -> dict[int, LoopRecord]:
    return {loop.loop_ns: loop.model_copy(update={"taken_from": run.run_id}) for loop in run.manifest.loops}
