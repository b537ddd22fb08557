"""Which figures ``disk`` has, how they follow from a trial's requests, what they are called, where they stand."""

from typing import Any

from stealtime._core import REQUEST_PARTS
from stealtime.report.catalogue.model import Catalogue, Figure, FigureTable, ProbeFigures
from stealtime.studies.devices.results import DeviceRequests
from stealtime.studies.devices.wording import PART_WORDS

DURATIONS = {
    "p50_ns": Figure("median", lambda one: one.percentile(50)),
    "p99_ns": Figure("99 %", lambda one: one.percentile(99)),
    "p999_ns": Figure("99.9 %", lambda one: one.percentile(99.9)),
    "max_ns": Figure("longest", lambda one: one.percentile(100)),
    "requests_per_s": Figure("requests", lambda one: one.requests_per_s),
}


def _part(name: str) -> Figure:
    return Figure(PART_WORDS[name], lambda one: one.part(name))


def part_figure(part: str) -> str:
    """Give the name of the figure of a part."""
    return f"{part}_ns"


PARTS = {part_figure(part): _part(part) for part in REQUEST_PARTS}
_TRUST = {
    "clock_error_ns": Figure("clocks may be off", lambda one: one.clock_error_ns),
    "whole_percent": Figure("seen whole", lambda one: one.whole_percent),
}
_BELIEVED = {
    "believed_ns": Figure("guest's own statistics", lambda one: one.believed_ns),
    "on_host_ns": Figure("true, on the host", lambda one: one.on_host_ns),
    "believed_too_long_ns": Figure("believed too long", lambda one: one.believed_too_long_ns),
    "not_running_ns": Figure("stolen: virtual CPU off", lambda one: one.parts(("pending", "preempted"))),
}


def _limits(results: Any) -> list[str]:
    reasons = [one.ways for one in results if isinstance(one.ways, str)]
    steps = [step for one in results if not isinstance(one.ways, str) for step in one.ways.steps]
    told = [f"the way of its requests is not split: {reason}" for reason in dict.fromkeys(reasons)]
    return [*told, *dict.fromkeys(steps)]


CATALOGUE = Catalogue(
    title="Devices",
    question="What does a request to a device cost, and where on its way?",
    probes={
        "disk": ProbeFigures(
            DeviceRequests,
            {
                **DURATIONS,
                **PARTS,
                **_TRUST,
                **_BELIEVED,
                "requests": Figure("requests", lambda one: len(one.times.ended), "sum"),
                "failed": Figure("failed", lambda one: one.failed, "sum"),
            },
        )
    },
    tables=(
        FigureTable(
            "How long transfers take", (*DURATIONS, "failed"), short=("p50_ns", "p99_ns", "max_ns", "requests_per_s")
        ),
        FigureTable(
            "Where the time goes, means of all transfers",
            (*PARTS, *_TRUST),
            short=("host_io_ns", "pending_ns", "preempted_ns", "unexplained_ns"),
            only_measured=True,
        ),
        FigureTable(
            "What the guest believes of its disk, and what is true",
            tuple(_BELIEVED),
            short=("believed_ns", "on_host_ns", "not_running_ns"),
            only_measured=True,
        ),
    ),
    limits=_limits,
)
