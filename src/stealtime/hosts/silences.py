"""What a client tells of its silences: over what nobody answered any more, and when it was answered again. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from stealtime.hosts.counting import PROTOCOLS
from stealtime.hosts.guest import Fault


def silences_of(seen: Mapping[str, Any], fault: Fault, open_after_s: float) -> dict[str, Any]:
    """Tell what a client saw of a fault over each protocol.

    Args:
        seen: By it, as ``stealtime-agent count --json`` prints it.
        fault: Of the host of its guest.
        open_after_s: See :func:`unanswered_protocols`.

    Returns:
        ``silence_tcp_ns`` and ``silence_udp_ns``, the longest times between two answers; what :func:`answered_again`
        gives; ``unanswered_protocols``.
    """
    return {
        **{f"silence_{name}_ns": seen["longest_outage_ns"][name] for name in PROTOCOLS},
        **answered_again(seen["flows"], fault.struck_ns),
        "unanswered_protocols": unanswered_protocols(seen["flows"], open_after_s),
    }


def unanswered_protocols(flows: Sequence[Mapping[str, Any]], open_after_s: float) -> tuple[str, ...]:
    """Name the protocols of which a flow was never answered, or not any more when the client ended.

    Args:
        flows: As ``stealtime-agent count --json`` tells them, with their longer silences.
        open_after_s: A silence that lasted longer than that at the end is one: the last answer may be on its way.
    """

    def is_open(silence: Mapping[str, Any]) -> bool:
        return not silence["ended"] and silence["length_ns"] / 1e9 > open_after_s

    silent = [flow["protocol"] for flow in flows if not flow["acknowledged"] or any(map(is_open, flow["silences"]))]
    return tuple(sorted(set(silent)))


def answered_again(flows: Sequence[Mapping[str, Any]], struck_ns: int) -> dict[str, int]:
    """Tell how long after a fault the longest silence of each protocol was ended by an answer.

    Args:
        flows: As ``stealtime-agent count --json`` tells them, with their longer silences.
        struck_ns: When the fault was, by the client's monotonic clock.

    Returns:
        ``fault_to_answer_tcp_ns``, ``fault_to_answer_udp_ns``; none of a protocol whose silences were all short, or
        whose longest one no answer ended.
    """
    longest: dict[str, Mapping[str, Any]] = {}
    for flow in flows:
        for silence in flow["silences"]:
            known = longest.get(flow["protocol"])
            if known is None or known["length_ns"] < silence["length_ns"]:
                longest[flow["protocol"]] = silence
    return {
        f"fault_to_answer_{protocol}_ns": one["start_monotonic_ns"] + one["length_ns"] - struck_ns
        for protocol, one in longest.items()
        if one["ended"]
    }
