"""The errors of all models, by what they were made on. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

from co_located.judging import COVERAGE, Case, conformal_factor, covered, mape_percent, ratios

MODEL = "shared"
GOAL_PERCENT = 7.8
"""Of CloudFormer, a learned model with 206 inputs, as its authors publish it."""


def document(found: Sequence[Case]) -> dict[str, Any]:
    """Give what ``--json`` prints: the errors on held-out mixes.

    Args:
        found: All guests of all mixes.
    """
    held_out = [one for one in found if one.role == "held-out"]
    models = list(held_out[0].predicted)
    factors = {name: _factors(found, name) for name in models}

    def groups(name_of: Callable[[Case], str]) -> dict[str, Any]:
        names = sorted({name_of(one) for one in held_out})
        return {
            name: _judged([one for one in held_out if name_of(one) == name], MODEL, factors[MODEL]) for name in names
        }

    return {
        "schema_version": 1,
        "mixes_all": len({one.mix for one in found}),
        "mixes": len({one.mix for one in held_out}),
        "guests": len(held_out),
        "spread_percent": 100 * fmean(one.spread for one in held_out),
        "goal_mape_percent": GOAL_PERCENT,
        "goal_covered_percent": 100 * COVERAGE,
        "models": {name: _judged(held_out, name, factors[name]) for name in models},
        "platforms": groups(lambda one: one.pool.platform),
        "pools": groups(lambda one: one.pool.name),
        "kinds": groups(lambda one: one.kind),
        "pieces": groups(lambda one: one.piece),
        "factors": factors[MODEL],
        "cases": [{"mix": one.mix, "piece": one.piece, "measured": one.measured, **one.predicted} for one in held_out],
    }


def _factors(found: Sequence[Case], model: str) -> dict[str, float | None]:
    """Give the factors of a model's intervals, by platform."""
    calibration = [one for one in found if one.role == "calibration"]
    platforms = sorted({one.pool.platform for one in found})
    return {
        name: conformal_factor(ratios([one for one in calibration if one.pool.platform == name], model))
        for name in platforms
    }


def _judged(held_out: Sequence[Case], model: str, factors: Mapping[str, float | None]) -> dict[str, Any]:
    judged = [one for one in held_out if one.predicted[model] is not None]
    inside = [
        covered(ratios([one], model), factor) for one in judged if (factor := factors[one.pool.platform]) is not None
    ]
    return {
        "mixes": len({one.mix for one in judged}),
        "guests": len(judged),
        "without_an_answer": len(held_out) - len(judged),
        "mape_percent": mape_percent(judged, model),
        "covered_percent": 100 * fmean(inside) if inside else None,
    }


def tables(found: dict[str, Any]) -> str:
    """Give them for people."""
    lines = [f"{found['guests']} guests of {found['mixes']} held-out mixes ({found['machine']}, {found['measured']})"]
    for title in ("models", "platforms", "pools", "kinds", "pieces"):
        lines.append(f"\n{title:16}{'guests':>8}{'no answer':>11}{'mean absolute error':>21}{'inside':>9}")
        for name, one in found[title].items():
            error = "-" if one["mape_percent"] is None else f"{one['mape_percent']:.1f} %"
            inside = "-" if one["covered_percent"] is None else f"{one['covered_percent']:.0f} %"
            lines.append(f"{name:16}{one['guests']:8}{one['without_an_answer']:11}{error:>21}{inside:>9}")
    lines.append(
        f"\nrepetitions of one mix differ by {found['spread_percent']:.1f} % (mean relative standard deviation)"
    )
    factors = ", ".join(f"{name} {one or math.nan:.2f}" for name, one in found["factors"].items())
    lines.append(f"intervals of {MODEL}: divided and multiplied by {factors}")
    lines.append(
        f"goals: at most {found['goal_mape_percent']} %, inside in at least {found['goal_covered_percent']:.0f} %"
    )
    return "\n".join(lines)


def toml_of(found: dict[str, Any]) -> str:
    """Give the study's file: the errors of the model that it tells, by platform."""
    lines = [
        "# Written by `benchmarks/stretch_prediction.py --write`.",
        f'measured = "{found["measured"]}"',
        f'machine = "{found["machine"]}"',
    ]
    for name, one in found["platforms"].items():
        lines += [f"\n[platform.{name}]", f"mixes = {one['mixes']}", f"guests = {one['guests']}"]
        lines += [f"{key} = {one[key]:.1f}" for key in ("mape_percent", "covered_percent")]
        lines.append(f"factor = {found['factors'][name]:.3f}")
    return "\n".join(lines) + "\n"
