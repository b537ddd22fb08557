"""How soon a silent host is answered, and how often a living one is taken for dead: by the deadlines.

Nothing fails at first, in turn with each set of deadlines, and beside a busy thread of the usual priority on each CPU.
*Protection lost*: the active member had no answer for its deadline, and released no more until it had a standby again.
*Taken over*: the standby took its host for dead, and the guest went on there; no answer is lost by it, but nobody had
died. Each count of false alarms is given with the most that 95 % of such watches leave open (Poisson).

Then the host of a guest falls silent: its links lose all frames and its processes are gone, so only the missing
heartbeat tells. *Fault to decided* is until its standby has won the register. Not with deadlines under which protection
was lost by itself, with nothing beside it: whoever is struck then may be unprotected.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from busy_cpus import busy_cpus
from measurement.failovers import Failover, strike, strike_repeatedly
from measurement.hosts import Guest, NamespaceTestbed
from measurement.showing import Figure, arguments, show
from scipy import stats

from stealtime.hosts.laboratory import Laboratory
from stealtime.vocabulary.errors import StealtimeError

TIMINGS: dict[str, dict[str, str]] = {
    "usual": {},
    "fast": {"heartbeat": "5ms", "active_deadline": "25ms", "standby_timeout": "40ms"},
}
DECIDED_WITHIN_MS = {"usual": 250, "fast": 50}
_INTERVAL = "25ms"
_SETTLES_S = 2.0
_CONFIDENCE = 0.95


class Counted:
    """False alarms of a set of deadlines in one kind of surroundings."""

    def __init__(self) -> None:
        self.watched_s = 0.0
        self.lost = 0
        self.taken_over = 0
        self.ended = 0
        """Guests that went on nowhere: both members were taken for dead."""

    def words(self) -> str:
        hours = self.watched_s / 3600

        def rate(count: int) -> str:
            most = stats.chi2.ppf(_CONFIDENCE, 2 * (count + 1)) / 2 / hours
            return f"{count} ({count / hours:.0f} an hour, at most {most:.0f})"

        ended = f", ended {self.ended}" if self.ended else ""
        return f"in {self.watched_s:.0f} s protection lost {rate(self.lost)}, taken over {rate(self.taken_over)}{ended}"


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "quiet": nullcontext,
    "beside a busy thread on each CPU": busy_cpus,
}


def watch(testbed: NamespaceTestbed, profile: str, surroundings: str, seconds: float, counted: Counted) -> None:
    """Protect a guest for a while, and count what its members took for a death."""
    guest = Guest(testbed, interval=_INTERVAL, timing=TIMINGS[profile])
    guest.start()
    guest.await_ready()
    guest.ask("status")
    time.sleep(_SETTLES_S)
    begun_ns = time.monotonic_ns()
    with SURROUNDINGS[surroundings]():
        time.sleep(seconds)
    end_ns = time.monotonic_ns()
    events = [event for host in guest.hosts for event in guest.events(host.name)]
    within = [event for event in events if begun_ns <= int(event["monotonic_ns"]) < end_ns]
    counted.watched_s += seconds
    counted.lost += sum(event.get("state") == "Reclaiming" for event in within)
    counted.taken_over += sum(event["event"] == "guest-continued" for event in within)
    try:
        counted.ended += not guest.running_members()
    except StealtimeError:
        counted.ended += 1
    guest.stop()


def silenced(testbed: NamespaceTestbed, profile: str, count: int) -> tuple[list[Failover], int]:
    """Let hosts fall silent; give the failovers, and how often the guest was just not protected."""
    failovers: list[Failover] = []

    def strike_once(guest: Guest) -> bool:
        failover = strike(guest, "silent")
        if failover is not None:
            failovers.append(failover)
        return failover is not None

    return failovers, strike_repeatedly(testbed, strike_once, count, interval=_INTERVAL, timing=TIMINGS[profile])


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--failovers", type=int, metavar="N", help="of each; default 5, with --full 25")
    parser.add_argument("--seconds", type=float, metavar="S", help="of each watch; default 30, with --full 600")
    parser.add_argument("--turns", type=int, default=2, metavar="N", help="of all watches; default 2")
    options = parser.parse_args()
    count = options.failovers or (25 if options.full else 5)
    seconds = options.seconds or (600 if options.full else 30)
    figures: list[Figure] = []
    notes: list[str] = []
    counted = {(profile, around): Counted() for around in SURROUNDINGS for profile in TIMINGS}
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        for _ in range(options.turns):
            for (profile, around), one in counted.items():
                watch(testbed, profile, around, seconds, one)
        for profile in TIMINGS:
            if counted[profile, "quiet"].lost:
                notes.append(f"{profile}: no host fell silent, as protection was lost by itself")
                continue
            failovers, lost = silenced(testbed, profile, count)
            decided_ms = [one.running_ms - one.resume_ms for one in failovers]
            figures += [
                Figure(f"{profile}: fault to decided", "ms", decided_ms, at_most=DECIDED_WITHIN_MS[profile]),
                Figure(f"{profile}: fault to running", "ms", [one.running_ms for one in failovers]),
                *(
                    Figure(f"{profile}: outage, {name.upper()}", "ms", [one.outage_ms[name] for one in failovers])
                    for name in ("tcp", "udp")
                ),
            ]
            notes.append(
                f"{profile}: violations {sum(one.violations for one in failovers)}, connections that lived on "
                f"{sum(one.tcp_lived for one in failovers)} of {len(failovers)}; struck when it was just not "
                f"protected, and not counted: {lost}"
            )
    notes += [f"{profile}, {around}: {one.words()}" for (profile, around), one in counted.items()]
    show(f"silent hosts, {count} of each set of deadlines", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
