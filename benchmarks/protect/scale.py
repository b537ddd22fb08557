"""What finding and copying written pages costs a guest: by pages that were written, and by the guest's size.

Guests of several sizes boot one after the other, each writes pages of 64 MiB of its memory at one of several rates,
100 ms epochs. Over all epochs the search (*scan*), the copy and the whole pause are fitted by least squares as

    base + cost of a page x pages of the epoch + cost of a GiB x size of the guest

A slope is followed by how far it moves when any one guest is left out.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import Row, quantile, values
from measurement.showing import Figure, arguments, show
from numpy.typing import NDArray

from stealtime.hosts.laboratory import Laboratory

_SIZES_MIB = (256, 1024, 4096)
_FULL_SIZES_MIB = (*_SIZES_MIB, 8192)
_PAGES_PER_10_MS = (10, 50, 200)
_SETTLES_S = 3.0
_PARTS = ("scan", "copy", "pause")


@dataclass(frozen=True)
class Measured:
    """The epochs of a guest."""

    size_mib: int
    rows: Sequence[Row]


def measure(testbed: NamespaceTestbed, size_mib: int, pages: int, seconds: float, tracker: str | None) -> Measured:
    """Boot a guest, and take its epochs of a time."""
    how: dict[str, Any] = {} if tracker is None else {"tracker": tracker}
    program = ["tcp=7000", "udp=7000", "memory=64MiB", f"dirty={pages}/10ms"]
    guest = Guest(testbed, memory=f"{size_mib}MiB", program_arguments=program, **how)
    guest.start()
    guest.await_ready()
    guest.ask("status")
    time.sleep(_SETTLES_S)
    rows = guest.epochs_for(seconds)
    guest.stop()
    return Measured(size_mib, rows)


def slopes(guests: Sequence[Measured], part: str) -> NDArray[np.float64]:
    """Fit a part of the pause over all epochs: base in ns, ns a page, ns a GiB."""
    epochs = [(row[f"{part}_ns"], row["pages"], guest.size_mib / 1024) for guest in guests for row in guest.rows]
    took, pages, gib = np.asarray(epochs, np.float64).T
    fitted, *_ = np.linalg.lstsq(np.column_stack([np.ones_like(pages), pages, gib]), took, rcond=None)
    return np.asarray(fitted, np.float64)


def words(guests: Sequence[Measured], part: str) -> str:
    """Say what a part costs, with the range over all guests but one."""
    base_ns, page_ns, gib_ns = slopes(guests, part)
    without = np.array([slopes([*guests[:place], *guests[place + 1 :]], part) for place in range(len(guests))])
    (_, page_least, gib_least), (_, page_most, gib_most) = without.min(axis=0), without.max(axis=0)
    return (
        f"{part}: {base_ns / 1e3:.0f} us, {page_ns:.0f} ns a page ({page_least:.0f} to {page_most:.0f}), "
        f"{gib_ns / 1e3:.1f} us a GiB ({gib_least / 1e3:.1f} to {gib_most / 1e3:.1f})"
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, metavar="S", help="of each guest; default 5, with --full 20")
    parser.add_argument("--tracker", choices=("userfault", "soft-dirty", "shadow"), help="default: the best one here")
    options = parser.parse_args()
    seconds = options.seconds or (20 if options.full else 5)
    guests = []
    with Laboratory() as laboratory:
        testbed = NamespaceTestbed(laboratory)
        for size_mib in _FULL_SIZES_MIB if options.full else _SIZES_MIB:
            guests += [measure(testbed, size_mib, pages, seconds, options.tracker) for pages in _PAGES_PER_10_MS]
    figures = [
        Figure(f"{one.size_mib} MiB, {quantile(values(one.rows, 'pages'), 0.5):,.0f} pages: {part}", "ms", took_ms)
        for one in guests
        for part in _PARTS
        if (took_ms := [ns / 1e6 for ns in values(one.rows, f"{part}_ns")])
    ]
    notes = [f"tracker: {options.tracker or 'the default'}", *(words(guests, part) for part in _PARTS)]
    show("cost of written pages and of size", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
