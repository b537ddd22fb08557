"""What a failover costs a guest that writes as fast as it can, and how it is protected afterwards.

The active member dies (SIGKILL, with it QEMU) over and over, A -> B -> A, under a guest that writes most of its memory
without a break. After each failover the machine is copied back to the host it came from. *Longest of the first* is the
longest pause of the first 50 epochs that follow, to be held against the p99 of the steady ones after them. Where the
standby cannot follow, the guest is held back (``docs/decisions/2026-11-26-slowing-down.md``): *held back* is for which
share of the time, and *longest in one piece* how long it stood for that at once.

*Outage* is the longest time between two answers that the client has seen of the failover.
"""

import time
from dataclasses import dataclass, field

from measurement.failovers import OUTAGE_MS, strike, strike_repeatedly
from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import Row, quantile, values
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory
from stealtime.protect.epochs import read_epochs

_FIRST = 50
_STEADY_S = 10.0
_WITHIN_S = 60.0


@dataclass
class Seen:
    """What was measured so far, a value a failover."""

    outage_ms: list[float] = field(default_factory=list)
    longest_ms: list[float] = field(default_factory=list)
    steady_p99_ms: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    most_pages: list[float] = field(default_factory=list)
    steady_pages: list[float] = field(default_factory=list)
    epochs_per_s: list[float] = field(default_factory=list)
    held_back_percent: list[float] = field(default_factory=list)
    longest_piece_ms: list[float] = field(default_factory=list)
    hold_p99_ms: list[float] = field(default_factory=list)
    violations: int = 0

    def measure(self, guest: Guest) -> bool:
        """Kill the active member, and look at the epochs from then on; False if the guest just was not protected."""
        began_ns = time.monotonic_ns()
        failover = strike(guest, "killed")
        if failover is None:
            return False
        self.outage_ms.append(max(failover.outage_ms.values()))
        self.violations += failover.violations
        active = guest.await_ready()

        def rows() -> list[Row]:
            return [row for row in read_epochs(guest.member(active.host).epochs) if row["begin_ns"] > began_ns]

        deadline_ns = began_ns + _WITHIN_S * 1e9
        # A look reads all that there is, on the processors that are measured.
        while time.monotonic_ns() < deadline_ns and not _is_enough(rows()):
            time.sleep(1.0)
        first, steady = rows()[:_FIRST], rows()[_FIRST:]
        self.longest_ms.append(max(values(first, "pause_ns")) / 1e6)
        self.most_pages.append(max(values(first, "pages")))
        self.hold_p99_ms.append(quantile(values(first, "hold_ns"), 0.99) / 1e6)
        time_ns = first[-1]["begin_ns"] - first[0]["begin_ns"]
        self.held_back_percent.append(100 * sum(row["held_back_ns"] for row in first) / time_ns)
        self.longest_piece_ms.append(max(row["held_back_longest_ns"] for row in first) / 1e6)
        self.epochs_per_s.append((len(first) - 1) * 1e9 / time_ns)
        if not steady:
            return True
        self.steady_p99_ms.append(quantile(values(steady, "pause_ns"), 0.99) / 1e6)
        self.steady_pages.append(quantile(values(steady, "pages"), 0.5))
        self.ratios.append(self.longest_ms[-1] / self.steady_p99_ms[-1])
        return True


def _is_enough(rows: list[Row]) -> bool:
    return len(rows) > _FIRST and rows[-1]["begin_ns"] > rows[_FIRST]["begin_ns"] + _STEADY_S * 1e9


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--failovers", type=int, metavar="N", help="default 4, with --full 20")
    parser.add_argument("--memory", default="1GiB", help="of the guest; default 1GiB")
    parser.add_argument("--written", default="700MiB", help="of it, what is written; default 700MiB")
    options = parser.parse_args()
    count = options.failovers or (20 if options.full else 4)
    seen = Seen()
    with Laboratory() as laboratory:
        program = ["tcp=7000", "udp=7000", f"memory={options.written}", "dirty=4000/10ms"]
        lost = strike_repeatedly(
            NamespaceTestbed(laboratory), seen.measure, count, memory=options.memory, program_arguments=program
        )
    figures = [
        Figure("outage", "ms", seen.outage_ms, at_most=OUTAGE_MS),
        Figure(f"longest pause of the first {_FIRST}", "ms", seen.longest_ms),
        Figure("p99 of the steady pauses", "ms", seen.steady_p99_ms),
        Figure("ratio", "", seen.ratios, at_most=2.0),
        Figure(f"most pages of the first {_FIRST}", "", seen.most_pages),
        Figure("pages of a steady epoch, median", "", seen.steady_pages),
        Figure(f"epochs a second, first {_FIRST}", "", seen.epochs_per_s),
        Figure(f"p99 of the holds of the first {_FIRST}", "ms", seen.hold_p99_ms),
        Figure("held back", "percent", seen.held_back_percent),
        Figure("longest in one piece", "ms", seen.longest_piece_ms),
    ]
    notes = [
        f"{options.memory}, of which {options.written} are written, as fast as the guest can, up to 400,000 pages/s",
        f"violations seen by the clients: {seen.violations}",
        f"struck while it was just not protected, and not counted: {lost}",
    ]
    show(f"{count} failovers of a busy guest", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
