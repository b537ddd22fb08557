"""The figures of checkpoints, which each study of protected guests declares as many of as it shows."""

from collections.abc import Callable, Mapping

from stealtime.hosts.checkpoints import Checkpoints
from stealtime.report.catalogue.model import Figure
from stealtime.vocabulary.quantities import format_duration


def _figure(label: str, take: Callable[[Checkpoints], float | None]) -> Figure:
    return Figure(label, lambda result: None if result.checkpoints is None else take(result.checkpoints))


_FIGURES: Mapping[str, Figure] = {
    "pause_p50_ns": _figure("pause, median", lambda one: one.pause_p50_ns),
    "pause_p99_ns": _figure("pause, 99 %", lambda one: one.pause_p99_ns),
    "pause_max_ns": _figure("pause, longest", lambda one: one.pause_max_ns),
    "hold_p50_ns": _figure("output held", lambda one: one.hold_p50_ns),
    "guest_time_lost_ppm": _figure("guest time lost", lambda one: 1e6 * one.pause_total_ns / one.elapsed_ns),
    "epochs_per_s": _figure("checkpoints", lambda one: one.epochs_per_s),
    "epoch_bytes": _figure("sent for each", lambda one: one.bytes_per_epoch),
    "epoch_pages": _figure("pages of each", lambda one: one.pages_per_epoch),
    "shipped_bytes_per_s": _figure("shipped", lambda one: 1e9 * one.shipped_bytes / one.elapsed_ns),
}


def checkpoint_figures(*names: str) -> dict[str, Figure]:
    """Give some of them in one order, of results that have ``checkpoints``: None where there was no protection."""
    return {name: figure for name, figure in _FIGURES.items() if name in names}


def interval_words(interval_ns: int | None, min_interval_ns: int | None = None) -> str:
    """Say when they are made, behind the words that they follow; nothing where that is not known."""
    every = "" if interval_ns is None else f" every {format_duration(interval_ns)}"
    least = "" if min_interval_ns is None else f", on demand {format_duration(min_interval_ns)} after the last"
    return every + least
