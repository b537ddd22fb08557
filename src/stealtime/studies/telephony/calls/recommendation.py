"""Which mode and interval a run speaks for, at a load of calls; by the rule of ``recommendation.toml``.

Patnaik et al. (2011) conclude: signalling in net mode, media in no-net, so two machines. Whether one machine in the
mode net+bypass gives both is judged here: its voice against that of no-net, its signalling against nothing lost. Pure.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stealtime.report import notation
from stealtime.report.interval import REPETITIONS_MIN, ratio_of_repetitions
from stealtime.studies.telephony.calls.figures import CallFigures

Verdict = Literal["yes", "no", "not judged"]


class Rule(BaseModel):
    """The bars."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    voice_lost_share_max: float
    voice_ratio_max: float
    signalling_lost_max: int
    retransmissions_max: int
    packets_min: int
    failovers_min: int

    def is_borne(self, lost: int, sent: int) -> bool:
        """Tell whether a server bears calls of whose packets of voice so many were lost while nothing died."""
        return lost <= self.voice_lost_share_max * sent


@dataclass(frozen=True)
class Judgement:
    """One bar, and how it came out."""

    verdict: Verdict
    text: str
    """With the values and the bar, or why it is not judged."""


@dataclass(frozen=True)
class Recommendation:
    """For one number of streams on one platform."""

    title: str
    text: str
    judgements: list[Judgement]


@dataclass(frozen=True)
class JudgedCalls:
    """A cell, where it was measured."""

    platform: str
    figures: CallFigures


@cache
def rule() -> Rule:
    text = (resources.files("stealtime.studies.telephony.calls") / "recommendation.toml").read_text("utf-8")
    return Rule.model_validate(tomllib.loads(text))


def recommend(cells: Sequence[JudgedCalls]) -> list[Recommendation]:
    """Judge every load for which net+bypass or net was measured, over UDP and of voice that is passed on: the mode is
    the question."""
    cells = [cell for cell in cells if (cell.figures.transport, cell.figures.media) == ("udp", "relay")]
    loads = sorted(
        {(cell.platform, cell.figures.streams) for cell in cells if cell.figures.mode in ("net", "net+bypass")}
    )
    return [_of_load(platform, streams, cells) for platform, streams in loads]


def _of_load(platform: str, streams: int, cells: Sequence[JudgedCalls]) -> Recommendation:
    own = [cell.figures for cell in cells if cell.platform == platform and cell.figures.streams == streams]
    quiet = [one for one in own if one.failover is None and one.roles == "together"]
    apart = [one for one in own if one.failover is None and one.roles == "apart"]
    # A failover is not about the number of calls: all of this platform are evidence.
    failovers = [
        cell.figures
        for cell in cells
        if cell.platform == platform and cell.figures.failover is not None and cell.figures.roles == "together"
    ]
    interval_ns, on_interval = _interval([one for one in quiet if one.mode == "net+bypass"])
    both = next((one for one in quiet if (one.mode, one.interval_ns) == ("net+bypass", interval_ns)), None)
    free = next((one for one in quiet if (one.mode, one.interval_ns) == ("no-net", interval_ns)), None)
    judgements = [_delay(both, free), _loss(both, free), _signalling(failovers)]
    verdicts = {one.verdict for one in judgements}
    every = f"a checkpoint every {notation.trimmed_duration(interval_ns)}" if interval_ns is not None else "no interval"
    if free is not None and not rule().is_borne(free.lost, free.sent):
        text = (
            f"No mode is recommended: the server does not bear this load. Of {free.sent:,} packets of voice "
            f"{free.lost:,} were lost in no-net, {notation.percent(rule().voice_lost_share_max)} are the most."
        )
    elif verdicts == {"yes"}:
        text = f"One machine in the mode net+bypass, {every}: it gives both what net and what no-net give."
    elif "no" in verdicts:
        text = (
            f"Signalling in the mode net and media in no-net, in two machines, {every}: net+bypass does not give both."
        )
    else:
        text = "No mode is recommended: whether net+bypass gives both is not judged."
    cost = " ".join(filter(None, (_cost(both, quiet), _cost_of_two(both, apart))))
    title = f"{streams} streams, {platform}"
    return Recommendation(title, " ".join(filter(None, (text, on_interval, cost))), judgements)


def _interval(cells: Sequence[CallFigures]) -> tuple[int | None, str]:
    """Choose the longest interval at which clients repeat no request: it costs least."""
    known = sorted((one.interval_ns, one.retransmissions) for one in cells if one.interval_ns is not None)
    calm = [interval_ns for interval_ns, again in known if again <= rule().retransmissions_max]
    if not known:
        return None, ""
    if len(known) == 1:
        return known[0][0], "No other interval was measured."
    chosen = calm[-1] if calm else known[0][0]
    return chosen, (
        f"Of {len(known)} intervals {notation.trimmed_duration(chosen)} is the longest with at most "
        f"{rule().retransmissions_max} retransmissions."
        if calm
        else f"At each of {len(known)} intervals requests were sent anew; "
        f"{notation.trimmed_duration(chosen)} is the shortest."
    )


