"""What each way of protecting a guest costs: as a table for people, as a document for programs."""

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from stealtime.hosts.mode_costs import REQUEST_EVERY_NS, Figures, ModeCost
from stealtime.report.notation import ABSENT, duration, percent
from stealtime.vocabulary.quantities import approximate_size

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA_VERSION = 1
_STOPPED_LEAST = 0.9
"""Of the standstill: both are measured once, and pauses are counted over a slightly other time."""
_UNPROTECTED_LEAST = 2
"""Measurements without protection: what differs between them is not the doing of protection."""
_NUMBERS = ("answer", "99 %", "stopped", "slower", "CPU", "standby", "shipped/s")


def costs_table(costs: Sequence[ModeCost]) -> "Table":
    """Lay out one way a row.

    The time to an answer, median and 99 %; the share of the time in which the guest stood still; how much less of its
    work the guest that counts did than unprotected; CPUs that its host and the other one were busy with besides its
    virtual CPUs.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("mode", "checkpoints"):
        table.add_column(heading, no_wrap=True)
    for heading in _NUMBERS:
        table.add_column(heading, justify="right", no_wrap=True)
    for cost in costs:
        table.add_row(cost.way.mode, cost.way.checkpoint_words(), *_cells(cost, costs))
    return table


def costs_remarks(costs: Sequence[ModeCost], cpus: int) -> list[str]:
    """Give in sentences what the table does not say of itself.

    Args:
        costs: Of all ways.
        cpus: That this machine has.
    """
    lines = [
        f"{cost.way.mode}, checkpoints {cost.way.checkpoint_words()}: not measured: {cost.reason}"
        for cost in costs
        if cost.figures is None
    ]
    lines += [
        f"{cost.way.mode}, checkpoints {cost.way.checkpoint_words()}: {figures.unanswered} of {len(figures.trips_ns)} "
        "requests were not answered"
        for cost in costs
        if (figures := cost.figures) is not None and figures.unanswered
    ]
    lines.append(
        f"once each, with an echo request (ICMP) each {duration(REQUEST_EVERY_NS, 3)}; both hosts, the guest and its "
        f"client share the {cpus} CPUs of this machine, and the link between the hosts is within it: hosts of your own "
        "differ"
    )
    if len(speeds := _unprotected_pages_per_s(costs)) == 1:
        lines.append("slower is not judged: the unprotected guest was measured once")
    elif speeds:
        lines.append(
            f"unprotected the guest did its work {percent(_apart_share(costs))} faster one time than the other: slower "
            "is not judged where it is less than that, or less than the guest stood still"
        )
    if any(cost.way.mode == "net+bypass" for cost in costs):
        lines.append("in net+bypass echo requests are held, too: only the flows of its rules leave at once")
    if all(cost.figures is None or cost.figures.pages_per_s is None for cost in costs):
        lines.append(
            "stopped is the least that the guest loses: finding the pages that it writes slows it, too; how much, only "
            "its own work tells"
        )
    return lines


def costs_document(costs: Sequence[ModeCost]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "request_every_ns": REQUEST_EVERY_NS,
        "unprotected_apart_share": _apart_share(costs),
        "ways": [
            {
                "mode": cost.way.mode,
                "interval_ns": cost.way.interval_ns,
                "min_interval_ns": cost.way.min_interval_ns,
                "reason": cost.reason,
                "figures": None if cost.figures is None else _figures(cost, cost.figures, costs),
            }
            for cost in costs
        ],
    }


def _unprotected_pages_per_s(costs: Sequence[ModeCost]) -> list[float]:
    """Give how much of its work the unprotected guest did, each time that it was measured."""
    figures = [cost.figures for cost in costs if cost.way.mode == "off"]
    return [one.pages_per_s for one in figures if one is not None and one.pages_per_s]


def _apart_share(costs: Sequence[ModeCost]) -> float:
    """Give how far these are apart, as a share of their mean: the least difference that says something."""
    speeds = _unprotected_pages_per_s(costs)
    return (max(speeds) - min(speeds)) / fmean(speeds) if speeds else 0.0


def _slower_share(cost: ModeCost, costs: Sequence[ModeCost]) -> float | None:
    """Give how much less of its work a guest did than unprotected; below 0 it did more."""
    unprotected, figures = _unprotected_pages_per_s(costs), cost.figures
    if cost.way.mode == "off" or not unprotected or figures is None or figures.pages_per_s is None:
        return None
    return 1 - figures.pages_per_s / fmean(unprotected)


def _is_told(cost: ModeCost, costs: Sequence[ModeCost]) -> bool:
    """Tell whether how much slower a guest was can be told: by more than the unprotected one differs from itself.

    And by no less than it stood still: then the unprotected guest did its work under other circumstances.
    """
    slower, stopped = _slower_share(cost, costs), cost.figures and cost.figures.stopped_share
    if slower is None or len(_unprotected_pages_per_s(costs)) < _UNPROTECTED_LEAST:
        return False
    return slower > max(_apart_share(costs), _STOPPED_LEAST * (stopped or 0.0))


def _figures(cost: ModeCost, figures: Figures, costs: Sequence[ModeCost]) -> dict[str, Any]:
    return {
        "elapsed_ns": figures.elapsed_ns,
        "requests": len(figures.trips_ns),
        "unanswered": figures.unanswered,
        "round_trip_p50_ns": figures.round_trip_ns(50),
        "round_trip_p99_ns": figures.round_trip_ns(99),
        "stopped_share": figures.stopped_share,
        "slower_share": _slower_share(cost, costs),
        "slower_is_judged": _is_told(cost, costs),
        "guest_cpus": figures.cpu.server_ns / figures.elapsed_ns,
        "primary_cpus": figures.primary_cpus,
        "standby_cpus": figures.standby_cpus,
        "shipped_bytes_per_s": figures.shipped_bytes_per_s,
        "checkpoints_per_s": None if figures.checkpoints is None else figures.checkpoints.epochs_per_s,
    }


def _cells(cost: ModeCost, costs: Sequence[ModeCost]) -> list[str]:
    figures = cost.figures
    if figures is None:
        return ["not measured"]
    slower, shipped = _slower_share(cost, costs), figures.shipped_bytes_per_s
    return [
        duration(figures.round_trip_ns(50), 3),
        duration(figures.round_trip_ns(99), 3),
        ABSENT if figures.stopped_share is None else percent(figures.stopped_share),
        ABSENT if slower is None else percent(slower) if _is_told(cost, costs) else "not judged",
        percent(figures.primary_cpus),
        ABSENT if cost.way.mode == "off" else percent(figures.standby_cpus),
        ABSENT if shipped is None else approximate_size(round(shipped)),
    ]
