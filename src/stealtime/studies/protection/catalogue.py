"""Which figures each probe of this study has, how they follow from a result, what they are called, where they stand."""

from stealtime.hosts.checkpoint_figures import checkpoint_figures
from stealtime.hosts.counting import PROTOCOLS
from stealtime.report.catalogue.declared_pictures import Spread, TimeLine
from stealtime.report.catalogue.model import Catalogue, Figure, FigureTable, ProbeFigures, counts, plain
from stealtime.studies.protection.probes import ProtectedParameters
from stealtime.studies.protection.results import Failover, RoundTrips

_CHECKPOINTS = ("pause_p50_ns", "pause_max_ns", "hold_p50_ns", "guest_time_lost_ppm", "shipped_bytes_per_s")
_SHORT_CHECKPOINTS = ("pause_p50_ns", "pause_max_ns", "guest_time_lost_ppm")
_OF_BOTH = {
    **checkpoint_figures(*_CHECKPOINTS, "epochs_per_s"),
    **counts("acknowledged", "unanswered", "wrong"),
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
_RUNNING = "fault_to_running_ns"
_LOST = ("wrong", "connections_lost")
_DIED = TimeLine(
    title="A failover, from the fault on",
    axis="since the fault",
    caption="The repetition whose TCP silence is the middle one. Bars: a client had no answer. Dashed: the fault.",
    zero="host dies",
    moments={"standby decides": (_RUNNING, "decision_to_running_ns"), "guest runs": (_RUNNING,)},
    lasting={f"{name.upper()} silent": (f"silence_{name}_ns", f"fault_to_answer_{name}_ns") for name in PROTOCOLS},
)
_WAITED = Spread(
    title="Round trips by mode",
    axis="round trip",
    caption="Dot: the median; line: up to the 99th percentile. Off: the same guest unprotected. Logarithmic.",
    line="99 % within",
    groups={name.upper(): (f"{name}_p50_ns", f"{name}_p99_ns") for name in PROTOCOLS},
)

CATALOGUE = Catalogue(
    title="Protection",
    question="Can the workload survive its host, and what does that cost?",
    probes={
        "failover": ProbeFigures(Failover, {**_FAILOVER, **_ANSWERED, **_OF_BOTH, **counts("pages_wrong")}),
        "roundtrip": ProbeFigures(RoundTrips, {**_TRIPS, **_OF_BOTH}),
    },
    pictures=(_DIED, _WAITED),
    tables=(
        FigureTable("When its host dies", (*_FAILOVER, "acknowledged", *_LOST), short=(*tuple(_FAILOVER)[:3], *_LOST)),
        FigureTable("Round trips of the client", tuple(_TRIPS), short=tuple(_TRIPS)),
        FigureTable("What checkpoints take", _CHECKPOINTS, short=_SHORT_CHECKPOINTS, only_measured=True),
        FigureTable(
            "How many times as long as unprotected",
            tuple(_TRIPS),
            is_base=lambda cell: ProtectedParameters.of(cell).mode == "off",
        ),
    ),
)
