"""What phones do not hear when the host of their relay dies, and where that time goes.

A SIP server with its media relay in a protected guest, as the study of telephony has it, mode ``net+bypass``, default
deadlines. Calls are up and both sides speak; then the active member and its QEMU are killed by SIGKILL, and the
machine goes back and forth: A -> B -> A. The *gap* is the longest silence of any caller or phone. Its parts, from the
fault:

- *closed*: the standby hears that its connection has closed;
- *decided*: it has waited for what the dead member might still have let out, and has won the register;
- *running*: the guest goes on from the last epoch;
- *relayed*: the first packet of voice leaves its new host (by a tap there);
- *heard*: the silence ends.

A silence begins with the last packet before the fault, up to 20 ms earlier.

``--replicator`` may be given more than once, to compare builds in turn: each has new hosts, several times.
"""

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from measurement.frame_tap import Frame, FrameTap
from measurement.showing import Figure, arguments, show

from stealtime.hosts.clock_offset import Moment
from stealtime.hosts.guest import Fault
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import NamespaceTestbed, other
from stealtime.protect.programs import REPLICATOR_VARIABLE, find_replicator
from stealtime.studies.telephony.appliance.configuration import ServerConfiguration
from stealtime.studies.telephony.calls.measuring import make_calls
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.place.guest import GuestPlace

_BEFORE_S = 0.8
_AFTER_S = 1.7
"""Callers speak so long before the fault and after it."""
_FAILOVERS_ON_A_STAND = 5

GAP_MS = 250

_serials = count()
"""The register remembers the last machine of a name."""


@dataclass(frozen=True)
class Gap:
    """One failover; times are from the fault."""

    closed_ms: float
    decided_ms: float
    running_ms: float
    relayed_ms: float
    heard_ms: float
    gap_ms: float


@dataclass(frozen=True)
class Build:
    """A replicator, and what was measured with it."""

    name: str
    path: Path
    gaps: list[Gap]
    not_heard: list[float]
    """Longest silences in ms, of failovers in which none was at the fault."""


def fail_over(testbed: NamespaceTestbed, place: GuestPlace, calls: int, build: Build) -> None:
    """Let the host die once under calls, and note the gap.

    Raises:
        StealtimeError: Calls cannot be had, or nobody took the guest over.
    """
    guest = place.signalling
    survivor = other(place.await_protected()[0].host)
    faults: list[Fault] = []

    def fault() -> None:
        time.sleep(_BEFORE_S)
        faults.append(place.lose_host())

    with tempfile.TemporaryDirectory() as folder, FrameTap(testbed.laboratory, survivor) as tap:
        voice = make_calls(place, CallPlan(calls), _BEFORE_S + _AFTER_S, Path(folder), meanwhile=fault).voice
    struck, silence_ns, began_ns = faults[0], voice.silence_ns, voice.silence_began_ns
    assert silence_ns is not None
    assert began_ns is not None
    if not began_ns <= struck.running_ns <= began_ns + silence_ns:
        build.not_heard.append(silence_ns / 1e6)
        return
    build.gaps.append(
        Gap(
            closed_ms=_ms(guest.first(survivor, "link-lost", Moment(struck.struck_ns)).at_ns, struck),
            decided_ms=_ms(struck.detected_ns, struck),
            running_ms=_ms(struck.running_ns, struck),
            relayed_ms=_ms(_relayed_ns(tap.frames(), struck), struck),
            heard_ms=_ms(began_ns + silence_ns, struck),
            gap_ms=silence_ns / 1e6,
        )
    )


def measure(build: Build, mode: str, calls: int, failovers: int) -> None:
    """Fail over a few times, on hosts of its own."""
    with _replicator(build.path), Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        place = GuestPlace(testbed, f"voice{next(_serials)}", mode)  # type: ignore[arg-type]
        place.start()
        place.await_ready()
        for _ in range(failovers):
            fail_over(testbed, place, calls, build)
            place.await_protected()
        place.stop()


def figures_of(build: Build, prefix: str) -> list[Figure]:
    """Give the gap and its parts."""
    parts = (
        ("fault to closed", [one.closed_ms for one in build.gaps]),
        ("closed to decided", [one.decided_ms - one.closed_ms for one in build.gaps]),
        ("decided to running", [one.running_ms - one.decided_ms for one in build.gaps]),
        ("running to relayed", [one.relayed_ms - one.running_ms for one in build.gaps]),
        ("relayed to heard", [one.heard_ms - one.relayed_ms for one in build.gaps]),
        ("fault to heard", [one.heard_ms for one in build.gaps]),
    )
    gap = Figure(f"{prefix}gap of voice", "ms", [one.gap_ms for one in build.gaps], at_most=GAP_MS)
    return [*(Figure(f"{prefix}{name}", "ms", values) for name, values in parts), gap]


def _relayed_ns(frames: Sequence[Frame], fault: Fault) -> int:
    """Give when the first packet of the relay left its new host, whose TAP has a name that nobody else knows."""
    first, last = ServerConfiguration(role="both", address="").media_ports
    return next(
        one.at_ns
        for one in frames
        if one.at_ns > fault.struck_ns
        and (one.device, one.way) == ("clients", "out")
        and first <= one.source_port <= last
    )


def _ms(at_ns: int, fault: Fault) -> float:
    return (at_ns - fault.struck_ns) / 1e6


@contextmanager
def _replicator(path: Path) -> Iterator[None]:
    before = os.environ.get(REPLICATOR_VARIABLE)
    os.environ[REPLICATOR_VARIABLE] = str(path)
    try:
        yield
    finally:
        os.environ.pop(REPLICATOR_VARIABLE)
        if before is not None:
            os.environ[REPLICATOR_VARIABLE] = before


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--failovers", type=int, metavar="N", help="of each build; default 10, with --full 40")
    parser.add_argument("--calls", type=int, default=10, help="up at once; default 10")
    parser.add_argument("--mode", choices=("net", "net+bypass", "no-net"), default="net+bypass")
    parser.add_argument(
        "--replicator", type=Path, action="append", metavar="PATH", help="another build; may come again"
    )
    options = parser.parse_args()
    wanted = options.failovers or (40 if options.full else 10)
    paths = options.replicator or [find_replicator()]
    builds = [Build(path.name, path.absolute(), [], []) for path in paths]
    done = 0
    while done < wanted:
        failovers = min(_FAILOVERS_ON_A_STAND, wanted - done)
        # Forwards and backwards, so that what drifts is shared.
        for build in builds if done // _FAILOVERS_ON_A_STAND % 2 == 0 else reversed(builds):
            measure(build, options.mode, options.calls, failovers)
        done += failovers
    figures = [figure for build in builds for figure in figures_of(build, f"{build.name}: " if len(builds) > 1 else "")]
    notes = [
        f"mode {options.mode}, epochs of 100 ms, default deadlines, {options.calls} calls, killed by SIGKILL",
        *(
            f"{build.name}: {len(build.not_heard)} failovers were not heard, as their longest silence "
            f"({max(build.not_heard):.0f} ms) was elsewhere"
            for build in builds
            if build.not_heard
        ),
    ]
    show(f"{wanted} failovers under calls", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
