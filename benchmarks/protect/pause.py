"""How long a checkpoint stops a guest, against what QEMU itself has for that, and against the least it could be.

One guest that writes about 1,850 pages each 100 ms, twice: protected, with epochs of 100 ms (`pause_ns` of
``epochs.csv``), and under a bare QEMU. Both run all the time, so that what one is a burden to the other is the same on
all sides. In turn, over and over:

- *ours*: the median pause of the epochs of some seconds;
- *least*: a bare copy of as many pages (those that the guest has just written, by numpy from its memory, one by one)
  plus an empty pair of ``stop`` and ``cont`` by QMP; medians of as many as there were epochs;
- *migration*: the bare guest is migrated to a second QEMU on this machine over a unix socket; the downtime that
  ``query-migrate`` tells, and how many pages that moved. Once with QEMU's own settings (128 MiB/s, 300 ms of downtime
  aimed at), once with limits at which about *as many pages* as in an epoch are left for the end. A guest that crashes
  where it arrived is booted anew;
- *COLO*: the bare guest under QEMU's own checkpointing (capability ``x-colo``), the primary's time from ``STOP`` to
  ``RESUME``; where QEMU does not do it for long, it is printed how it ended, and the checkpoints that were done until
  then; after a few tries it is left. `colo.py` has a QEMU that does it.
"""

import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from measurement.bare import SETTLES_S, boot_counter
from measurement.colo import ColoError, colo, crashes
from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import PAUSE_PARTS, parts_ns, quantile, values
from measurement.showing import Figure, arguments, show
from measurement.yardsticks import PAGE_BYTES, Memory, Migration, as_many, migrate, stop_and_continue_ns

from stealtime.hosts.laboratory import Laboratory
from stealtime.protect.session import make_spec
from stealtime.protect.specification import MachineSpec

_INTERVAL_S = 0.1

_MIGRATIONS: dict[str, dict[str, int]] = {
    "migration": {},
    # Twice as fast as the guest writes, so that each pass leaves half of what the one before left, until it is at most
    # some 2,600 pages.
    "migration, as many pages": {"max_bandwidth": 150_000_000, "downtime_limit": 70},
}

OF_COLO = 0.2
OF_LEAST = 2.0


