"""How the trials of each probe are carried out with a server that answers; called by :mod:`.driver`."""

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from stealtime.campaigns.driven_result import DrivenResult
from stealtime.campaigns.planned import PlannedCell
from stealtime.hosts.checkpoints import checkpoints_of, within
from stealtime.store.model import Cell
from stealtime.studies.telephony.calls.fronted import stage_plan
from stealtime.studies.telephony.calls.plan import CallPlan
from stealtime.studies.telephony.calls.session_failover import session_failover
from stealtime.studies.telephony.calls.sessions import attempt_sessions
from stealtime.studies.telephony.calls.stage_results import TwoStageCallFailover
from stealtime.studies.telephony.calls.stage_trials import fail_over_stage_calls
from stealtime.studies.telephony.calls.trials import call, call_failover
from stealtime.studies.telephony.generators.work import StandbyUse
from stealtime.studies.telephony.loads import (
    CallFailoverParameters,
    CallParameters,
    RateOrShareParameters,
    RegisterFailoverParameters,
    RegisterParameters,
    RegistrationRateParameters,
    SessionFailoverParameters,
    SessionRateParameters,
    TwoStageCallFailoverParameters,
    TwoStageFailoverParameters,
)
from stealtime.studies.telephony.parameters import ServerParameters, Transport
from stealtime.studies.telephony.place.model import Place, unprotected
from stealtime.studies.telephony.place.steady import steady
from stealtime.studies.telephony.place.two_stage import TwoStagePlace
from stealtime.studies.telephony.registrations.failover import fail_over
from stealtime.studies.telephony.registrations.load import Load, attempt_rate, run_load
from stealtime.studies.telephony.registrations.saturation import Attempt, Saturation, search
from stealtime.studies.telephony.registrations.standby import lose_standby
from stealtime.studies.telephony.registrations.two_stages import fail_over_of_several
from stealtime.studies.telephony.results import (
    RateAttempt,
    RegistrationFailover,
    RegistrationRate,
    Registrations,
    ResponseTimes,
    SessionFailover,
    SessionRate,
    TwoStageFailover,
)
from stealtime.vocabulary.errors import StealtimeError

_RESOLUTION = 1.15
_TRY_S = 1.0
"""Of a search that a load makes for itself; the probe ``registration-rate`` tries each rate for its duration."""
_FIRST_REGISTRATIONS_PER_S = 400.0
_FIRST_SESSIONS_PER_S = 50.0
_MOST_PER_S = 20_000.0


_What = Literal["registrations", "authenticated registrations", "sessions"]
Saturated = tuple[_What, Transport]
"""Of what a server bears so many a second, and over which transport."""
_LOADS: Mapping[str, tuple[_What, type[RateOrShareParameters]]] = {
    "register": ("registrations", RegisterParameters),
    "register-failover": ("registrations", RegisterFailoverParameters),
    "session-failover": ("sessions", SessionFailoverParameters),
}
"""By probe: what its load may be a share of, and its parameters."""


