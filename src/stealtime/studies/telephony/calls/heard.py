"""From what ``stealtime-agent rtp talk`` tells at both ends of the calls to what was heard of each other. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from stealtime.studies.telephony.calls.results import Direction, Spread, StreamVoice, Towards, Voice
from stealtime.vocabulary.errors import StealtimeError


def voice_of(callers: Mapping[str, Any], phones: Mapping[str, Any]) -> Voice:
    """Put the documents of both ends together.

    Raises:
        StealtimeError: The delays are not those of one way, on one clock.
    """
    # What was sent is for the one that spoke to say: a stream that was never heard is known to nobody else.
    ways: list[tuple[Towards, Mapping[str, Any], Mapping[str, Any]]] = [
        ("phones", callers["spoken"], phones["heard"]),
        ("callers", phones["spoken"], callers["heard"]),
    ]
    totals = [heard["total"] for _, _, heard in ways]
    for total in totals:
        if total["received"] and total["delay_is"] != "one_way":
            raise StealtimeError(f"the delay of the voice is {total['delay_is']}, not that of one way")
    silences = [total["longest_silence"] for total in totals if total["longest_silence"] is not None]
    silence = max(silences, key=lambda one: int(one["length_ns"]), default=None)
    directions = [_direction(towards, spoken, heard["total"]) for towards, spoken, heard in ways]
    late = [spoken["lateness_ns"]["p99"] for _, spoken, _ in ways if spoken["lateness_ns"] is not None]
    return Voice(
        streams=sum(spoken["streams"] for _, spoken, _ in ways),
        heard=sum(total["streams_heard"] for total in totals),
        sent=sum(one.sent for one in directions),
        refused=sum(spoken["refused"] for _, spoken, _ in ways),
        received=sum(one.received for one in directions),
        duplicated=sum(total["duplicated"] for total in totals),
        reordered=sum(total["reordered"] for total in totals),
        late=sum(one.late for one in directions),
        delay_ns=delays_together(totals),
        jitter_ns=max((one.jitter_ns for one in directions if one.jitter_ns is not None), default=None),
        silence_ns=None if silence is None else silence["length_ns"],
        silence_began_ns=None if silence is None else silence["start_monotonic_ns"],
        sender_late_p99_ns=max(late, default=None),
        directions=directions,
        each=[_stream(towards, stream) for towards, _, heard in ways for stream in heard["streams"]],
        invalid=[*callers["reasons"], *phones["reasons"]],
        limits=[*callers["limits"], *phones["limits"]],
    )


def delays_together(totals: Sequence[Mapping[str, Any]]) -> Spread | None:
    """Give the extremes and quartiles of all packets of several receivers, to the 1 % of their buckets."""
    heard = [total for total in totals if total["delay_ns"] is not None]
    if not heard:
        return None
    counts: Counter[int] = Counter()
    for total in heard:
        counts.update({int(most_ns): count for most_ns, count in total["delay_buckets_ns"].items()})
    least, most = min(one["delay_ns"]["min"] for one in heard), max(one["delay_ns"]["max"] for one in heard)
    values = sorted(counts)
    ranks = list(accumulate(counts[value] for value in values))

    def at(of_four: int) -> float:
        value = next(value for value, rank in zip(values, ranks, strict=True) if 4 * rank >= of_four * ranks[-1])
        # The end of a bucket may lie beyond what came.
        return float(min(max(value, least), most))

    return Spread(min=least, q1=at(1), median=at(2), q3=at(3), max=most)


def _direction(towards: Towards, spoken: Mapping[str, Any], total: Mapping[str, Any]) -> Direction:
    silence, jitter = total["longest_silence"], total["jitter_max_ns"]
    return Direction(
        towards=towards,
        sent=spoken["sent"],
        received=total["received"],
        late=total["late"],
        delay_ns=_spread(total["delay_ns"]),
        jitter_ns=None if jitter is None else jitter["max"],
        silence_ns=None if silence is None else silence["length_ns"],
    )


def _stream(towards: Towards, document: Mapping[str, Any]) -> StreamVoice:
    silence = document["longest_silence"]
    return StreamVoice(
        towards=towards,
        call=document["stream"],
        sent=document["sent"],
        received=document["received"],
        late=document["late"],
        reordered=document["reordered"],
        delay_ns=_spread(document["delay_ns"]),
        jitter_ns=None if document["jitter_ns"] is None else document["jitter_ns"]["max"],
        silence_ns=None if silence is None else silence["length_ns"],
        silence_began_ns=None if silence is None else silence["start_monotonic_ns"],
        silence_ended=silence is None or bool(silence["ended"]),
        mos=document["quality"]["mos"],
    )


def _spread(document: Mapping[str, float] | None) -> Spread | None:
    return None if document is None else Spread.model_validate(dict(document))