class Yard:
    """The bare guest, and what was measured with it."""

    def __init__(self, machine: MachineSpec, folder: Path, colo_tries: int) -> None:
        self._machine = machine
        self._folder = folder
        self._colo_tries = colo_tries
        self.colo_says: list[str] = []
        """Why COLO does not run, once a try."""
        self.colo_until_then_ms: list[float] = []
        """The checkpoints that were done before it failed."""
        self.colo_pages: list[int] = []
        self.copy_ms: list[float] = []
        self.stop_and_continue_ms: list[float] = []
        self.migrations: dict[str, list[Migration]] = {name: [] for name in _MIGRATIONS}
        self.crashed = 0
        """How many guests crashed where they were migrated to."""
        self.qemu = boot_counter(self._machine, self._folder)

    def least_ms(self, memory: Memory, pages: int, count: int) -> float:
        """Copy so many pages of this memory, and stop and continue the bare guest, as often as this."""
        written = as_many(memory.written_within(_INTERVAL_S), pages, self._machine.memory_bytes // PAGE_BYTES)
        memory.copy_ns(written)
        copies_ns, pairs_ns = [], []
        for _ in range(count):
            time.sleep(_INTERVAL_S)
            pairs_ns.append(stop_and_continue_ns(self.qemu))
            copies_ns.append(memory.copy_ns(written))
        self.copy_ms.append(median(copies_ns) / 1e6)
        self.stop_and_continue_ms.append(median(pairs_ns) / 1e6)
        return self.copy_ms[-1] + self.stop_and_continue_ms[-1]

    def migration_ms(self, name: str) -> float:
        """Migrate the guest; if it crashes after that, another one is booted."""
        migration, self.qemu = migrate(self.qemu, self._machine, self._folder, _MIGRATIONS[name])
        self.migrations[name].append(migration)
        time.sleep(SETTLES_S)
        if crashes(self.qemu):
            self.crashed += 1
            self._boot_anew()
        # Less than one millisecond is told as 0, and nothing can be compared with that.
        return max(migration.downtime_ms, 0.5)

    def colo_ms(self, seconds: float) -> float | None:
        """Checkpoint the guest by COLO for a while, if that works."""
        if len(self.colo_says) >= self._colo_tries:
            return None
        try:
            seen = colo(self.qemu, self._machine, self._folder, seconds, round(_INTERVAL_S * 1e3))
        except ColoError as error:
            self.colo_says.append(str(error))
            self.colo_until_then_ms += error.stops_ms
            self._boot_anew()
            return None
        self.colo_pages += seen.pages
        return median(seen.stops_ms)

    def _boot_anew(self) -> None:
        self.qemu.end()
        self.qemu = boot_counter(self._machine, self._folder)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, metavar="N", help="default 5, with --full 20")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each side in a turn; default 3")
    parser.add_argument("--dirty", default="178/10ms", help="what the counter rewrites; default 178/10ms")
    parser.add_argument("--colo-tries", type=int, default=3, metavar="N", help="until it is left; default 3")
    options = parser.parse_args()
    turns = options.turns or (20 if options.full else 5)
    program = ["tcp=7000", "udp=7000", "memory=32MiB", f"dirty={options.dirty}"]
    sides: dict[str, list[float]] = {}
    pause_ms: list[float] = []
    pages: list[float] = []
    parts: list[dict[str, float]] = []
    with Laboratory() as laboratory, ExitStack() as ending:
        guest = Guest(NamespaceTestbed(laboratory), program_arguments=program)
        guest.start()
        yard = Yard(make_spec(guest.vm, guest.testbed.state, "a").machine, laboratory.folder, options.colo_tries)
        ending.callback(lambda: yard.qemu.end())
        active = guest.await_ready()
        assert active.qemu_pid is not None
        guest.ask("status")
        memory = Memory(active.qemu_pid, guest.vm.memory_bytes)
        for _ in range(turns):
            rows = guest.epochs_for(options.seconds)
            pause_ms += [ns / 1e6 for ns in values(rows, "pause_ns")]
            pages += values(rows, "pages")
            parts.append(parts_ns(rows))
            ours = {"ours": median(values(rows, "pause_ns")) / 1e6}
            least = yard.least_ms(memory, round(median(values(rows, "pages"))), len(rows))
            turn = {
                **ours,
                "least": least,
                **{name: yard.migration_ms(name) for name in _MIGRATIONS},
                "COLO": yard.colo_ms(options.seconds),
            }
            for side, value_ms in turn.items():
                if value_ms is not None:
                    sides.setdefault(side, []).append(value_ms)
        guest.stop()
    figures = [
        Figure("dirty pages of an epoch", "", pages),
        *(Figure(name, "ms", values_ms) for name, values_ms in sides.items()),
        Figure("ours: p99 of all epochs", "ms", [quantile(pause_ms, 0.99)]),
        *(
            Figure(f"ours: {part.removesuffix('_ns')}", "ms", [one[part] / 1e6 for one in parts])
            for part in PAUSE_PARTS
        ),
        Figure("least: copy", "ms", yard.copy_ms),
        Figure("least: stop and cont", "ms", yard.stop_and_continue_ms),
        *(
            figure
            for name, all_of in yard.migrations.items()
            for figure in (
                Figure(f"{name}: STOP to RESUME", "ms", [one.stood_ms for one in all_of]),
                Figure(f"{name}: pages meanwhile", "", [one.pages for one in all_of]),
            )
        ),
        Figure("COLO: checkpoints before it failed", "ms", yard.colo_until_then_ms),
        Figure("COLO: pages of a checkpoint", "", yard.colo_pages),
        *_ratios(sides),
    ]
    notes = [f"{turns} turns of {options.seconds:g} s a side; epochs of 100 ms, mode net; one value a turn"]
    migrations = sum(map(len, yard.migrations.values()))
    if yard.crashed:
        notes.append(f"{yard.crashed} of {migrations} guests crashed where QEMU had migrated them to (kernel panic)")
    if yard.colo_says:
        notes.append(
            "COLO does not run under this QEMU (but see colo.py), and ours is held against migration; it ended:"
        )
        notes += [f"  {said}" for said in yard.colo_says]
    show("pause of a checkpoint", figures, notes, as_json=options.json)


def _ratios(sides: dict[str, list[float]]) -> list[Figure]:
    figures = []
    for other, target in (
        ("COLO", OF_COLO),
        ("migration", OF_COLO),
        ("migration, as many pages", None),
        ("least", OF_LEAST),
    ):
        ratios = [ours / theirs for ours, theirs in zip(sides["ours"], sides.get(other, ()), strict=False)]
        figures.append(Figure(f"ratio of ours to {other}", "", ratios, at_most=target))
    return figures


if __name__ == "__main__":
    main()
