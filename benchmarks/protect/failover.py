"""How long a failover takes: from the decision until the guest runs, and as long as the client sees.

One guest as in ``make protect-demo``, mode ``net``, 100 ms epochs, the default heartbeats and deadlines. In turn:
*killed*, SIGKILL of the active member, with it QEMU; its connection closes, which the standby sees at once. *Silent*, a
host whose links lose all frames and whose processes are gone: only the missing heartbeat tells. *Planned*: nobody dies,
the operator has the guest moved; from that moment to the guest running is the most that it can have stood still. After
each the machine is protected again by the other host, and the next failover goes back: A -> B -> A.

*Decision to running* is ``resume_ns`` of the member that took over. *Outage* is the longest time between two answers
that the client of that failover has seen; it holds one interval of the client (10 ms), the resending of UDP (50 ms) or
TCP's retransmission, and the output hold.

Published, to compare with: Xen Remus about 1 s (Cully et al. 2008, by reading notes); 1.4 s at 400 ms epochs (Septama
et al. 2015, abstract).
"""

import sys

from measurement.failovers import FAULTS, OUTAGE_MS, Failover, strike, strike_repeatedly
from measurement.hosts import Guest, NamespaceTestbed, testbed_with_etcd
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory

RESUMED_WITHIN_MS = 20
MOVED_WITHIN_MS = 50


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--failovers", type=int, metavar="N", help="default 12, with --full 48; a third of each kind")
    parser.add_argument("--interval", default="100ms", help="of the epochs; default 100ms")
    parser.add_argument("--min-interval", help="checkpoints on demand, this long after the last one: 5ms")
    parser.add_argument("--etcd", action="store_true", help="let a real etcd decide, not a register in a folder")
    options = parser.parse_args()
    count = options.failovers or (48 if options.full else 12)
    failovers: list[Failover] = []
    how = {"interval": options.interval}
    if options.min_interval is not None:
        how["min_interval"] = options.min_interval

    def strike_once(guest: Guest) -> bool:
        failover = strike(guest, FAULTS[len(failovers) % len(FAULTS)])
        if failover is not None:
            failovers.append(failover)
        return failover is not None

    with Laboratory() as laboratory:
        testbed = testbed_with_etcd(laboratory) if options.etcd else NamespaceTestbed(laboratory)
        lost = strike_repeatedly(testbed, strike_once, count, **how)
    figures = [
        Figure("decision to running", "ms", [one.resume_ms for one in failovers], at_most=RESUMED_WITHIN_MS),
    ]
    for fault in FAULTS:
        of_kind = [one for one in failovers if one.fault == fault]
        figures += [
            Figure(f"{fault}: decision to running", "ms", [one.resume_ms for one in of_kind]),
            Figure(
                f"{fault}: fault to running",
                "ms",
                [one.running_ms for one in of_kind],
                at_most=MOVED_WITHIN_MS if fault == "planned" else None,
            ),
            *(
                Figure(
                    f"{fault}: outage, {name.upper()}",
                    "ms",
                    [one.outage_ms[name] for one in of_kind],
                    at_most=OUTAGE_MS,
                )
                for name in ("tcp", "udp")
            ),
        ]
    violations = sum(one.violations for one in failovers)
    notes = [
        f"mode net, {', '.join(f'{name} {value}' for name, value in how.items())}, default heartbeats",
        f"register: {'etcd' if options.etcd else 'a folder'}",
        f"violations seen by the clients: {violations}; "
        f"TCP connections that lived on: {sum(one.tcp_lived for one in failovers)} of {len(failovers)}",
        f"struck while it was just not protected (the standby was not heard for 120 ms), and not counted: {lost}",
        "published: Xen Remus about 1 s; 1.4 s at 400 ms epochs (other machines, other guests)",
    ]
    show(f"{count} failovers", figures, notes, as_json=options.json)
    # Unlike a target of speed: what was acknowledged is never lost.
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
