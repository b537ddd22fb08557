"""``stealtime protect demo --disk``: PostgreSQL in a Debian guest with a disk, a client that commits, and SIGKILL."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stealtime.hosts.database.client import Seen
from stealtime.hosts.database.guest import DatabaseClient, check_installed, database_machine
from stealtime.hosts.database.image import database_image, is_made
from stealtime.hosts.demo_result import table_of
from stealtime.hosts.guest import Guest
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed
from stealtime.protect.showing import show_full_copy
from stealtime.protect.status import MemberStatus
from stealtime.report.notation import count, duration
from stealtime.vocabulary.errors import StealtimeError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SCHEMA_VERSION = 1
_OUR_STDERR = 2
_COMMITS_FOR_S = 8.0
"""Before the kill, and after the machine is protected again."""
_PROTECTED_WITHIN_S = 180.0


@dataclass(frozen=True)
class DatabaseDemonstration:
    """A failover, seen from the client of the database and from both members."""

    mode: str
    interval: str
    seen: Seen
    before: MemberStatus
    """The primary, just before it was killed."""
    after: MemberStatus
    """The former standby, at the end."""
    disk_bytes: int
    copied_bytes: int
    """Of the disk, to the standby at first."""
    copied_again_bytes: int
    """Of the disk, to the host that had died."""
    killed_monotonic_ns: int
    runs_again_monotonic_ns: int
    protected_again_monotonic_ns: int

    @property
    def runs_again_after_ns(self) -> int:
        return self.runs_again_monotonic_ns - self.killed_monotonic_ns

    def is_whole(self) -> bool:
        """Tell whether the connection survived and nothing that was acknowledged, which is something, is missing."""
        seen = self.seen
        return seen.acknowledged > 0 and not seen.missing and not seen.damage and seen.connections_lost == 0

    def document(self) -> dict[str, Any]:
        seen = asdict(self.seen)
        del seen["acknowledged_at_ns"]
        return {
            "schema_version": SCHEMA_VERSION,
            "mode": self.mode,
            "interval": self.interval,
            "is_whole": self.is_whole(),
            "runs_again_after_ns": self.runs_again_after_ns,
            "disk": {
                "bytes": self.disk_bytes,
                "copied_bytes": self.copied_bytes,
                "copied_again_bytes": self.copied_again_bytes,
            },
            "before": self.before.model_dump(mode="json"),
            "after": self.after.model_dump(mode="json"),
            "client": {
                **seen,
                "commit_ns": {
                    "protected": _p50_p99(self._commits_protected()),
                    "without_standby": _p50_p99(self._commits_without_standby()),
                },
            },
        }

    def table(self) -> "Table":
        return table_of(self.rows())

    def rows(self) -> list[tuple[str, str]]:
        seen = self.seen
        mib = 1 << 20
        return [
            ("mode", f"{self.mode}, a checkpoint every {self.interval}"),
            ("committed, by the database's word", f"{count(seen.acknowledged)} transactions"),
            ("missing after the failover", "none" if not seen.missing else f"{count(len(seen.missing))} transactions"),
            ("damage that the database finds", "none" if not seen.damage else "; ".join(seen.damage[:3])),
            ("its connection", "lived on" if seen.connections_lost == 0 else f"was lost {seen.connections_lost} times"),
            ("a commit takes, protected", _shown(self._commits_protected())),
            ("  while there is no standby", _shown(self._commits_without_standby())),
            ("longest wait for a commit", duration(seen.longest_silence_ns, 3)),
            ("guest runs again after SIGKILL", duration(self.runs_again_after_ns, 3)),
            ("  of it, from decision to running", duration(self.after.resume_ns, 3)),
            ("pause of the guest, median", duration(self.before.pause_p50_ns or None, 3)),
            ("disk", f"{self.disk_bytes / mib:.0f} MiB, {self.copied_bytes / mib:.0f} MiB of it copied at first"),
            ("  to the host that had died", f"{self.copied_again_bytes / mib:.1f} MiB, which is what differed"),
        ]

    def _commits_protected(self) -> list[int]:
        """Give the times of those before the kill."""
        return self.seen.commits_between(0, self.killed_monotonic_ns)

    def _commits_without_standby(self) -> list[int]:
        """Give the times of those that waited for nobody: the one that the failover met is in neither."""
        return self.seen.commits_between(self.runs_again_monotonic_ns, self.protected_again_monotonic_ns)


def _p50_p99(ordered_ns: list[int]) -> dict[str, int | None]:
    def at(share: float) -> int | None:
        return ordered_ns[min(int(share * len(ordered_ns)), len(ordered_ns) - 1)] if ordered_ns else None

    return {"p50": at(0.5), "p99": at(0.99)}


def _shown(ordered_ns: list[int]) -> str:
    if not ordered_ns:
        return "none was seen"
    found = _p50_p99(ordered_ns)
    return f"{duration(found['p50'], 3)}, 99 %: {duration(found['p99'], 3)}, {count(len(ordered_ns))} commits"


def demonstrate_disk(
    mode: str, intervals: Mapping[str, str], accelerator: str, console: "Console"
) -> DatabaseDemonstration:
    """Show a failover of a guest with a disk.

    Args:
        mode: What happens to the guest's output.
        intervals: Between checkpoints, as in ``VM.toml``: ``interval``, and ``min_interval`` where it is given.
        accelerator: Runs the guest's code.
        console: Where to tell how it goes.

    Raises:
        StealtimeError: It could not be shown: no root, a program is missing, the guest did not come up.
    """

    def tell(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    check_installed()
    with Laboratory(HOSTS) as laboratory:
        if not is_made():
            tell("the disk of a Debian guest with PostgreSQL is made of Debian's packages: a minute or two, once")
        image = database_image()
        tell(
            "two hosts, a switch and a client, in network namespaces; a Debian boots on host a, from a copy of its disk"
        )
        testbed = NamespaceTestbed(laboratory, accelerator=accelerator)
        machine = database_machine(image, laboratory.folder / "disks", mode, **intervals)
        guest = testbed.guest("database", **machine)
        guest.start()
        tell("its memory and its disk are copied to host b while it boots")
        with show_full_copy(console) as update:
            guest.await_ready(within_s=_PROTECTED_WITHIN_S, on_status=update)
        client = DatabaseClient(guest, stderr=_OUR_STDERR)
        try:
            tell("PostgreSQL starts; then the client commits one transaction after the other")
            client.await_begin()
            time.sleep(_COMMITS_FOR_S)
            before = guest.await_ready()
            killed = guest.lose_host(before)
            tell(f"SIGKILL of the primary: its member (pid {before.pid}) and with it QEMU are gone")
            survivor = guest.other_host(before.host)
            guest.await_taken(survivor)
            tell(f"the guest runs at {survivor}")
            runs_again = guest.first(survivor, "guest-continued", killed)
            after = guest.await_ready(within_s=_PROTECTED_WITHIN_S)
            protected_again_ns = time.monotonic_ns()
            by = after.standby.name if after.standby is not None else before.host
            tell(f"protected again, by {by}; the client goes on, and then looks for all that it was told")
            time.sleep(_COMMITS_FOR_S)
            seen = client.end()
        finally:
            client.close()
        first, again = _copied(guest, before.host), _copied(guest, survivor)
        return DatabaseDemonstration(
            mode=mode,
            interval=intervals["interval"],
            seen=seen,
            before=before,
            after=after,
            disk_bytes=first["compared_bytes"],
            copied_bytes=first["copied_bytes"],
            copied_again_bytes=again["copied_bytes"],
            killed_monotonic_ns=killed.at_ns,
            runs_again_monotonic_ns=runs_again.at_ns,
            protected_again_monotonic_ns=protected_again_ns,
        )


def _copied(guest: Guest, host: str) -> dict[str, int]:
    """Give what the first copy of the disk from a host came to: of several, the largest."""
    events = next(one for one in guest.hosts if one.name == host).events(guest.name, "disks-copied")
    if not events:
        raise StealtimeError(f"{host} copied no disk")
    return max(events, key=lambda event: int(event["copied_bytes"]))
