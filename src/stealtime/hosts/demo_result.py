"""What a demonstration showed: as a table for people, as a document for programs."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stealtime.protect.status import MemberStatus
from stealtime.report.notation import count, duration

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA_VERSION = 2


def table_of(rows: list[tuple[str, str]]) -> "Table":
    """Give what a demonstration showed, a name and a value a row."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in rows:
        table.add_row(name, value)
    return table


@dataclass(frozen=True)
class MedianTrips:
    """How long a client waited for its answers: the first copy of a request to the answer."""

    tcp_ns: int
    udp_ns: int

    def words(self) -> str:
        return f"{duration(self.tcp_ns, 3)} TCP, {duration(self.udp_ns, 3)} UDP"


@dataclass(frozen=True)
class Demonstration:
    """A failover, seen from the client and from both members."""

    mode: str
    interval: str
    min_interval: str | None
    seen: dict[str, Any]
    """What ``stealtime-agent count --json`` printed."""
    trips_without: MedianTrips
    """To the same guest, unprotected."""
    trips_protected: MedianTrips | None
    """None: it was never protected for long enough."""
    before: MemberStatus
    """The primary, just before it was killed."""
    after: MemberStatus
    """The former standby, at the end."""
    killed_monotonic_ns: int
    runs_again_monotonic_ns: int | None

    def is_whole(self) -> bool:
        """Tell whether the client's connection survived and nothing that was acknowledged to it is missing.

        A client to which nothing was acknowledged has nothing that could be missing: that shows nothing.
        """
        return self.seen["acknowledged"] > 0 and self.seen["violations_total"] == 0 and self.seen["tcp_lived"] is True

    def document(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "mode": self.mode,
            "interval": self.interval,
            "min_interval": self.min_interval,
            "is_whole": self.is_whole(),
            "killed_monotonic_ns": self.killed_monotonic_ns,
            "runs_again_after_ns": self._runs_again_after_ns(),
            "round_trip_p50": {
                "without_protection": asdict(self.trips_without),
                "protected": asdict(self.trips_protected) if self.trips_protected is not None else None,
            },
            "before": self.before.model_dump(mode="json"),
            "after": self.after.model_dump(mode="json"),
            "client": self.seen,
        }

    def table(self) -> "Table":
        return table_of(self.rows())

    def rows(self) -> list[tuple[str, str]]:
        outages = self.seen["longest_outage_ns"]
        violations = int(self.seen["violations_total"])
        check = self.seen.get("check")
        rows = [
            ("mode", f"{self.mode}, a checkpoint every {self.interval}"),
            ("acknowledged to the client", f"{count(int(self.seen['acknowledged']))} values"),
            ("missing after the failover", "none" if violations == 0 else f"{count(violations)} violations"),
            ("TCP connection", "lived on" if self.seen["tcp_lived"] else "was lost"),
            *((f"longest silence, {protocol.upper()}", duration(outages[protocol], 3)) for protocol in sorted(outages)),
            ("guest runs again after SIGKILL", duration(self._runs_again_after_ns(), 3)),
            ("  of it, from decision to running", duration(self.after.resume_ns, 3)),
            ("round trip without protection", self.trips_without.words()),
            ("round trip protected", self._trips_protected()),
            ("pause of the guest, median", duration(self.before.pause_p50_ns or None, 3)),
            ("output held, median", duration(self.before.hold_p50_ns or None, 3)),
            ("protected again", self._protected_again()),
        ]
        if isinstance(check, dict) and "mismatches" in check:
            rows.insert(4, ("guest's own memory", f"{count(int(check['mismatches']))} pages wrong"))
        return rows

    def _runs_again_after_ns(self) -> int | None:
        if self.runs_again_monotonic_ns is None:
            return None
        return self.runs_again_monotonic_ns - self.killed_monotonic_ns

    def _trips_protected(self) -> str:
        if self.trips_protected is None:
            return "not measured: the guest was not protected all the time, as this host is too busy"
        return self.trips_protected.words()

    def _protected_again(self) -> str:
        if not self.after.protected:
            return "not yet"
        return f"yes, by host {self.after.standby.name}" if self.after.standby is not None else "yes"
