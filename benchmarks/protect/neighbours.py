"""Four protected guests on one host: what they do to each other's pauses, and what staggering their epochs gains.

Small guests that write little (20 pages each 10 ms), 100 ms epochs, a client that counts with each. In turn: one guest
*alone*; four *in phase*; four *staggered*. Members of one host share its folder, take a slot in it, and begin their
epochs each at another time of the interval. In phase they are made by giving each a host's name of its own, so that all
take the first slot. All eight QEMUs, eight members and the clients are on this machine: both hosts of a real pair.

*Overlapping* is the share of pauses in which another guest of the host stood too; *phase* is where in the interval the
epochs begin.
"""

import math
import time
from collections.abc import Sequence
from contextlib import ExitStack

from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import Row, overlapping_share, phase_share, quantile, rate_per_s, values
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory

_INTERVAL_NS = 100_000_000
_PROGRAM = ("tcp=7000", "udp=7000", "memory=4MiB", "dirty=20/10ms")
_SETTLES_S = 3.0
_COLUMNS = {"pause": "pause_ns", "hold": "hold_ns"}
_TOGETHER = 4


class Neighbours:
    """What was measured so far."""

    def __init__(self) -> None:
        self.figures: dict[str, list[float]] = {}
        self.phases: dict[str, list[float]] = {}

    def measure(self, testbed: NamespaceTestbed, arrangement: str, seconds: float) -> None:
        """Boot the guests of an arrangement, and take all their epochs of a time."""
        count = 1 if arrangement == "alone" else _TOGETHER
        guests = [
            Guest(
                testbed,
                number=number,
                known_as=f"a{number}" if arrangement == "in phase" else "a",
                memory="96MiB",
                program_arguments=list(_PROGRAM),
            )
            for number in range(count)
        ]
        for guest in guests:
            guest.start()
        for guest in guests:
            guest.await_ready()
            guest.ask("status")
        with ExitStack() as clients:
            for guest in guests:
                clients.enter_context(guest.counting())
            time.sleep(_SETTLES_S)
            from_ns = time.monotonic_ns()
            time.sleep(seconds)
            to_ns = time.monotonic_ns()
        rows = [guest.rows(from_ns, to_ns) for guest in guests]
        for guest in guests:
            guest.stop()
        self._take_up(arrangement, rows)

    def _take_up(self, arrangement: str, rows: Sequence[Sequence[Row]]) -> None:
        together = [row for of_guest in rows for row in of_guest]
        for name, column in _COLUMNS.items():
            for share, quantile_name in ((0.5, "p50"), (0.99, "p99")):
                value_ms = quantile(values(together, column), share) / 1e6
                self._add(f"{name} {quantile_name}, {arrangement}", [value_ms])
        self._add(f"epochs/s, {arrangement}", [rate_per_s(of_guest) for of_guest in rows])
        if len(rows) > 1:
            shares = []
            for number, of_guest in enumerate(rows):
                others = [row for other, of_other in enumerate(rows) if other != number for row in of_other]
                shares.append(100 * overlapping_share(of_guest, others))
            self._add(f"overlapping, {arrangement}", shares)
        self.phases[arrangement] = sorted(phase_share(of_guest, _INTERVAL_NS) for of_guest in rows)

    def _add(self, name: str, more: Sequence[float]) -> None:
        self.figures.setdefault(name, []).extend(more)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repetitions", type=int, metavar="N", help="of the three; default 1, with --full 5")
    parser.add_argument("--seconds", type=float, default=15.0, help="measured for each; default 15")
    options = parser.parse_args()
    neighbours = Neighbours()
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        for _ in range(options.repetitions or (5 if options.full else 1)):
            for arrangement in ("alone", "in phase", "staggered"):
                neighbours.measure(testbed, arrangement, options.seconds)
    units = {"pause": "ms", "hold": "ms", "epochs/s": "/s", "overlapping": "%"}
    figures = [
        Figure(name, unit, neighbours.figures[name])
        for kind, unit in units.items()
        for name in neighbours.figures
        if name.startswith(kind)
    ]
    notes = [
        f"runs of {options.seconds:g} s; 8 QEMUs, 8 members on this machine; "
        "pause and hold: quantiles over all epochs of all guests, one value a run",
        *(
            f"phases of the last run, {arrangement}: " + ", ".join(f"{phase:.2f}" for phase in phases)
            for arrangement, phases in neighbours.phases.items()
            if not any(map(math.isnan, phases))
        ),
    ]
    show("four guests on one host", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
