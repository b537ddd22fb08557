"""A run as one trace file: for each trial what its study draws, its kernels' events, and its neighbours."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stealtime.lab.platforms.traits import traits_of
from stealtime.report.marks import Arguments, Mark, Slice, Track, TrialMarks
from stealtime.report.perfetto.kernel import KernelMarks, neighbour_marks
from stealtime.report.perfetto.writer import PerfettoWriter, Written
from stealtime.report.studies import study_of
from stealtime.store.export import whole_or_absent
from stealtime.store.host_line import CounterLine, HostLine, NotOnHostClock, host_line
from stealtime.store.run import Run, Trial
from stealtime.store.writer import disk_errors
from stealtime.vocabulary.errors import StealtimeError
from stealtime.wire.message import TracingOutcome

_OTHER_BOOT_NS = 60_000_000_000
"""The host's clock and the time of day may drift apart by a little over a run, and by much more only over a boot."""


@dataclass
class WrittenRun:
    """What of a run is in the file, and what is not."""

    written: Written
    trials: int = 0
    left_out: list[str] = field(default_factory=list)
    """A sentence each."""


def write_perfetto(run: Run, target: Path, on_trial: Callable[[str], None] = lambda _: None) -> WrittenRun:
    """Write all trials that lie on the host's clock.

    Args:
        run: Its damaged tables raise; a trial without a place on the host's clock is left out.
        target: Is whole, or absent.
        on_trial: Hears which trial is being written.

    Raises:
        StealtimeError: Nothing can be written, a table is damaged, or the library is not installed.
    """
    found = [(trial, line) for trial in run.measured for line in [_line_of(trial)]]
    placed = [(trial, line) for trial, line in found if not isinstance(line, NotOnHostClock)]
    if not placed:
        raise StealtimeError(
            f"nothing of {run.run_id} lies on the host's clock",
            hint=next((line.message for _, line in found if isinstance(line, NotOnHostClock)), None),
        )
    began = {trial.record.trial_id: _realtime_minus_raw(trial, line) for trial, line in placed}
    first = placed[0][0].record
    realtime_ns = round(first.started_at.timestamp() * 1e9)
    raw_ns = realtime_ns - began[first.trial_id]
    with (
        whole_or_absent(target),
        disk_errors(target),
        PerfettoWriter(target, raw_ns=raw_ns, realtime_ns=realtime_ns) as writer,
    ):
        told = WrittenRun(writer.written)
        told.left_out += [line.message for _, line in found if isinstance(line, NotOnHostClock)]
        for trial, line in placed:
            on_trial(trial.record.trial_id)
            apart_ns = began[trial.record.trial_id] - began[first.trial_id]
            if abs(apart_ns) > _OTHER_BOOT_NS:
                told.left_out.append(f"{trial.record.trial_id} was measured after another boot of the host")
                continue
            writer.write(_marks_of(trial, line, told.left_out))
            told.trials += 1
    return told


def _line_of(trial: Trial) -> "HostLine | NotOnHostClock":
    study = study_of(trial.record.cell.probe)
    try:
        return study.host_line(trial) or host_line(trial.record)
    except NotOnHostClock as error:
        return error


def _realtime_minus_raw(trial: Trial, line: HostLine) -> int:
    """Tell boots of the host apart: in one, this stays nearly the same."""
    return round(trial.record.started_at.timestamp() * 1e9) - line.machine.at_ns


def _marks_of(trial: Trial, line: HostLine, left_out: list[str]) -> Iterator[Mark]:
    record = trial.record
    root = Track(record.trial_id)
    told: TrialMarks = study_of(record.cell.probe).marks(trial, line, root)
    better = told.line or line
    left_out += [f"{record.trial_id}: {sentence}" for sentence in told.left_out]
    if record.outcome is not None:
        yield _whole_trial(trial, better, Track("trial", root))
    yield from told.marks
    machine = None if record.outcome is None else record.outcome.tracing
    for path, tracing, whose, counter in (
        (trial.host_trace_path, record.host_tracing, "host", better.host),
        (trial.machine_trace_path, machine, "machine", better.machine),
    ):
        if path is not None and tracing is not None and counter is not None:
            yield from _kernel(path, tracing, Track(f"{whose}'s kernel", root), counter)
    if trial.neighbours_path is not None:
        if better.host is None:
            left_out.append(f"{record.trial_id}: neighbours, as the host was not traced: its counter has no time")
        else:
            yield from neighbour_marks(trial.neighbours_path, Track("neighbours", root), better.host)


def _whole_trial(trial: Trial, line: HostLine, track: Track) -> Slice:
    """Draw the trial itself, with how well its place is known."""
    record = trial.record
    assert record.outcome is not None  # noqa: S101 - who calls has looked
    begin, end = line.machine.moments([record.outcome.clock.start.tsc, record.outcome.clock.end.tsc]).tolist()
    told: Arguments = {
        "clock": "CLOCK_MONOTONIC_RAW of the host",
        "error bound in ns": line.error_ns,
        "placed by": line.method,
        "platform": record.cell.platform,
        "scenario": record.cell.scenario,
        "repetition": record.repetition,
        "is native": traits_of(record.cell.platform).is_native,
    }
    return Slice(track, begin, end - begin, record.cell.measurement, "trial", told)


def _kernel(path: Path, tracing: TracingOutcome, parent: Track, counter: CounterLine) -> Iterator[Mark]:
    return KernelMarks(parent, counter, tracing.names).of(path)
