"""From recorded trials to how often each kind is called limited or not alone. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stealtime.campaigns.strangers import shares_of
from stealtime.store.strangers import StrangersRecord

Line = Mapping[str, Any]
_DISTURBED_FROM = 0.1
"""Of a CPU: what processes that nobody started for the trial may have used, on any CPU, by their own accounts. More is
no trial of its kind: neither was the host quiet, nor was the stranger on purpose the only one."""
_USED_FROM = (0.0, 0.05, 0.12, 0.25)
_CANDIDATES = (0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3)


def taken(line: Line) -> float:
    """Give the share that the trial did not have: the largest of those that were seen."""
    return max(_shares(line).values(), default=0.0)


def _shares(line: Line) -> dict[str, float]:
    return shares_of(StrangersRecord.model_validate(line["strangers"]))


def rate(lines: Sequence[Line], threshold: float) -> float:
    """Give how many of the trials reach a threshold."""
    return sum(taken(line) >= threshold for line in lines) / len(lines)


def tables(lines: Sequence[Line], limits_from: float, not_alone_from: float) -> tuple[dict[str, Any], str]:
    """Give the rates of each kind of trial, as a document and as text."""
    disturbed = [line for line in lines if line["condition"] != "compile" and line["others_share"] >= _DISTURBED_FROM]
    lines = [line for line in lines if line not in disturbed]
    quiet = [line for line in lines if line["condition"] == "quiet"]
    rows = {
        f"{kind}, {platform}": own
        for kind in dict.fromkeys(_kind_of(line) for line in sorted(lines, key=_order))
        for platform in dict.fromkeys(line["platform"] for line in lines)
        if (own := [one for one in lines if (_kind_of(one), one["platform"]) == (kind, platform)])
    }
    kinds = {name: _kind(own, limits_from, not_alone_from) for name, own in rows.items()}
    document = {
        "limits_from": limits_from,
        "not_alone_from": not_alone_from,
        "kinds": kinds,
        "left_out": len(disturbed),
        "quiet_by_threshold": {str(one): rate(quiet, one) for one in _CANDIDATES} if quiet else {},
    }
    text = [f"{'':42} {'n':>4} {'share: median':>14} {'least':>7} {'most':>7} {'limited':>8} {'not alone':>10}"]
    text += [
        f"{name:42} {one['n']:>4} {one['median']:>14.1%} {one['least']:>7.1%} {one['most']:>7.1%} "
        f"{one['limited']:>8.0%} {one['not_alone']:>10.0%}"
        for name, one in kinds.items()
    ]
    text.append(f"\nleft out, since others used {_DISTURBED_FROM:.0%} of a CPU or more: {len(disturbed)} trials")
    text.append("quiet trials at or over a threshold (false alarms):")
    text += [f"  {threshold:>6.1%}  {rate(quiet, threshold):.1%}" for threshold in _CANDIDATES if quiet]
    return document, "\n".join(text)


def _kind(lines: Sequence[Line], limits_from: float, not_alone_from: float) -> dict[str, Any]:
    shares = sorted(taken(line) for line in lines)
    by: Callable[[str], float] = lambda name: sorted(_shares(line).get(name, 0.0) for line in lines)[len(lines) // 2]  # noqa: E731
    return {
        "n": len(lines),
        "median": shares[len(shares) // 2],
        "least": shares[0],
        "most": shares[-1],
        "used_median": sorted(line["used_share"] for line in lines)[len(lines) // 2],
        "medians": {name: by(name) for name in ("strangers", "waited", "steal")},
        "limited": rate(lines, limits_from),
        "not_alone": rate(lines, not_alone_from),
    }


def _kind_of(line: Line) -> str:
    """Name a kind of trial: a hog by what it really got, which beside a thread of ``SCHED_FIFO`` is little."""
    if not line["condition"].startswith("hog"):
        return str(line["condition"])
    low = max(one for one in _USED_FROM if line["used_share"] >= one)
    above = [one for one in _USED_FROM if one > low]
    return f"hog had {low:.0%}" + (f" to {above[0]:.0%}" if above else " or more")


def _order(line: Line) -> tuple[int, float]:
    condition = line["condition"]
    return (0, 0.0) if condition == "quiet" else (2, 0.0) if condition == "compile" else (1, line["used_share"])
