"""How many bytes protection ships for the memory that a guest writes, and what that costs in CPU time.

Two guests, 100 ms epochs: that of ``make protect-demo`` (50 pages each 10 ms, of which 256 bytes change, and a client
that counts), and one that writes as many pages anew as a whole, with bytes that nothing can compress: the worst case.

Pages of zeros and *same* ones (written with what they held) travel as a number only, *delta* ones as what changed,
*whole* ones as they are; deltas and whole ones are packed by LZ4 where that helps.

*Shipped* is all that goes over the line for an epoch, with headers and device state, before TLS adds its own. CPU
seconds are user and system time of the two replicator processes (not of QEMU) over the same time; each GB of dirty
pages (raw) and each GB shipped (1e9 bytes). They hold all that the processes do: stop and scan, copy, encode, TLS,
verify, apply, heartbeats, relaying the guest's frames.
"""

import time
from collections.abc import Sequence

from measurement.hosts import COUNTER, Guest, NamespaceTestbed, cpu_s
from measurement.rows import values
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory

_GUESTS = {"demo guest": COUNTER, "whole pages": (*COUNTER, "fill=4096")}
_ENCODINGS = ("zero_pages", "same_pages", "delta_pages", "whole_pages")
_SETTLES_S = 2.0

SHIPPED_SHARE = 0.35


def measure(testbed: NamespaceTestbed, name: str, program: Sequence[str], seconds: float) -> list[Figure]:
    """Boot a guest, and compare what it wrote with what was shipped."""
    guest = Guest(testbed, program_arguments=list(program))
    guest.start()
    active = guest.await_ready()
    guest.ask("status")
    standby = guest.status("b")
    assert active.pid is not None
    assert standby is not None
    assert standby.pid is not None
    with guest.counting():
        time.sleep(_SETTLES_S)
        before = [cpu_s(active.pid), cpu_s(standby.pid)]
        rows = guest.epochs_for(seconds)
        used_s = [cpu_s(active.pid) - before[0], cpu_s(standby.pid) - before[1]]
    guest.stop()
    raw_gb, shipped_gb = sum(values(rows, "raw_bytes")) / 1e9, sum(values(rows, "shipped_bytes")) / 1e9
    shares = [row["shipped_bytes"] / row["raw_bytes"] for row in rows if row["raw_bytes"]]
    target = SHIPPED_SHARE if name == "demo guest" else None
    figures = [
        Figure(f"{name}: dirty pages of an epoch", "", values(rows, "pages")),
        Figure(f"{name}: shipped of an epoch", "kB", [row["shipped_bytes"] / 1e3 for row in rows]),
        Figure(f"{name}: shipped of raw, an epoch", "", shares, at_most=target),
        Figure(f"{name}: shipped of raw, all together", "", [shipped_gb / raw_gb], at_most=target),
    ]
    pages = sum(values(rows, "pages"))
    figures += [
        Figure(f"{name}: {encoding.replace('_', ' ')}", "%", [100 * sum(values(rows, encoding)) / pages])
        for encoding in _ENCODINGS
    ]
    for side, used in zip(("active", "standby"), used_s, strict=True):
        figures += [
            Figure(f"{name}: CPU of the {side} side", "s/GB raw", [used / raw_gb]),
            Figure(f"{name}: CPU of the {side} side", "s/GB sent", [used / shipped_gb]),
        ]
    return figures


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, help="measured for each guest; default 10, with --full 60")
    options = parser.parse_args()
    seconds = options.seconds or (60.0 if options.full else 10.0)
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        figures = [figure for name, program in _GUESTS.items() for figure in measure(testbed, name, program, seconds)]
    notes = [f"{seconds:g} s each, epochs of 100 ms, mode net, TCP with mutual TLS between the hosts"]
    show("bytes shipped", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
