"""A merged run in the terminal."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from stealtime.merging.document import MergedDocument
from stealtime.merging.figures import NAMES, HostsOfCell, RangeOverHosts
from stealtime.report import notation
from stealtime.vocabulary.quantities import approximate_duration

if TYPE_CHECKING:
    from rich.console import Console

_LISTED = 8
_SHOWN = ("p50_ns", "p99_ns", "p999_ns", "max_ns")


def print_merged(document: MergedDocument, console: "Console", *, everything: bool) -> None:
    """Print the hosts, what is not whole, and for each cell the pool beside the range over hosts."""
    from rich.table import Table

    _print_head(document, console)
    table = Table(
        "cell", "figure", "pooled", "smallest", "on", "largest", "on", "over hosts",
        box=None, pad_edge=False, header_style="bold",
    )  # fmt: skip
    for cell in document.cells:
        for row in _rows(cell, everything=everything):
            table.add_row(*row)
    console.print(table)
    for line in _notes(document, everything=everything):
        console.print(line, markup=False, soft_wrap=True)


def print_parts(document: MergedDocument, console: "Console") -> None:
    """Print of what runs a merged one was made whose cells were each measured on one host."""
    _print_head(document, console)
    for remark in document.remarks:
        console.print(f"not whole: {remark}", markup=False, soft_wrap=True)


def _print_head(document: MergedDocument, console: "Console") -> None:
    hosts = list(document.hosts)
    named = ", ".join(hosts[:_LISTED]) + (f" and {len(hosts) - _LISTED} more" if len(hosts) > _LISTED else "")
    runs = "run" if len(document.parts) == 1 else "runs"
    console.print(
        f"{len(document.parts)} {runs} of {len(hosts)} {'host' if len(hosts) == 1 else 'hosts'}: {named}\n",
        markup=False,
        soft_wrap=True,
    )


def _rows(cell: HostsOfCell, *, everything: bool) -> Iterator[tuple[str, ...]]:
    name = f"{cell.platform} {cell.scenario} {cell.measurement}"
    for figure in cell.figures:
        if everything or figure.name in _SHOWN:
            yield name, NAMES[figure.name], *figure_words(figure)
            name = ""
    if not cell.figures:
        yield name, "-", "", "", "", "", "", "no trial that may be used"


def figure_words(figure: RangeOverHosts) -> tuple[str, ...]:
    """Give the pool, the smallest and the largest host's value with those hosts, and the interval over hosts."""
    if figure.low_ns is None or figure.high_ns is None:
        interval = "" if figure.name in ("min_ns", "max_ns") else "not judged"
    else:
        interval = f"{notation.duration(figure.low_ns)} to {notation.duration(figure.high_ns)}"
    pooled = "-" if figure.pooled_ns is None else notation.duration(figure.pooled_ns)
    smallest, largest = notation.duration(figure.smallest_ns), notation.duration(figure.largest_ns)
    return pooled, smallest, figure.smallest_host, largest, figure.largest_host, interval


def _notes(document: MergedDocument, *, everything: bool) -> Iterator[str]:
    yield ""
    reasons = {one.because for cell in document.cells for one in cell.figures if one.name == "p50_ns"} - {None}
    if reasons:
        yield f"over hosts: not judged, because {'; '.join(sorted(map(str, reasons)))}"
    limits = {cell.limited: None for cell in document.cells if cell.limited is not None}
    for limit in limits:
        cells = [cell.measurement for cell in document.cells if cell.limited == limit]
        yield f"the kernel's limit on real-time threads acted ({limit}), which may be the longest of {', '.join(cells)}"
    for cell in document.cells:
        name = f"{cell.platform} {cell.scenario} {cell.measurement}"
        if (longest := cell.longest) is not None:
            because = f"; {longest.cause}" if longest.cause is not None else ""
            yield (
                f"{name}: the longest, {notation.duration(longest.ns)}, on {longest.host} at "
                f"{longest.at:%Y-%m-%d %H:%M:%S} UTC, in {approximate_duration(longest.watched_s)} watched on "
                f"{len(cell.hosts)} {'host' if len(cell.hosts) == 1 else 'hosts'}{because}"
            )
        if cell.not_pooled is not None:
            yield f"{name}: not pooled, because {cell.not_pooled}"
        if cell.rounded_samples:
            yield (
                f"{name}: of {cell.samples} samples {cell.rounded_samples} were rounded down by at most 0.4 %, because "
                "their durations hardly repeat"
            )
        shown = cell.left_out if everything else cell.left_out[:2]
        for one in shown:
            yield f"{name}: not used: {one}"
        if len(cell.left_out) > len(shown):
            yield f"{name}: and {len(cell.left_out) - len(shown)} more trials that are not used: --all"
    for remark in document.remarks:
        yield f"not whole: {remark}"