def _delay(both: CallFigures | None, free: CallFigures | None) -> Judgement:
    bar = rule().voice_ratio_max
    if both is None or free is None:
        return _unjudged("delay of the voice", "net+bypass and no-net were not both measured at one interval")
    repetitions = min(len(both.delay_of_repetitions_ns), len(free.delay_of_repetitions_ns))
    if repetitions < REPETITIONS_MIN:
        return _unjudged("delay of the voice", f"there are fewer than {REPETITIONS_MIN} repetitions ({repetitions})")
    ratio = ratio_of_repetitions(free.delay_of_repetitions_ns, both.delay_of_repetitions_ns, same_session=True)
    words = (
        f"its median in net+bypass is {notation.ratio(ratio.value)} that in no-net "
        f"({notation.ratio(ratio.low)} to {notation.ratio(ratio.high)}), the bar is {notation.ratio(bar)}"
    )
    if ratio.high <= bar:
        return Judgement("yes", f"delay of the voice: {words}")
    if ratio.low > bar:
        return Judgement("no", f"delay of the voice: {words}")
    return _unjudged("delay of the voice", f"the bar lies in the interval: {words}")


def _loss(both: CallFigures | None, free: CallFigures | None) -> Judgement:
    bar, least = rule().voice_ratio_max, rule().packets_min
    if both is None or free is None:
        return _unjudged("loss of voice", "net+bypass and no-net were not both measured at one interval")
    if min(both.sent, free.sent) < least:
        return _unjudged(
            "loss of voice", f"there are fewer than {least:,} packets in a mode ({min(both.sent, free.sent):,})"
        )
    words = (
        f"loss of voice: {both.lost} of {both.sent:,} packets in net+bypass, {free.lost} of {free.sent:,} in no-net; "
        f"the bar is {notation.ratio(bar)} its share"
    )
    return Judgement("yes" if both.lost * free.sent <= bar * free.lost * both.sent else "no", words)


def _signalling(cells: Sequence[CallFigures]) -> Judgement:
    own = [one for one in cells if one.mode == "net+bypass"]
    failovers = sum(one.repetitions for one in own)
    lost = sum(one.failover.registrations.lost + one.cut for one in own if one.failover is not None)
    bar = rule().signalling_lost_max
    times = f"{failovers} failover{'s' * (failovers != 1)}"
    words = f"{lost} lost in {times} in net+bypass, registrations and calls; the bar is {bar}"
    # What is lost once is lost, however few failovers there were.
    if lost > bar:
        return Judgement("no", f"signalling: {words}")
    if failovers < rule().failovers_min:
        return _unjudged("signalling", f"there are fewer than {rule().failovers_min} failovers; {words}")
    return Judgement("yes", f"signalling: {words}")


def _cost(both: CallFigures | None, cells: Sequence[CallFigures]) -> str:
    off = next((one for one in cells if one.mode == "off"), None)
    if both is None or both.host_cpu_share is None:
        return ""
    against = (
        f", unprotected {notation.percent(off.host_cpu_share)}"
        if off is not None and off.host_cpu_share is not None
        else ""
    )
    return f"net+bypass costs {notation.percent(both.host_cpu_share)} of a CPU of the host side{against}."


def _cost_of_two(both: CallFigures | None, apart: Sequence[CallFigures]) -> str:
    """Hold one guest against the two that the source recommends, where they were measured."""
    two = next((one for one in apart if both and (one.mode, one.interval_ns) == ("net+no-net", both.interval_ns)), None)
    if both is None or two is None:
        return ""
    pairs: tuple[tuple[str, float | None, float | None, Callable[[float], str]], ...] = (
        ("INVITE to 200", both.answer_ns, two.answer_ns, lambda value: notation.duration(value, 3)),
        ("host side", both.host_cpu_share, two.host_cpu_share, notation.percent),
        ("server", both.server_cpu_share, two.server_cpu_share, notation.percent),
    )
    told = [
        f"{what} {words(of_two)} instead of {words(of_one)}"
        for what, of_one, of_two, words in pairs
        if of_one is not None and of_two is not None
    ]
    return f"Signalling in net and media in no-net, in two guests: {', '.join(told)}." if told else ""


def _unjudged(what: str, because: str) -> Judgement:
    return Judgement("not judged", f"{what}: not judged, because {because}")
