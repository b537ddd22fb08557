"""Ten machines on one pair of hosts, which dies as a whole: does each go on, and what did each of their clients see?

All run on host ``a`` with deadlines for a crowded host, and ``b`` stands by for all. Then all processes of ``a`` are
killed at once, and its daemon is started again, so that all ten are copied back. *Outage* is the longest time between
two answers that a client has seen, over TCP or UDP, of any machine; *protected again* from the fault until all ten are.
"""

import time
from contextlib import ExitStack

from measurement.hosts import ALL_WITHIN_S, NamespaceTestbed, await_all, started_guests
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory

_BEFORE_S = 5.0
_AFTER_S = 3.0


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--machines", type=int, default=10, help="default 10")
    options = parser.parse_args()
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        guests = started_guests(testbed, options.machines)
        await_all(guests)
        with ExitStack() as counting:
            seen = [counting.enter_context(guest.counting()) for guest in guests]
            time.sleep(_BEFORE_S)
            unprotected = [guest.vm.name for guest in guests if not getattr(guest.status("a"), "protected", False)]
            blown_s = time.monotonic()
            laboratory.power_off("a")
            for guest in guests:
                guest.await_taken("b", ALL_WITHIN_S)
            taken_s = time.monotonic() - blown_s
            time.sleep(_AFTER_S)
        testbed.start_daemon("a")
        for guest in guests:
            guest.await_ready(within_s=ALL_WITHIN_S)
        protected_s = time.monotonic() - blown_s
        for guest in guests:
            guest.stop()
    outages = [max(one["longest_outage_ns"].values()) / 1e6 for one in seen]
    figures = [
        Figure("outage, one value a machine", "ms", outages),
        Figure("until the last one ran", "s", [taken_s]),
        Figure("until all were protected again", "s", [protected_s]),
        Figure(
            "acknowledged values that are missing", "", [sum(int(one["violations_total"]) for one in seen)], at_most=0
        ),
        Figure("machines whose connections lived", "", [sum(one["tcp_lived"] for one in seen)], at_least=len(seen)),
    ]
    notes = [f"not protected at the fault: {', '.join(unprotected) or 'none'}"]
    show(f"{options.machines} machines, whose host dies", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
