"""A host is left before it goes down: for how long does each of its machines stand still, and how long does it take?

All machines run on one host and the other one stands by. ``stealtime protect leave`` moves them, the host takes
machines again, they are protected again, and the other host is left: to and fro. *Outage* is the longest time between
two answers that a client of that turn has seen, of each machine, over TCP and UDP; it holds one interval of the client
(10 ms), the resending of UDP (50 ms) or TCP's retransmission, and the hold of output. *Stands still* is the most that
the guest can have stood still: from the beginning of the last epoch that its member noted to its running elsewhere.
"""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from measurement.hosts import ALL_WITHIN_S, Guest, NamespaceTestbed, await_all, started_guests
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import other
from stealtime.protect.epochs import read_epochs
from stealtime.protect.state import STATE_VARIABLE

STILL_MS = 300
_BEFORE_S = 2.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--machines", type=int, default=4, help="default 4")
    parser.add_argument("--turns", type=int, help="how often a host is left; default 4, with --full 25")
    options = parser.parse_args()
    turns = options.turns or (25 if options.full else 4)
    outages: list[float] = []
    still_ms: list[float] = []
    took_s: list[float] = []
    violations, lived = 0, 0
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        guests = started_guests(testbed, options.machines)
        host = "a"
        for _ in range(turns):
            await_all(guests)
            with ExitStack() as counting:
                seen = [counting.enter_context(guest.counting()) for guest in guests]
                time.sleep(_BEFORE_S)
                begun_s = time.monotonic()
                tell(testbed, host)
                took_s.append(time.monotonic() - begun_s)
                for guest in guests:
                    guest.await_taken(other(host), ALL_WITHIN_S)
                time.sleep(_BEFORE_S)
            still_ms += [most_still_ns(guest, host) / 1e6 for guest in guests]
            outages += [ns / 1e6 for one in seen for ns in one["longest_outage_ns"].values()]
            violations += sum(int(one["violations_total"]) for one in seen)
            lived += sum(int(one["tcp_lived"]) for one in seen)
            tell(testbed, host, "--back")
            host = other(host)
        for guest in guests:
            guest.await_ready(within_s=ALL_WITHIN_S)
            guest.stop()
    moved = turns * options.machines
    figures = [
        Figure("stands still, at most", "ms", still_ms),
        Figure("its 99th percentile", "ms", [float(np.quantile(still_ms, 0.99))], at_most=STILL_MS),
        Figure("outage, TCP and UDP", "ms", outages),
        Figure(f"until {options.machines} machines had left", "s", took_s),
        Figure("acknowledged values that are missing", "", [violations], at_most=0),
        Figure("connections that lived on", "", [lived], at_least=moved),
    ]
    show(f"{options.machines} machines, whose host is left {turns} times", figures, as_json=options.json)
    sys.exit(1 if violations else 0)


def most_still_ns(guest: Guest, left: str) -> int:
    """Give how long a guest can have stood still when it moved away from a host."""
    stopped_ns = read_epochs(guest.member(left).epochs)[-1]["begin_ns"]
    runs = [event["monotonic_ns"] for event in guest.events(other(left)) if event["event"] == "active"]
    return int(runs[-1]) - stopped_ns


def tell(testbed: NamespaceTestbed, host: str, *more: str) -> None:
    """Have a host left, or taken back."""
    stealtime = Path(sys.executable).parent / "stealtime"
    argv = [*testbed.laboratory.host(host).prefix, str(stealtime), "protect", "leave", "--host", host, *more]
    environment = {**os.environ, STATE_VARIABLE: str(testbed.state.path)}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    main()
