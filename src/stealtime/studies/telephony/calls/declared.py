"""What the study's catalogue declares of calls that are transcoded, and of those whose server loses its standby."""

from collections.abc import Callable
from typing import Any

from stealtime.report.catalogue.model import Figure, FigureTable


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
