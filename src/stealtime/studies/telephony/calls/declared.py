"""What the study's catalogue declares of calls besides: on several hosts, transcoded, and without a standby."""

from collections.abc import Callable
from typing import Any

from stealtime.report.catalogue.model import Figure, FigureTable
from stealtime.studies.telephony.appliance.root import Role
from stealtime.studies.telephony.calls.results import HostOfCalls


def _of_host(role: Role | None, part: Callable[[HostOfCalls], int | None]) -> Callable[[Any], float | None]:
    """Take CPU of the host where a role runs, if it has one alone, or of those that only stand by (None)."""

    def take(result: Any) -> float | None:
        own = [one for one in result.hosts if (role in one.runs if role else not one.runs)]
        if role == "media" and any(len(one.runs) > 1 for one in own):
            return None  # that of signalling
        used = [used_ns for one in own if (used_ns := part(one)) is not None]
        return 100.0 * sum(used) / result.elapsed_ns if used else None

    return take


OF_HOSTS = {
    "signalling_host_percent": Figure("host of signalling", _of_host("signalling", lambda one: one.side_ns)),
    "signalling_guests_percent": Figure("guests there", _of_host("signalling", lambda one: one.guests_ns)),
    "media_host_percent": Figure("host of media", _of_host("media", lambda one: one.side_ns)),
    "media_guest_percent": Figure("guest there", _of_host("media", lambda one: one.guests_ns)),
    "standby_host_percent": Figure("their standby", _of_host(None, lambda one: one.side_ns)),
}
"""Of one CPU: the host side of each host, and the virtual CPUs of the guests that run there."""
CPU_OF_HOSTS = FigureTable(
    "Calls: the CPU of each host, where signalling and media have a guest each",
    (
        *("signalling_host_percent", "signalling_guests_percent", "media_host_percent"),
        *("media_guest_percent", "standby_host_percent"),
    ),
    of=lambda cell: cell.parameters.get("roles", "together") != "together",
    only_measured=True,
)


def _transcoded(name: str) -> Callable[[Any], float | None]:
    """Take what tells of voice that was transcoded; None where it was passed on."""
    return lambda result: None if result.voice.transcoded is None else getattr(result.voice.transcoded, name)


def _server_cpu_stream_percent(result: Any) -> float | None:
    """Give the server's CPU for each stream, of one CPU."""
    whole = result.elapsed_ns * result.voice.streams
    return 100.0 * result.server_cpu_ns / whole if whole else None


OF_STREAMS = {"server_cpu_stream_percent": Figure("server, each stream", _server_cpu_stream_percent)}
OF_TRANSCODING = {
    "tones_judged": Figure("judged by their tone", _transcoded("judged"), combine="sum"),
    "tones_right": Figure("right", _transcoded("right"), combine="sum"),
    "passed_on": Figure("not transcoded", _transcoded("passed_on"), combine="sum"),
    "source_changes": Figure("new source numbers", _transcoded("source_changes"), combine="sum"),
    "renumbered": Figure("numbered anew", _transcoded("renumbered"), combine="sum"),
}
"""Packets of voice that the server puts into another codec, and what would tell that it had begun anew."""
TRANSCODED = FigureTable(
    "Calls whose voice is put into another codec: what came of it",
    ("tones_judged", "tones_right", "passed_on", "source_changes", "renumbered", "packets", "packets_lost"),
    short=("tones_judged", "tones_right", "source_changes", "renumbered"),
    # To pass voice on is told by leaving it out.
    of=lambda cell: cell.parameters.get("media", "relay") == "transcoding",
)
WITHOUT_STANDBY = FigureTable(
    "When the host that backs the server is lost under calls",
    (
        *("silence_ns", "fault_to_alone_ns", "unprotected_ns", "back_to_protected_ns", "loss_percent"),
        *("packets_late", "calls_kept_percent", "registrations_acknowledged", "registrations_lost"),
    ),
    short=("silence_ns", "unprotected_ns", "loss_percent", "calls_kept_percent"),
    of=lambda cell: cell.parameters.get("victim", "primary") == "standby",
)
