"""The first sample over a threshold, as ``run`` prints it: what took its time, in percent, as rtla tells it."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from stealtime.report import notation
from stealtime.report.moment import Moment

_LEAST_PERCENT = 0.1
"""Smaller causes share a line."""


def render_moment(moment: Moment) -> RenderableType:
    """Give some lines: the sample, then a line for each cause."""
    over = f"{notation.duration(moment.threshold_ns, 3)} over the floor"
    head = f"over the threshold: sample {moment.sample} of {moment.trial_id}"
    if moment.at_s is not None:
        head += f", {moment.at_s:.6f} s after its start"
    took = f"  took {notation.duration(moment.duration_ns, 4)}, more than {over}"
    if moment.samples_over > 1:
        took += f"; the first of {moment.samples_over}"
    lines = [Text(head, style="bold"), Text(took)]
    if moment.not_explained is not None:
        lines.append(Text(f"  not explained: {moment.not_explained}", style="yellow"))
        if moment.hint is not None:
            lines.append(Text(f"  hint: {moment.hint}"))
        return Group(*lines)
    told = [share for share in moment.shares if share.percent >= _LEAST_PERCENT]
    small = [share for share in moment.shares if share.percent < _LEAST_PERCENT]
    lines += [_line(share.percent, share.lost_ns, share.cause) for share in told]
    if small:
        percent, lost_ns = sum(share.percent for share in small), sum(share.lost_ns for share in small)
        lines.append(_line(percent, lost_ns, f"{len(small)} smaller causes"))
    lines.append(_line(100.0, moment.excess_ns, "its excess over the floor"))
    return Group(*lines)


def render_moments(moments: Sequence[Moment]) -> RenderableType:
    return Group(*(part for moment in moments for part in (Text(), render_moment(moment))))


def _line(percent: float, lost_ns: float, words: str) -> Text:
    return Text(f"  {percent:5.1f} %  {notation.duration(lost_ns, 3):>10}  {words}")
