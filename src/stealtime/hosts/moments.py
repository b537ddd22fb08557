"""When the epochs of a guest were, and its host died: what a trial keeps of that, and how its time line shows it."""

import time
from collections.abc import Iterator

from stealtime.hosts.counting import Watched
from stealtime.hosts.guest import Fault
from stealtime.report.marks import Arguments, Instant, Mark, Slice, Track, TrialMarks, next_flow
from stealtime.store.host_line import CounterLine, HostLine, NotOnHostClock
from stealtime.store.run import Trial
from stealtime.vocabulary.readings import Model


class ClockPair(Model):
    """Two clocks of the host that keeps the run, read back to back."""

    monotonic_ns: int
    monotonic_raw_ns: int


class Moments(Model):
    """When things happened, by ``CLOCK_MONOTONIC`` of the host that keeps the run.

    The lists have a place for each epoch that began while the client counted and before any fault.
    """

    clocks: tuple[ClockPair, ClockPair]
    """At the beginning and at the end of the trial: they may run apart, as one of them is slewed."""
    error_ns: int
    """How far the moments can be off, where another host's clock told them."""
    epoch: list[int]
    """Its number."""
    begin_ns: list[int]
    """When the guest was told to stop."""
    pause_ns: list[int]
    """For how long it stood still."""
    cut_ns: list[int]
    """From the begin until its output was cut ..."""
    hold_ns: list[int]
    """... and from there until it was released."""
    pages: list[int]
    shipped_bytes: list[int]
    struck_ns: int | None = None
    """When the host died; None without a fault."""
    running_ns: int | None = None
    """When the guest ran again."""


def read_clocks() -> ClockPair:
    return ClockPair(monotonic_ns=time.monotonic_ns(), monotonic_raw_ns=time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW))


def moments_of(watched: Watched, before: ClockPair, fault: Fault | None = None) -> Moments | None:
    """Give when the epochs were, on our clock; None without protection."""
    rows, clock = watched.epochs, watched.clock
    if not rows:
        return None
    plain = {name: [row[name] for row in rows] for name in ("epoch", "pause_ns", "hold_ns", "pages", "shipped_bytes")}
    return Moments(
        clocks=(before, read_clocks()),
        error_ns=max(clock.error_at_ns(clock.ours_ns(row["begin_ns"])) for row in rows)
        + (0 if fault is None else fault.error_ns),
        begin_ns=[clock.ours_ns(row["begin_ns"]) for row in rows],
        cut_ns=[row["stop_ns"] + row["cut_ns"] for row in rows],
        struck_ns=None if fault is None else fault.struck_ns,
        running_ns=None if fault is None else fault.running_ns,
        **plain,
    )


def line_of(trial: Trial) -> HostLine:
    """Find where a trial lies on the host's clock: its moments are of ``CLOCK_MONOTONIC``.

    Raises:
        NotOnHostClock: It tells of no moments.
    """
    moments = _moments_of(trial)
    if moments is None:
        raise NotOnHostClock(f"{trial.record.trial_id} tells no moments: it was unprotected, or is of an older version")
    begin, end = moments.clocks
    elapsed_ns = end.monotonic_ns - begin.monotonic_ns
    if elapsed_ns <= 0:
        raise NotOnHostClock(f"the clock of {trial.record.trial_id} moved by {elapsed_ns} ns over the trial")
    rate = (end.monotonic_raw_ns - begin.monotonic_raw_ns) / elapsed_ns
    line = CounterLine(begin.monotonic_ns, begin.monotonic_raw_ns, rate)
    return HostLine(None, line, float(moments.error_ns), "CLOCK_MONOTONIC of the host that keeps the run")


def marks_of(trial: Trial, line: HostLine, root: Track) -> TrialMarks:
    """Draw a trial; see ``report.study.ReportedStudy.marks``."""
    moments = _moments_of(trial)
    return TrialMarks(line) if moments is None else TrialMarks(line, _marks(moments, line, root, trial))


def _moments_of(trial: Trial) -> Moments | None:
    stored = None if trial.record.result is None else trial.record.result.model_dump().get("moments")
    return None if stored is None else Moments.model_validate(stored)


def _marks(moments: Moments, line: HostLine, root: Track, trial: Trial) -> Iterator[Mark]:
    clock = line.machine
    begin, end = (pair.monotonic_raw_ns for pair in moments.clocks)
    told: Arguments = {
        "clock": "CLOCK_MONOTONIC_RAW of the host",
        "error bound in ns": line.error_ns,
        "placed by": line.method,
    }
    yield Slice(Track("trial", root), begin, end - begin, trial.record.cell.measurement, "trial", told)
    pauses = Track("epochs", root)
    lanes: list[Track] = []
    free_from: list[int] = []
    for number, began_ns, pause_ns, cut_ns, hold_ns, pages, shipped in zip(
        moments.epoch, moments.begin_ns, moments.pause_ns, moments.cut_ns, moments.hold_ns, moments.pages,
        moments.shipped_bytes, strict=True,
    ):  # fmt: skip
        at_ns, runs_ns, held_ns, released_ns = clock.moments(
            [began_ns, began_ns + pause_ns, began_ns + cut_ns, began_ns + cut_ns + hold_ns]
        ).tolist()
        counted = {"epoch": number, "pages": pages, "shipped bytes": shipped}
        flow = next_flow()
        yield Slice(pauses, at_ns, runs_ns - at_ns, "pause", "epoch", counted, (flow,))
        # Several epochs may be on their way: the output of each is held on a track that is free.
        lane = next((lane for lane, free_ns in enumerate(free_from) if free_ns <= held_ns), len(lanes))
        if lane == len(lanes):
            lanes.append(Track("output held" if lane == 0 else f"output held ({lane + 1})", root))
            free_from.append(0)
        free_from[lane] = released_ns
        yield Slice(lanes[lane], held_ns, released_ns - held_ns, "held", "epoch", {"epoch": number}, (), flow)
    fault = Track("fault", root)
    for name, at in (("the host died", moments.struck_ns), ("the guest ran again", moments.running_ns)):
        if at is not None:
            yield Instant(fault, clock.moment(at), name, "fault")