@dataclass(frozen=True)
class Borne:
    """What a server was found to bear."""

    rate_per_s: float
    unbounded_because: str | None
    """Why it may bear more; None: it does not."""


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        place: Where it runs.
        saturation: What the usual unprotected server of this boot was found to bear; filled as it is found, and before
            a load that is a share of it.
    """

    place: Place
    saturation: dict[Saturated, Borne]

    @property
    def is_unprotected(self) -> bool:
        """Whether it is the one that shares of saturation refer to."""
        return self.place.mode == "off"


def find_registration_rate(server: Server, cell: PlannedCell, folder: Path) -> RegistrationRate:
    """Search the highest rate of registrations."""
    wanted = RegistrationRateParameters.of(cell.cell)
    saturated = _registrations(wanted.auth), wanted.transport
    found = _searched(server, saturated, wanted.generators, cell.duration_ns / 1e9, folder)
    _keep(server, wanted, saturated, found)
    return RegistrationRate(**_found(found))


def unknown_saturation(cell: Cell, known: Collection[Saturated]) -> Saturated | None:
    """Give what the rate of a load is a share of, if nobody has found that yet."""
    if cell.probe not in _LOADS:
        return None
    wanted, saturated = _load(cell)
    return None if wanted.share is None or saturated in known else saturated


def find_saturation(server: Server, saturated: Saturated, cell: Cell, folder: Path) -> None:
    """Find what an unprotected server bears, with as many generators as a cell wants.

    Raises:
        StealtimeError: It bears nothing.
    """
    what, transport = saturated
    wanted, _ = _load(cell)
    generators = wanted.generators if isinstance(wanted, RegisterParameters) else 1
    found = _searched(server, saturated, generators, _TRY_S, folder)
    _keep(server, ServerParameters(mode="off"), saturated, found)
    if not found.rate_per_s:
        why = found.unbounded_because or found.attempts[-1].failure
        raise StealtimeError(f"the server bears no rate of {what} over {transport}: {why}")


def find_session_rate(server: Server, cell: PlannedCell, folder: Path) -> SessionRate:
    wanted = SessionRateParameters.of(cell.cell)
    saturated: Saturated = "sessions", wanted.transport
    found = _searched(server, saturated, wanted.generators, cell.duration_ns / 1e9, folder)
    _keep(server, wanted, saturated, found)
    return SessionRate(**_found(found))


def register(server: Server, cell: PlannedCell, folder: Path) -> Registrations:
    """Have phones register at a rate."""
    wanted = RegisterParameters.of(cell.cell)
    rate, saturation = _rate(server, cell.cell)
    duration_s, appliances = cell.duration_ns / 1e9, wanted.appliances
    load = Load(
        transport=wanted.transport,
        rate_per_s=appliances * rate,
        count=appliances * max(10, round(rate * duration_s)),
        auth=wanted.auth,
        generators=wanted.generators,
    )
    with steady(server.place) as members:
        registered, used, elapsed_ns = run_load(server.place, load, folder / "load")
        epochs = [within(rows, elapsed_ns) for rows in server.place.epochs_since(members, registered.begun_ns)]
        memory = server.place.standby_memory()
    times = registered.response_ns
    return Registrations(
        rate_per_s=rate,
        offered_per_s=registered.offered_per_s,
        saturation_per_s=saturation.rate_per_s if saturation else None,
        saturation_unbounded_because=saturation.unbounded_because if saturation else None,
        limit=registered.limit,
        elapsed_ns=elapsed_ns,
        sent=len(registered.sent_ns),
        acknowledged=len(times),
        unanswered=registered.unanswered,
        refused=registered.finished.counts.unexpected,
        retransmissions=registered.finished.counts.retransmissions,
        connections_failed=registered.finished.counts.reconnects,
        response=response_times(times) if times else None,
        server_cpu_ns=used.server_ns,
        host_cpu_ns=used.host_ns,
        checkpoints=checkpoints_of(epochs, elapsed_ns),
        work=registered.work,
        standby=StandbyUse.of(used.standby_ns, memory),
    )


def register_failover(server: Server, cell: PlannedCell, folder: Path) -> RegistrationFailover:
    """Have the server's host, or the one that backs it, be lost while phones register."""
    wanted, place = RegisterFailoverParameters.of(cell.cell), _that_fails_over(server)
    rate, _ = _rate(server, cell.cell)
    trial = fail_over if wanted.victim == "primary" else lose_standby
    return trial(place, wanted, rate, cell.duration_ns / 1e9, folder)


def fail_over_sessions(server: Server, cell: PlannedCell, folder: Path) -> SessionFailover:
    """Have the server's host die while sessions are established and ended."""
    wanted, (rate, saturation) = SessionFailoverParameters.of(cell.cell), _rate(server, cell.cell)
    borne_per_s = saturation.rate_per_s if saturation else None
    seen = session_failover(_that_fails_over(server), wanted, rate, borne_per_s, cell.duration_ns / 1e9, folder)
    why = saturation.unbounded_because if saturation else None
    return seen.model_copy(update={"saturation_unbounded_because": why})


def two_stage_failover(server: Server, cell: PlannedCell, folder: Path) -> TwoStageFailover:
    """Add a primary, then have hosts of primaries or a front be lost, each while phones register."""
    wanted, place = TwoStageFailoverParameters.of(cell.cell), server.place
    if not isinstance(place, TwoStagePlace):
        raise TypeError(f"{place!r} has no fronts")
    place.begin_again()
    return fail_over_of_several(place, wanted, cell.duration_ns / 1e9, folder)


def two_stage_call_failover(server: Server, cell: PlannedCell, folder: Path) -> TwoStageCallFailover:
    """Have hosts of primaries be lost while calls are up through both stages."""
    wanted, place = TwoStageCallFailoverParameters.of(cell.cell), server.place
    if not isinstance(place, TwoStagePlace):
        raise TypeError(f"{place!r} has no fronts")
    plan = stage_plan(wanted.streams)
    return fail_over_stage_calls(place, wanted, plan, cell.duration_ns / 1e9, folder)


