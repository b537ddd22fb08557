"""What protection takes from a guest that only computes, and whether 40 epochs a second are kept up.

The guest verifies and rewrites 64 pages in a loop without a rest; its speed is how many pages it verified (``ask
status``) over the time of the host. In turn: unprotected (mode ``off``), 100 ms epochs, unprotected, 25 ms epochs; each
a machine of its own that has booted anew. The 25 ms runs also tell the rate: epochs from the first to the last, and
*missed* ones, whole intervals of 25 ms in which none began.

*Protection lost*: the standby was not heard for a second, which on a crowded machine is the scheduler's doing; a new
one is found, and epochs are missed meanwhile.
"""

import time
from typing import Any

from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import gaps_ns, missed, quantile, rate_per_s, slowdown_percent, values
from measurement.showing import Figure, arguments, show

from stealtime.hosts.counting import COMPUTER, verified
from stealtime.hosts.laboratory import Laboratory

_SETTLES_S = 2.0
_PLANS = {"off": None, "100ms": 100_000_000, "25ms": 25_000_000}
_TURN = ("off", "100ms", "off", "25ms")

SLOWER_BY_PERCENT = {"100ms": 10, "25ms": 30}
EPOCHS_PER_S = 40


class Runs:
    """What was measured so far."""

    def __init__(self) -> None:
        self.pages_per_s: dict[str, list[float]] = {plan: [] for plan in _PLANS}
        self.epochs_per_s: list[float] = []
        self.epochs: list[float] = []
        self.missed: list[float] = []
        self.latest_ms: list[float] = []
        self.losses: dict[str, list[float]] = {plan: [] for plan in _PLANS}
        self.pause_ms: dict[str, list[float]] = {plan: [] for plan in _PLANS}

    def measure(self, testbed: NamespaceTestbed, plan: str, seconds: float) -> None:
        """Boot a guest and see how fast it is."""
        interval_ns = _PLANS[plan]
        how: dict[str, Any] = {"mode": "off"} if interval_ns is None else {"interval": plan}
        guest = Guest(testbed, program_arguments=list(COMPUTER), **how)
        guest.start()
        guest.await_ready()
        guest.ask("status")
        time.sleep(_SETTLES_S)
        before = verified(guest)
        time.sleep(seconds)
        after = verified(guest)
        from_ns, to_ns = before.at_ns, after.at_ns
        self.pages_per_s[plan].append(before.pages_per_s(after))
        if interval_ns is not None:
            self.losses[plan].append(len(guest.losses(from_ns, to_ns)))
            rows = guest.rows(from_ns, to_ns)
            self.pause_ms[plan] += [ns / 1e6 for ns in values(rows, "pause_ns")]
            if plan == "25ms":
                self.epochs.append(len(rows))
                self.epochs_per_s.append(rate_per_s(rows))
                self.missed.append(missed(rows, interval_ns))
                self.latest_ms.append(max(gaps_ns(rows)) / 1e6)
        guest.stop()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repetitions", type=int, metavar="N", help="of the four; default 2, with --full 5")
    parser.add_argument("--seconds", type=float, default=10.0, help="measured; default 10, twice that at 25 ms")
    options = parser.parse_args()
    repetitions = options.repetitions or (5 if options.full else 2)
    runs = Runs()
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        for _ in range(repetitions):
            for plan in _TURN:
                runs.measure(testbed, plan, options.seconds * (2 if plan == "25ms" else 1))
    figures = [Figure(f"speed, {plan}", "kpages/s", [one / 1e3 for one in runs.pages_per_s[plan]]) for plan in _PLANS]
    for plan, percent in SLOWER_BY_PERCENT.items():
        # Each protected run has an unprotected one just before it.
        plain = runs.pages_per_s["off"][_TURN.index(plan) // 2 :: 2]
        slower = [slowdown_percent(*pair) for pair in zip(plain, runs.pages_per_s[plan], strict=True)]
        figures.append(Figure(f"slower by, {plan}", "%", slower, at_most=percent))
    for plan in SLOWER_BY_PERCENT:
        figures += [
            Figure(f"pause p50, {plan}", "ms", [quantile(runs.pause_ms[plan], 0.5)]),
            Figure(f"pause p99, {plan}", "ms", [quantile(runs.pause_ms[plan], 0.99)]),
            Figure(f"protection lost in a run, {plan}", "", runs.losses[plan]),
        ]
    figures += [
        Figure("epochs in a run, 25ms", "", runs.epochs),
        # To three digits: the first and the last epoch are each a little late or early.
        Figure("epochs each second, 25ms", "/s", [round(rate, 2) for rate in runs.epochs_per_s], at_least=EPOCHS_PER_S),
        Figure("missed epochs in a run, 25ms", "", runs.missed),
        Figure("longest from one to the next, 25ms", "ms", runs.latest_ms),
    ]
    notes = [f"runs of {options.seconds:g} s, at 25 ms of {2 * options.seconds:g} s; mode net"]
    show("a guest that only computes", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
