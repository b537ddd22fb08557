"""Which figures each probe of this study has, how they follow from a result, what they are called, where they stand."""

from collections.abc import Callable

from stealtime.hosts.checkpoints import Checkpoints
from stealtime.report.catalogue.model import Catalogue, Figure, FigureTable, ProbeFigures, counts, plain
from stealtime.studies.protection.probes import ProtectedParameters
from stealtime.studies.protection.results import Failover, RoundTrips


def _epochs(label: str, take: Callable[[Checkpoints], float]) -> Figure:
    return Figure(label, lambda one: None if one.checkpoints is None else take(one.checkpoints))


_OF_BOTH = {
    "pause_p50_ns": _epochs("pause, median", lambda one: one.pause_p50_ns),
    "pause_max_ns": _epochs("pause, longest", lambda one: one.pause_max_ns),
    "hold_p50_ns": _epochs("output held", lambda one: one.hold_p50_ns),
    "guest_time_lost_ppm": _epochs("guest time lost", lambda one: 1e6 * one.pause_total_ns / one.elapsed_ns),
    "epochs_per_s": _epochs("checkpoints", lambda one: one.epochs_per_s),
    "shipped_bytes_per_s": _epochs("shipped", lambda one: 1e9 * one.shipped_bytes / one.elapsed_ns),
    "acknowledged": Figure("acknowledged", combine="sum"),
    "unanswered": Figure("unanswered", lambda one: one.requests - one.acknowledged, "sum"),
    "wrong": Figure("wrong", lambda one: sum(one.violations.values()), "sum"),
    "connections_lost": Figure("TCP lost", lambda one: isinstance(one, Failover) and not one.tcp_lived, "sum"),
}
_FAILOVER = plain(
    silence_tcp_ns="silence, TCP",
    silence_udp_ns="silence, UDP",
    fault_to_running_ns="fault to running",
    decision_to_running_ns="decision to running",
)
_ANSWERED = plain(fault_to_answer_tcp_ns="fault to answer, TCP", fault_to_answer_udp_ns="fault to answer, UDP")
_TRIPS = plain(tcp_p50_ns="TCP, median", tcp_p99_ns="TCP, 99 %", udp_p50_ns="UDP, median", udp_p99_ns="UDP, 99 %")
_LOST = ("wrong", "connections_lost")

CATALOGUE = Catalogue(
    title="Protection",
    question="Can the workload survive its host, and what does that cost?",
    probes={
        "failover": ProbeFigures(Failover, {**_FAILOVER, **_ANSWERED, **_OF_BOTH, **counts("pages_wrong")}),
        "roundtrip": ProbeFigures(RoundTrips, {**_TRIPS, **_OF_BOTH}),
    },
    tables=(
        FigureTable("When its host dies", (*_FAILOVER, "acknowledged", *_LOST), short=(*tuple(_FAILOVER)[:3], *_LOST)),
        FigureTable("Round trips of the client", tuple(_TRIPS), short=tuple(_TRIPS)),
        FigureTable(
            "What checkpoints take",
            ("pause_p50_ns", "pause_max_ns", "hold_p50_ns", "guest_time_lost_ppm", "shipped_bytes_per_s"),
            short=("pause_p50_ns", "pause_max_ns", "guest_time_lost_ppm"),
            only_measured=True,
        ),
        FigureTable(
            "How many times as long as unprotected",
            tuple(_TRIPS),
            is_base=lambda cell: ProtectedParameters.of(cell).mode == "off",
        ),
    ),
)