def response_times(sorted_ns: list[int]) -> ResponseTimes:
    """Give the quartiles of times, which are measured values themselves."""
    at = np.quantile(np.array(sorted_ns, dtype=np.int64), [0, 0.25, 0.5, 0.75, 0.99, 1], method="inverted_cdf")
    names = ("min_ns", "q1_ns", "median_ns", "q3_ns", "p99_ns", "max_ns")
    return ResponseTimes.model_validate(dict(zip(names, (int(value) for value in at), strict=True)))


TRIALS: Mapping[str, Callable[[Server, PlannedCell, Path], DrivenResult]] = {
    "registration-rate": find_registration_rate,
    "session-rate": find_session_rate,
    "register": register,
    "register-failover": register_failover,
    "session-failover": fail_over_sessions,
    "two-stage-failover": two_stage_failover,
    "two-stage-call-failover": two_stage_call_failover,
    "call": lambda server, cell, folder: call(server.place, *_calls(cell), folder),
    "call-failover": lambda server, cell, folder: call_failover(
        _that_fails_over(server), CallFailoverParameters.of(cell.cell), *_calls(cell), folder
    ),
}
"""By the name of the probe."""


def _that_fails_over(server: Server) -> Place:
    if server.is_unprotected:
        raise unprotected()
    return server.place


def _calls(cell: PlannedCell) -> tuple[CallPlan, float]:
    """Give the calls of a trial, and its duration in seconds."""
    wanted = CallParameters.of(cell.cell)
    return CallPlan.of_streams(wanted.streams, wanted.transport, wanted.media), cell.duration_ns / 1e9


def _registrations(auth: bool) -> _What:
    return "authenticated registrations" if auth else "registrations"


def _load(cell: Cell) -> tuple[RateOrShareParameters, Saturated]:
    """Give the load of a cell, and what it is a share of, if it is one."""
    what, parameters = _LOADS[cell.probe]
    wanted = parameters.of(cell)
    if isinstance(wanted, RegisterParameters):
        what = _registrations(wanted.auth)
    return wanted, (what, wanted.transport)


def _rate(server: Server, cell: Cell) -> tuple[float, Borne | None]:
    """Give the rate of a load, and the saturation that it is a share of."""
    wanted, saturated = _load(cell)
    if wanted.share is None:
        return wanted.rate_per_s, None
    saturation = server.saturation[saturated]
    return max(1.0, saturation.rate_per_s * wanted.share), saturation


def _searched(server: Server, saturated: Saturated, generators: int, try_s: float, folder: Path) -> Saturation:
    """Search the highest rate, each try with a folder of its own."""
    what, transport = saturated
    tries = itertools.count()

    def attempt(rate_per_s: float, duration_s: float) -> Attempt:
        own = folder / f"try-{next(tries)}"
        if what == "sessions":
            return attempt_sessions(server.place, transport, rate_per_s, duration_s, own, generators)
        load = Load(
            transport=transport,
            rate_per_s=rate_per_s,
            count=max(10, round(rate_per_s * duration_s)),
            auth=what == "authenticated registrations",
            generators=generators,
        )
        return attempt_rate(server.place, load, duration_s, own)

    return search(
        attempt,
        try_s=try_s,
        first_per_s=_FIRST_SESSIONS_PER_S if what == "sessions" else _FIRST_REGISTRATIONS_PER_S,
        most_per_s=_MOST_PER_S,
        resolution=_RESOLUTION,
    )


def _keep(server: Server, wanted: ServerParameters, saturated: Saturated, found: Saturation) -> None:
    """Keep what loads may be shares of, if it was found of that server: those of every size have the same loads."""
    if server.is_unprotected and wanted.is_usual and found.rate_per_s:
        why = None if found.is_bounded else found.unbounded_because or "no rate was seen to fail"
        server.saturation[saturated] = Borne(found.rate_per_s, why)


def _found(found: Saturation) -> dict[str, Any]:
    return {
        "rate_per_s": found.rate_per_s,
        "is_bounded": found.is_bounded,
        "unbounded_because": found.unbounded_because,
        "attempts": [RateAttempt(**asdict(one), failure=one.failure) for one in found.attempts],
    }
