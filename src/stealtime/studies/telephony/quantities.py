"""Which figures each probe of this study has, how they follow from a result, and how they are called.

A figure's unit is in its name. A probe of its own kind of result is added here, in ``results`` and in ``trials``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from stealtime.report import notation
from stealtime.store.results import Result
from stealtime.studies.telephony.calls.results import CallFailover, Calls, Direction, Spread, Towards
from stealtime.studies.telephony.results import RegistrationFailover, RegistrationRate, Registrations, SessionRate


@dataclass(frozen=True)
class Quantity:
    """A figure of a result."""

    label: str
    take: Callable[[Any], float | None]
    """None where a result does not have it, as the CPU time of a host side natively."""


@dataclass(frozen=True)
class Kind:
    """What is known of the results of a probe."""

    model: type[Result]
    quantities: Mapping[str, Quantity]
    counts: tuple[str, ...]
    """Whole numbers of the result that are added up over the repetitions."""
    tables: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    """Each with its title, the figures and the counts in it."""


def _share(part: Callable[[Any], float | None], whole: Callable[[Any], float]) -> Callable[[Any], float | None]:
    def take(result: Any) -> float | None:
        value, total = part(result), whole(result)
        return None if value is None or not total else value / total

    return take


def _response(name: str) -> Callable[[Any], float | None]:
    return lambda result: None if result.response is None else float(getattr(result.response, name))


def _delay(name: str) -> Callable[[Any], float | None]:
    def take(result: Any) -> float | None:
        spread: Spread | None = result.voice.delay_ns
        return None if spread is None else float(getattr(spread, name))

    return take


def _towards(who: Towards, take: Callable[[Direction], float | None]) -> Callable[[Any], float | None]:
    """Take a figure of one direction; None of a run from before phones spoke."""

    def taken(result: Any) -> float | None:
        one = next((one for one in result.voice.directions if one.towards == who), None)
        return None if one is None else take(one)

    return taken


def _loss_percent(direction: Direction) -> float | None:
    return 100.0 * direction.lost / direction.sent if direction.sent else None


def _median(direction: Direction) -> float | None:
    return None if direction.delay_ns is None else direction.delay_ns.median


def _setup(result: Any) -> float | None:
    spread: Spread | None = result.dialogues.answer_ns
    return None if spread is None else spread.median


_CPU = {
    "server_cpu_percent": Quantity(
        "server", _share(lambda result: 100.0 * result.server_cpu_ns, lambda result: result.elapsed_ns)
    ),
    "host_cpu_percent": Quantity(
        "host side",
        _share(
            lambda result: None if result.host_cpu_ns is None else 100.0 * result.host_cpu_ns,
            lambda result: result.elapsed_ns,
        ),
    ),
}
"""Of one CPU."""
_LOSS = Quantity("voice lost", lambda result: 100.0 * result.voice.lost_share)
_MOS = Quantity("MOS", lambda result: median(result.voice.mos) if result.voice.mos else None)
_CALLS_KEPT = Quantity("calls kept", _share(lambda result: 100.0 * result.ended, lambda result: result.answered))
_CALL_COUNTS = ("begun", "answered", "ended", "packets", "packets_lost", "packets_late", "packets_reordered")


KINDS: dict[str, Kind] = {
    "registration-rate": Kind(
        RegistrationRate,
        {"rate_per_s": Quantity("registration rate", lambda result: result.rate_per_s)},
        ("lapses",),
        (("The most registrations a second without a failure", ("rate_per_s",), ()),),
    ),
    "session-rate": Kind(
        SessionRate,
        {"sessions_per_s": Quantity("session establishment rate", lambda result: result.rate_per_s)},
        ("lapses",),
        (("The most sessions a second without a failure, each established and ended", ("sessions_per_s",), ()),),
    ),
    "register": Kind(
        Registrations,
        {
            "offered_per_s": Quantity("offered", lambda result: result.offered_per_s),
            "kept_percent": Quantity(
                "acknowledged", _share(lambda result: 100.0 * result.acknowledged, lambda result: result.sent)
            ),
            "median_ns": Quantity("median", _response("median_ns")),
            "p99_ns": Quantity("99 %", _response("p99_ns")),
            **_CPU,
            "server_cpu_each_ns": Quantity(
                "server, each", _share(lambda result: result.server_cpu_ns, lambda result: result.acknowledged)
            ),
            "host_cpu_each_ns": Quantity(
                "host side, each", _share(lambda result: result.host_cpu_ns, lambda result: result.acknowledged)
            ),
        },
        ("sent", "acknowledged", "unanswered", "retransmissions", "connections_failed", "lapses"),
        (
            (
                "Phones that register",
                ("offered_per_s", "median_ns", "p99_ns", "kept_percent"),
                ("sent", "unanswered", "retransmissions"),
            ),
            (
                "What registrations cost",
                ("server_cpu_percent", "host_cpu_percent", "server_cpu_each_ns", "host_cpu_each_ns"),
                (),
            ),
        ),
    ),
    "register-failover": Kind(
        RegistrationFailover,
        {
            "silence_ns": Quantity("silence", lambda result: result.silence_ns),
            "blow_to_detection_ns": Quantity("to detection", lambda result: result.blow_to_detection_ns),
            "blow_to_running_ns": Quantity("to running", lambda result: result.blow_to_running_ns),
            "blow_to_answer_ns": Quantity("to answer", lambda result: result.blow_to_answer_ns),
            "kept_percent": Quantity(
                "registrations kept",
                _share(lambda result: 100.0 * (result.acknowledged - result.lost), lambda result: result.acknowledged),
            ),
        },
        ("sent", "acknowledged", "lost", "unanswered", "retransmissions", "connections_failed", "lapses"),
        (
            (
                "When the server's host dies while phones register",
                ("silence_ns", "blow_to_detection_ns", "blow_to_running_ns", "blow_to_answer_ns"),
                ("acknowledged", "lost", "unanswered", "retransmissions"),
            ),
        ),
    ),
    "call": Kind(
        Calls,
        {
            "delay_min_ns": Quantity("delay, min", _delay("min")),
            "delay_q1_ns": Quantity("q1", _delay("q1")),
            "delay_median_ns": Quantity("delay, median", _delay("median")),
            "delay_q3_ns": Quantity("q3", _delay("q3")),
            "delay_max_ns": Quantity("delay, max", _delay("max")),
            "loss_percent": _LOSS,
            "phones_delay_ns": Quantity("delay to phones", _towards("phones", _median)),
            "callers_delay_ns": Quantity("to callers", _towards("callers", _median)),
            "phones_loss_percent": Quantity("lost to phones", _towards("phones", _loss_percent)),
            "callers_loss_percent": Quantity("lost to callers", _towards("callers", _loss_percent)),
            "jitter_ns": Quantity("jitter", lambda result: result.voice.jitter_ns),
            "voice_silence_ns": Quantity("longest silence", lambda result: result.voice.silence_ns),
            "mos": _MOS,
            "setup_ns": Quantity("INVITE to 200", _setup),
            **_CPU,
        },
        (*_CALL_COUNTS, "retransmissions", "lapses"),
        (
            (
                "Calls: delay of their voice",
                ("delay_min_ns", "delay_q1_ns", "delay_median_ns", "delay_q3_ns", "delay_max_ns", "jitter_ns"),
                (),
            ),
            (
                "Calls: what callers and phones hear",
                ("loss_percent", "mos", "voice_silence_ns"),
                ("packets", "packets_lost", "packets_late", "packets_reordered"),
            ),
            (
                "Calls: each direction of their voice",
                ("phones_delay_ns", "callers_delay_ns", "phones_loss_percent", "callers_loss_percent"),
                (),
            ),
            (
                "Calls: signalling and cost",
                ("setup_ns", "server_cpu_percent", "host_cpu_percent"),
                ("begun", "answered", "ended", "retransmissions"),
            ),
        ),
    ),
    "call-failover": Kind(
        CallFailover,
        {
            "gap_ns": Quantity("no voice", lambda result: result.gap_ns),
            "blow_to_running_ns": Quantity("to running", lambda result: float(result.running_ns - result.blown_ns)),
            "calls_kept_percent": _CALLS_KEPT,
            "loss_percent": _LOSS,
            "mos": _MOS,
        },
        (*_CALL_COUNTS, "retransmissions", "registrations_acknowledged", "registrations_lost", "lapses"),
        (
            (
                "When the server's host dies under calls: the voice",
                ("gap_ns", "blow_to_running_ns", "loss_percent", "mos"),
                ("packets", "packets_lost"),
            ),
            (
                "When the server's host dies under calls: the signalling",
                ("calls_kept_percent",),
                ("answered", "ended", "retransmissions", "registrations_acknowledged", "registrations_lost"),
            ),
        ),
    ),
}
"""By the name of the probe."""


def label_of(name: str) -> str:
    """Give the words of a figure."""
    return next(kind.quantities[name].label for kind in KINDS.values() if name in kind.quantities)


def figure_names() -> list[str]:
    """Give the names of all figures, each once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in kind.quantities))


def count_names() -> list[str]:
    """Give the names of all counts, each once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in kind.counts))


def in_words(name: str, value: float | None) -> str:
    """Write a figure with its unit, which its name tells."""
    if value is None:
        return notation.ABSENT
    if name.endswith("_ns"):
        return notation.duration(value, 3)
    if name == "mos":
        return f"{value:.2f}"
    if name.endswith("_percent"):
        # All of them is another statement than nearly all.
        return f"{value:g} %" if value in (0.0, 100.0) else f"{value:.3g} %" if value < 99 else f"{value:.2f} %"
    return f"{notation.three_digits(value)}/s"
