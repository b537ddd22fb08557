"""The distributions of a cell's hosts over each other, as SVG without a script."""

from math import ceil, floor, log10

from markupsafe import Markup, escape

from stealtime.report import notation
from stealtime.report.palette import Look, distinct_looks
from stealtime.site.overview import CellCurves, Curve

_WIDTH, _HEIGHT = 760, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 170, 12, 44
DRAWN_MOST = 120
"""Grey lines: more of them are one grey area."""
_LEAST_SHARE = 1e-8


def draw(cell: CellCurves, named: list[str]) -> Markup:
    """Draw the share of samples that last longer, both axes logarithmic: all hosts grey, the named ones in colour."""
    curves = [curve for curve in cell.curves if curve.host in named]
    others = [curve for curve in cell.curves if curve.host not in named][:DRAWN_MOST]
    if len(cell.curves) == 1:
        # It is all hosts together.
        others = []
    every = [cell.pooled, *curves, *others]
    low = floor(log10(max(1.0, min(one.ns[0] for one in every))))
    high = max(ceil(log10(max(one.ns[-1] for one in every) * 1.06)), low + 1)
    least = max(_LEAST_SHARE, min(one.share[-1] for one in every))
    depth = max(1, ceil(-log10(least)))

    def place(ns: float, share: float) -> tuple[float, float]:
        x = _LEFT + (log10(max(ns, 1.0)) - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)
        y = _TOP + -log10(max(share, least)) / depth * (_HEIGHT - _TOP - _BOTTOM)
        return round(x, 1), round(y, 1)

    def path(curve: Curve) -> str:
        points = [place(ns, share) for ns, share in zip(curve.ns, curve.share, strict=True)]
        # A host's last samples lie to the right of its last bin's left edge.
        end = place(curve.ns[-1] * 1.05, curve.share[-1])
        return "M" + "L".join(f"{x},{y}" for x, y in [*points, end])

    parts = [
        f'<svg role="img" viewBox="0 0 {_WIDTH} {_HEIGHT}" aria-label="{escape(_told(cell, named))}">',
        *_axes(low, high, depth),
        *(f'<path class="other" d="{path(curve)}"/>' for curve in others),
        f'<path class="pooled" d="{path(cell.pooled)}"/>',
    ]
    keys: list[tuple[str, str, Look | None]] = [("pooled", "all hosts together", None)]
    for curve, own in zip(curves, distinct_looks(len(curves) + 1)[1:], strict=False):
        parts.append(f'<path class="named" style="--light:{own.light};--dark:{own.dark}" d="{path(curve)}"/>')
        keys.append(("named", curve.host, own))
    if others:
        keys.append(("other", "each other host", None))
    for number, (kind, words, look) in enumerate(keys[:14]):
        y = _TOP + 14 + 20 * number
        style = "" if look is None else f' style="--light:{look.light};--dark:{look.dark}"'
        x = _WIDTH - _RIGHT + 12
        parts.append(f'<path class="{kind} key"{style} d="M{x},{y}h22"/>')
        parts.append(f'<text x="{x + 28}" y="{y + 4}">{escape(words[:18])}</text>')
    return Markup("".join([*parts, "</svg>"]))  # noqa: S704 - words of others are escaped


def _told(cell: CellCurves, named: list[str]) -> str:
    own = [curve.host for curve in cell.curves if curve.host in named]
    rest = f"; drawn apart: {', '.join(own)}" if own else ""
    hosts = notation.number_of(cell.hosts, "host")
    return f"{cell.cell}: share of samples that last longer, of {hosts} and of all together{rest}"


def _axes(low: int, high: int, depth: int) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for power in range(low, high + 1):
        x = _LEFT + (power - low) / (high - low) * (right - _LEFT)
        parts.append(f'<path class="grid" d="M{x:.1f},{_TOP}V{bottom}"/>')
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{notation.trimmed_duration(10**power)}</text>'
        )
    step = max(1, depth // 6)
    for power in range(0, depth + 1, step):
        y = _TOP + power / depth * (bottom - _TOP)
        parts.append(f'<path class="grid" d="M{_LEFT},{y:.1f}H{right}"/>')
        words = "all" if power == 0 else f"1 in {10**power:,}"
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
    parts.append(
        f'<text x="{(_LEFT + right) / 2:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">duration of a sample</text>'
    )
    return parts
