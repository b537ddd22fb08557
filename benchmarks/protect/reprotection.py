"""How long a busy guest stands when it is protected anew, as it is after each failover.

A guest that writes as fast as it can loses its standby and is copied to a new one as it runs. *Longest pause* is that
of the first two epochs: what was written during the copy, and until the register names the standby, is in them. It is
held against the p99 of the steady epochs after them. All in mode `net`, each 100 ms. *Protected again* counts from the
death of the standby.
"""

import os
import signal
import time

from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import Row, quantile, values
from measurement.showing import Figure, arguments, show

from stealtime.hosts.laboratory import Laboratory

_STEADY_S = 10.0
_FIRST_EPOCHS = 2


class Reprotection:
    """What was measured so far."""

    def __init__(self) -> None:
        self.longest_ms: list[float] = []
        self.first_pages: list[float] = []
        self.steady_p99_ms: list[float] = []
        self.steady_pages: list[float] = []
        self.ratios: list[float] = []
        self.rounds: list[float] = []
        self.again_s: list[float] = []

    def measure(self, guest: Guest) -> None:
        """Take the guest's standby from it, and wait until it has another one."""
        standby = guest.status("b")
        assert standby is not None
        assert standby.pid is not None
        from_ns = time.monotonic_ns()
        os.kill(standby.pid, signal.SIGKILL)
        guest.await_ready(unlike=frozenset({standby.pid}))
        self.again_s.append((time.monotonic_ns() - from_ns) / 1e9)
        guest.epochs_for(_STEADY_S)
        first, steady = self._parted(guest.rows(from_ns))
        self.longest_ms.append(max(values(first, "pause_ns")) / 1e6)
        self.first_pages.append(max(values(first, "pages")))
        self.steady_p99_ms.append(quantile(values(steady, "pause_ns"), 0.99) / 1e6)
        self.steady_pages.append(quantile(values(steady, "pages"), 0.5))
        self.ratios.append(self.longest_ms[-1] / self.steady_p99_ms[-1])
        copies = [event for event in guest.events("a") if event["event"] == "copied-in-advance"]
        self.rounds.append(copies[-1]["rounds"])

    @staticmethod
    def _parted(rows: list[Row]) -> tuple[list[Row], list[Row]]:
        # The first is captured in the term before that in which the standby is named.
        term = rows[-1]["term"] - 1
        begin = next(number for number, row in enumerate(rows) if row["term"] == term)
        end = begin + _FIRST_EPOCHS
        return rows[begin:end], rows[end:]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--repetitions", type=int, metavar="N", help="standbys lost; default 3, with --full 10")
    parser.add_argument("--memory", default="1GiB", help="of the guest; default 1GiB")
    parser.add_argument("--written", default="700MiB", help="of it, what is written; default 700MiB")
    options = parser.parse_args()
    seen = Reprotection()
    with Laboratory() as laboratory:
        program = ["tcp=7000", "udp=7000", f"memory={options.written}", "dirty=4000/10ms"]
        guest = Guest(NamespaceTestbed(laboratory), memory=options.memory, program_arguments=program)
        guest.start()
        guest.await_ready()
        guest.ask("status")
        guest.epochs_for(_STEADY_S)
        for _ in range(options.repetitions or (10 if options.full else 3)):
            seen.measure(guest)
        guest.stop()
    figures = [
        Figure("longest pause of the first two epochs", "ms", seen.longest_ms),
        Figure("p99 of the steady pauses", "ms", seen.steady_p99_ms),
        Figure("ratio", "", seen.ratios, at_most=2.0),
        Figure("pages of the larger of the first two", "", seen.first_pages),
        Figure("pages of a steady epoch, median", "", seen.steady_pages),
        Figure("rounds", "", seen.rounds),
        Figure("protected again", "s", seen.again_s),
    ]
    notes = [
        f"{options.memory}, of which {options.written} are written, as fast as the guest can, up to 400,000 pages/s"
    ]
    show("protecting a busy guest anew", figures, notes, as_json=options.json)


if __name__ == "__main__":
    main()
