"""QEMU's COLO beside us, by a QEMU that does it: how long a checkpoint stops a guest, and what else it costs.

COLO does not run under QEMU 7.2 (`pause.py` shows how it ends); that of trixie-backports does it, also with several
connections (multifd). It is fetched into a tree of its own, and both sides' bare guests run under it; the protected
guest runs under this host's QEMU. One guest that writes about 1,850 pages each 100 ms. In turn, over and over:

- *ours*: the median pause of the epochs of some seconds (`pause_ns` of ``epochs.csv``);
- *COLO*, *COLO, multifd*: the median time of the primary from ``STOP`` to ``RESUME`` of a checkpoint;
- *COLO, compared*: with multifd and its comparison of packets: a reply waits until both guests have given it, or for a
  checkpoint. Without the comparison no reply waits, and none is safe.

The guest is asked 50 times a second (ICMP, open loop): ours in mode `net`, where a reply waits for its epoch, and
afterwards with checkpoints on demand; the bare one without a checkpoint, and under COLO with the comparison.

At the end the primary's QEMU is killed some times under COLO with the comparison, and the secondary is told at once.
Then a guest is migrated by QEMU with its own settings, over and over.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import median

from measurement.bare import SETTLES_S, Emulator, MonitorError, boot_counter
from measurement.colo import ColoError, Outlived, Way, colo, crashes, outlive
from measurement.hosts import Guest, NamespaceTestbed
from measurement.rows import values
from measurement.showing import Figure, arguments, show
from measurement.two_cards import ASKED_EACH_NS, TwoCards, machine_there
from measurement.yardsticks import Migration, migrate
from newer_qemu import NewerQemu, newer_qemu

from stealtime.hosts.echo import percentile_ns, round_trips
from stealtime.hosts.laboratory import Laboratory
from stealtime.protect.session import make_spec
from stealtime.protect.specification import MachineSpec
from stealtime.vocabulary.errors import StealtimeError

_ALONE = "alone"
_MIGRATION = "migration"
_ON_DEMAND = "ours, on demand from 5 ms on"
_NODE = "cards"
_INTERVAL_MS = 100
OF_COLO = 0.2
COMPARED = "COLO, compared"


def ways_of(cards: TwoCards, newer: NewerQemu) -> dict[str, Way]:
    """Give how COLO is used, by name."""
    # Without the comparison both guests would speak: the second one is given no network.
    plain = Way(("return-path",), secondary=Emulator(newer.command))
    multifd = replace(plain, capabilities=("return-path", "multifd"), parameters=(("multifd_channels", 4),))
    compared = replace(multifd, secondary=cards.emulator(newer.command, 1), is_compared=True, ask=cards.ask)
    return {"COLO": plain, "COLO, multifd": multifd, COMPARED: compared}


class Bare:
    """A guest under that QEMU, booted anew where it has not survived."""

    def __init__(self, machine: MachineSpec, folder: Path, newer: NewerQemu, cards: TwoCards) -> None:
        self._machine, self._folder, self._cards = machine_there(machine), folder, cards
        self._emulator = cards.emulator(newer.command, 0)
        self.ways = ways_of(cards, newer)
        self.ended: dict[str, list[str]] = {name: [] for name in (*self.ways, _MIGRATION)}
        """How it did not work, by side."""
        self.pages: dict[str, list[int]] = {name: [] for name in self.ways}
        self.checkpoints = dict.fromkeys(self.ways, 0)
        self.trips: dict[str, list[int | None]] = {name: [] for name in (_ALONE, *self.ways)}
        """Round trips in ns."""
        self.qemu = boot_counter(self._machine, self._folder, self._emulator)

    def _boot_anew(self) -> None:
        self.qemu.end()
        self.qemu = boot_counter(self._machine, self._folder, self._emulator)

    def colo_ms(self, name: str, seconds: float) -> float | None:
        """Checkpoint the guest for a while."""
        try:
            seen = colo(self.qemu, self._machine, self._folder, seconds, _INTERVAL_MS, self.ways[name])
        except (ColoError, MonitorError) as error:
            self.ended[name].append(str(error))
            self._boot_anew()
            return None
        self.trips[name] += seen.trips_ns
        self.pages[name] += seen.pages
        self.checkpoints[name] += len(seen.stops_ms)
        if crashes(self.qemu):
            self.ended[name].append(crashes(self.qemu)[0])
            self._boot_anew()
        return median(seen.stops_ms)

    def migrate(self, times: int) -> list[Migration]:
        """Migrate a guest without a network; none any more when it has crashed."""
        self.qemu.end()
        self._emulator = replace(self._emulator, netdev=Emulator.netdev)
        self.qemu = boot_counter(self._machine, self._folder, self._emulator)
        done: list[Migration] = []
        for _ in range(times):
            try:
                migration, self.qemu = migrate(self.qemu, self._machine, self._folder, {})
            except MonitorError as error:
                self.ended[_MIGRATION].append(str(error))
                break
            time.sleep(SETTLES_S)
            if crashes(self.qemu):
                self.ended[_MIGRATION] += crashes(self.qemu)
                break
            done.append(migration)
        return done

    def alone(self, seconds: float) -> None:
        """Ask the guest without any checkpoint."""
        self.trips[_ALONE] += self._cards.ask(seconds)

    def outlived(self, name: str, seconds: float) -> Outlived | None:
        """Kill the primary under COLO; then another guest is booted."""
        try:
            return outlive(self.qemu, self._machine, self._folder, seconds, _INTERVAL_MS, self.ways[name])
        except (ColoError, MonitorError) as error:
            self.ended[name].append(str(error))
            return None
        finally:
            self._boot_anew()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, metavar="N", help="default 5, with --full 20")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each side in a turn; default 3")
    parser.add_argument("--deaths", type=int, default=3, metavar="N", help="of the primary; default 3")
    options = parser.parse_args()
    turns = options.turns or (20 if options.full else 5)
    try:
        newer = newer_qemu(Path.home() / ".cache" / "stealtime" / "newer-qemu")
    except StealtimeError as error:
        sys.exit(f"not measured, because {error.message}")
    program = ["tcp=7000", "udp=7000", "memory=32MiB", "dirty=178/10ms"]
    measured: list[dict[str, float]] = []
    pages: list[float] = []
    count = round(options.seconds * 1e9 / ASKED_EACH_NS)
    trips: dict[str, list[int | None]] = {"ours": [], _ON_DEMAND: []}
    with Laboratory(servers=(_NODE,)) as laboratory, ExitStack() as ending:
        testbed = NamespaceTestbed(laboratory)
        guest = Guest(testbed, program_arguments=program)
        on_demand = Guest(testbed, number=1, program_arguments=program, min_interval="5ms")
        guest.start()
        machine = make_spec(guest.vm, guest.testbed.state, "a").machine
        # Its virtio-net has no device that could be told to be a legacy one by a setting of all.
        machine = machine.model_copy(update={"virtio": "transitional"})
        bare = Bare(machine, laboratory.folder, newer, TwoCards(laboratory, _NODE))
        ending.callback(lambda: bare.qemu.end())
        guest.await_ready()
        guest.ask("status")
        for _ in range(turns):
            rows = guest.epochs_for(options.seconds)
            trips["ours"] += round_trips(testbed.client, guest.ip_address, count, ASKED_EACH_NS)
            pages += values(rows, "pages")
            bare.alone(options.seconds)
            theirs = {name: bare.colo_ms(name, options.seconds) for name in bare.ways}
            worked = {name: value_ms for name, value_ms in theirs.items() if value_ms is not None}
            measured.append({"ours": median(values(rows, "pause_ns")) / 1e6, **worked})
        guest.stop()
        on_demand.start()
        on_demand.await_ready()
        on_demand.ask("status")
        for _ in range(turns):
            trips[_ON_DEMAND] += round_trips(testbed.client, on_demand.ip_address, count, ASKED_EACH_NS)
        on_demand.stop()
        found = [bare.outlived(COMPARED, options.seconds) for _ in range(options.deaths)]
        outlived = [one for one in found if one is not None]
        migrations = bare.migrate(2 * turns)
    figures = [
        Figure("dirty pages of an epoch", "", pages),
        *(Figure(side, "ms", [turn[side] for turn in measured if side in turn]) for side in ("ours", *bare.ways)),
        *(Figure(f"{name}: pages of a checkpoint", "", bare.pages[name]) for name in bare.ways),
        *(
            Figure(
                f"ratio of ours to {name}",
                "",
                [turn["ours"] / turn[name] for turn in measured if name in turn],
                at_most=OF_COLO,
            )
            for name in bare.ways
        ),
        *(
            Figure(f"{name}: round trip, {percent} %", "ms", [trip_ns / 1e6])
            for name, own in (trips | bare.trips).items()
            for percent in (50, 99)
            if own and (trip_ns := percentile_ns(own, percent)) is not None
        ),
        Figure("from the kill to taken over", "ms", [one.took_ms for one in outlived]),
        Figure("migration: downtime", "ms", [one.downtime_ms for one in migrations]),
        Figure("longest wait for an answer around it", "ms", [_longest_wait_ms(one.trips_ns) for one in outlived]),
    ]
    notes = [
        f"{turns} turns of {options.seconds:g} s a side, one value a turn",
        f"COLO and migration under QEMU {newer.version}, ours under that of this host",
        *(f"{name}: {count} checkpoints" for name, count in bare.checkpoints.items()),
        *(
            f"{name}: {own.count(None)} of {len(own)} requests unanswered"
            for name, own in (trips | bare.trips).items()
            if own
        ),
        f"migration: the guest lived on after {len(migrations)} of {2 * turns}",
        f"{COMPARED}: {len(outlived)} of {options.deaths} guests outlived their primary",
        *(f"{side} did not work: {said}" for side, all_of in bare.ended.items() for said in all_of),
    ]
    show("COLO beside us", figures, notes, as_json=options.json)


def _longest_wait_ms(trips_ns: Sequence[int | None]) -> float:
    """Give the longest round trip, or the longest time whose requests were never answered."""
    silent = max(
        (len(list(own)) for is_silent, own in groupby(one is None for one in trips_ns) if is_silent), default=0
    )
    late_ns = max((one for one in trips_ns if one is not None), default=0)
    return max(silent * ASKED_EACH_NS, late_ns) / 1e6


if __name__ == "__main__":
    main()
