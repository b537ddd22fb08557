"""What protection takes from a guest with a disk: durable writes of 4 KiB, and commits of a database by eight clients.

*Durable writes*: the guest that counts writes each value to its disk, a block of 4 KiB past the page cache, and has it
synchronised, before it answers; eight counts go on at a time. In turn unprotected and in the mode ``no-net``, in which
no answer waits: what is left is the cost of the disk.

*Commits*: PostgreSQL in a Debian guest, eight clients, each of which commits one row after the other. A guest that has
booted once is measured alone (the other host is off) and protected, in turn. In the mode ``net`` a commit waits for its
checkpoint, so that eight clients that wait for one each 100 ms are given 80 commits a second at most.

*Return*: what is copied when the other host is there again, of what its first copy took; the database wrote meanwhile.

    python benchmarks/protect/disks.py [--full] [--json]
"""

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measurement.hosts import COUNTER, Guest, NamespaceTestbed
from measurement.rows import quantile
from measurement.showing import Figure, arguments, show

from stealtime.hosts.database.guest import DatabaseClient, database_machine
from stealtime.hosts.database.image import database_image
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import HOSTS, STANDBY

CLIENTS = 8
IMAGE_BYTES = 64 << 20
_PROTECTED_WITHIN_S = 180.0
_SETTLES_S = 2.0
WRITES_AT_LEAST, COMMITS_AT_LEAST = 0.7, 0.6
RETURN_AT_MOST = 0.05
"""Where about a hundredth of the disk was written meanwhile."""

PLANS: dict[str, dict[str, str]] = {
    "100 ms": {"interval": "100ms"},
    "on demand, 5 ms": {"interval": "100ms", "min_interval": "5ms"},
    "on demand, 5 ms, stable": {"interval": "100ms", "min_interval": "5ms", "flush": "stable"},
}


@dataclass
class Commits:
    """Of one plan."""

    alone_per_s: list[float] = field(default_factory=list)
    protected_per_s: list[float] = field(default_factory=list)
    alone_ms: list[float] = field(default_factory=list)
    protected_ms: list[float] = field(default_factory=list)
    pauses_ms: list[float] = field(default_factory=list)
    copied_mib: list[float] = field(default_factory=list)
    """Of the disk, each time that the other host came: at first, and when it was back."""

    @property
    def ratios(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.protected_per_s, self.alone_per_s, strict=True)]


def durable_writes_per_s(testbed: NamespaceTestbed, folder: Path, mode: str, seconds: float) -> float:
    """Boot a guest that counts on a disk; give its values each second."""
    image = folder / f"{mode}.raw"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    disk = {"name": "data", "path": str(image)}
    guest = Guest(testbed, mode=mode, program_arguments=[*COUNTER[:2], "disk=/dev/vda"], disks=[disk])
    guest.start()
    guest.await_ready()
    guest.ask("status")
    with guest.counting(CLIENTS // 2):
        time.sleep(_SETTLES_S)
        before, from_s = int(guest.ask("status")["total"]), time.monotonic()
        time.sleep(seconds)
        after, to_s = int(guest.ask("status")["total"]), time.monotonic()
    guest.stop()
    return (after - before) / (to_s - from_s)


def measure_commits(plan: dict[str, str], turns: int, seconds: float) -> Commits:
    """Boot the database, and measure it alone and protected, in turn."""
    found = Commits()
    with Laboratory(HOSTS) as laboratory:
        testbed = NamespaceTestbed(laboratory)
        machine: dict[str, Any] = database_machine(database_image(), laboratory.folder / "disks", "net", **plan)
        guest = testbed.guest("database", **machine)
        guest.start()
        guest.await_ready(within_s=_PROTECTED_WITHIN_S)
        waiting = DatabaseClient(guest)
        waiting.await_begin()
        waiting.end()
        for _ in range(turns):
            testbed.laboratory.power_off(STANDBY)
            guest.waiting.until(
                lambda: any(member.role == "solo" for member in guest.running_members()), lambda: "it is not alone"
            )
            per_s, ms = _commits(guest, seconds)
            found.alone_per_s.append(per_s)
            found.alone_ms += ms
            testbed.start_daemon(STANDBY)
            active = guest.await_ready(within_s=_PROTECTED_WITHIN_S)
            from_ns = time.monotonic_ns()
            per_s, ms = _commits(guest, seconds)
            guest.check_protected(active, from_ns)
            found.protected_per_s.append(per_s)
            found.protected_ms += ms
            found.pauses_ms += [row["pause_ns"] / 1e6 for row in guest.epochs_since(active, from_ns)]
        copies = testbed.host(HOSTS[0]).events(guest.name, "disks-copied")
        found.copied_mib = [copy["copied_bytes"] / (1 << 20) for copy in copies]
    return found


def _commits(guest: Any, seconds: float) -> tuple[float, list[float]]:
    client = DatabaseClient(guest, clients=CLIENTS)
    try:
        time.sleep(_SETTLES_S + seconds)
        seen = client.end()
    finally:
        client.close()
    if seen.missing or seen.damage:
        raise SystemExit(f"the database has lost {seen.missing[:5]}, and finds {seen.damage[:5]}")
    ms = [taken / 1e6 for taken in seen.commit_ns]
    # Each client commits one after the other: what one took is how often it could.
    return CLIENTS * 1e3 / statistics.fmean(ms), ms


def main() -> None:
    options = arguments(__doc__).parse_args()
    turns, seconds = (4, 15.0) if options.full else (2, 8.0)
    writes: dict[str, list[float]] = {"off": [], "no-net": []}
    with Laboratory() as laboratory, tempfile.TemporaryDirectory(prefix="stealtime-disks-") as folder:
        testbed = NamespaceTestbed(laboratory)
        for _ in range(turns):
            for mode, found in writes.items():
                found.append(durable_writes_per_s(testbed, Path(folder), mode, seconds))
    ratios = [ours / theirs for theirs, ours in zip(*writes.values(), strict=True)]
    figures = [
        Figure("durable writes, unprotected", "/s", writes["off"]),
        Figure("durable writes, no-net, 100 ms", "/s", writes["no-net"]),
        Figure("  of unprotected", "", ratios, at_least=WRITES_AT_LEAST),
    ]
    for name, plan in PLANS.items():
        commits = measure_commits(plan, turns, seconds)
        target = COMMITS_AT_LEAST if name == "100 ms" else None
        figures += [
            Figure(f"commits alone ({name})", "/s", commits.alone_per_s),
            Figure(f"commits protected, {name}", "/s", commits.protected_per_s),
            Figure("  of alone", "", commits.ratios, at_least=target),
            *(
                Figure(f"  a commit takes, {where}, {share}", "ms", [quantile(values, q)])
                for where, values in (("alone", commits.alone_ms), ("protected", commits.protected_ms))
                for share, q in (("p50", 0.5), ("p99", 0.99))
            ),
            Figure("  pause p50", "ms", [quantile(commits.pauses_ms, 0.5)]),
            Figure("  pause p99", "ms", [quantile(commits.pauses_ms, 0.99)]),
            Figure("  first copy", "MiB", commits.copied_mib[:1]),
            Figure("  copied at each return", "MiB", commits.copied_mib[1:]),
            Figure(
                "    of the first copy",
                "",
                [copied / commits.copied_mib[0] for copied in commits.copied_mib[1:]],
                at_most=RETURN_AT_MOST,
            ),
        ]
    show("a guest with a disk", figures, [f"{turns} turns of {seconds:g} s, {CLIENTS} clients"], as_json=options.json)


if __name__ == "__main__":
    main()
