"""The errors of all models, by what they were made on. Pure."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from co_located.judging import (
    COVERAGE,
    Case,
    beyond_floor,
    covered_share,
    factors_of,
    mae_of_p_points,
    mape_percent,
    noise_floor,
    ratios,
)
from co_located.live import INSIDE, company_percent
from co_located.live import MODEL as LIVE
from co_located.mixes import POOLS

MODEL = "shared"
GOALS = {"mae_of_p_points": 4.0, "mape_percent": 6.0, "covered_percent": 100 * COVERAGE}
PUBLISHED_MAE_OF_P_POINTS = 7.8
"""Of CloudFormer, a learned model with 206 inputs, as its authors publish it; its P is 1 / stretch."""


def document(found: Sequence[Case], live: Sequence[Case], lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give what ``--json`` prints: the errors of models in which nothing is fitted, on all mixes.

    Args:
        found: All guests of all mixes.
        live: The same as the host's counters see them.
        lines: What was measured.
    """
    models = list(found[0].predicted)

    def groups(name_of: Callable[[Case], str]) -> dict[str, Any]:
        names = sorted({name_of(one) for one in found})
        return {name: _judged([one for one in found if name_of(one) == name], MODEL, found) for name in names}

    return {
        "schema_version": 2,
        "mixes": len({one.mix for one in found}),
        "guests": len(found),
        "company_percent": company_percent(lines),
        "goals": GOALS,
        "published_mae_of_p_points": PUBLISHED_MAE_OF_P_POINTS,
        "models": {name: _judged(found, name, found) for name in models},
        "platforms": groups(lambda one: one.pool.platform),
        "pools": groups(lambda one: one.pool.name),
        "beyond_floor": {
            pool: beyond_floor([one for one in found if one.pool.name == pool], MODEL)
            for pool in sorted({one.pool.name for one in found})
        },
        "kinds": groups(lambda one: one.kind),
        "pieces": groups(lambda one: one.piece),
        "factors": factors_of(found, MODEL),
        "live": {
            platform: _judged([one for one in live if one.pool.platform == platform], LIVE, live)
            for platform in sorted({one.pool.platform for one in live})
        },
        "live_factors": factors_of(live, LIVE),
        "inside": {
            platform: {
                "guests": len(own),
                "mape_percent": mape_percent(own, INSIDE),
                "largest_percent": 100 * max(abs(1.0 / one - 1.0) for one in ratios(own, INSIDE)),
            }
            for platform in sorted({one.pool.platform for one in live})
            if (own := [one for one in live if one.pool.platform == platform and one.predicted[INSIDE] is not None])
        },
        "cases": [{"mix": one.mix, "piece": one.piece, "measured": one.measured, **one.predicted} for one in found],
    }


def _judged(some: Sequence[Case], model: str, found: Sequence[Case]) -> dict[str, Any]:
    """Judge a model on some of all cases."""
    judged = [one for one in some if one.predicted[model] is not None]
    floor = noise_floor(judged)
    inside = covered_share(judged, model, found)
    return {
        "mixes": len({one.mix for one in judged}),
        "guests": len(judged),
        "without_an_answer": len(some) - len(judged),
        "mape_percent": mape_percent(judged, model),
        "mae_of_p_points": mae_of_p_points(judged, model),
        "floor_mape_percent": None if floor is None else floor[0],
        "floor_mae_of_p_points": None if floor is None else floor[1],
        "covered_percent": None if inside is None else 100 * inside,
    }


def tables(found: dict[str, Any]) -> str:
    """Give them for people."""
    lines = [
        f"{found['guests']} guests of {found['mixes']} mixes ({found['machine']}, {found['measured']})",
        "errors: of the stretch in percent, of P = 1 / stretch in points; floor: what a perfect model would have",
    ]
    for title in ("models", "platforms", "pools", "kinds", "pieces", "live"):
        head = f"{'no answer':>11}{'stretch':>10}{'floor':>8}{'P':>8}{'floor':>8}{'inside':>9}"
        lines.append(f"\n{title:24}{'guests':>8}{head}")
        for name, one in found[title].items():
            figures = [
                f"{_written(one[key]):>{width}}"
                for key, width in (
                    ("mape_percent", 10), ("floor_mape_percent", 8), ("mae_of_p_points", 8),
                    ("floor_mae_of_p_points", 8), ("covered_percent", 9),
                )
            ]  # fmt: skip
            lines.append(f"{name:24}{one['guests']:8}{one['without_an_answer']:11}{''.join(figures)}")
    for platform, one in found["inside"].items():
        lines.append(
            f"\n{platform}: (run + wait) / run against a busy task inside: {one['mape_percent']:.1f} % off in the "
            f"mean, {one['largest_percent']:.1f} % at most, {one['guests']} guests"
        )
    factors = ", ".join(f"{name} {one or math.nan:.2f}" for name, one in found["factors"].items())
    live = ", ".join(f"{name} {one or math.nan:.2f}" for name, one in found["live_factors"].items())
    lines.append(f"\nintervals of {MODEL}: divided and multiplied by {factors}; live {live}")
    if found["company_percent"] is not None:
        lines.append(f"virtual CPUs that worked alone waited for {found['company_percent']:.1f} % of the time")
    goals = found["goals"]
    lines.append(
        f"goals: stretch at most {goals['mape_percent']:g} %, P at most {goals['mae_of_p_points']:g} points, inside in "
        f"at least {goals['covered_percent']:.0f} %; published (CloudFormer): P {found['published_mae_of_p_points']}"
    )
    lines += _told_goals(found)
    return "\n".join(lines)


def _told_goals(found: Mapping[str, Any]) -> list[str]:
    """Say of each pool whether the goals are met, and if not whether the model or the repetitions are why."""
    lines = []
    for pool, one in found["pools"].items():
        for key, unit in (("mape_percent", "%"), ("mae_of_p_points", "points of P")):
            goal, floor, beyond = found["goals"][key], one[f"floor_{key}"], found["beyond_floor"][pool]
            told = f"{pool}: {one[key]:.1f} {unit}, goal {goal:g}: "
            if one[key] <= goal:
                lines.append(told + "met")
            elif beyond is None:
                lines.append(told + "not met; too few mixes to tell why")
            else:
                low, high = beyond[key]
                why = (
                    "the model is wrong by more than repetitions differ"
                    if low > 0
                    else ("the model cannot be told from a right one")
                )
                above = f"{why} (floor {floor:.1f}, above it {low:+.1f} to {high:+.1f})"
                least = "; a right model would miss it too" if floor > goal else ""
                lines.append(f"{told}not met; {above}{least}")
    return lines


def _written(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.1f}"


def toml_of(found: dict[str, Any], former: Mapping[str, float]) -> str:
    """Give the study's file: the errors of the model that it tells, by platform.

    Args:
        found: The document.
        former: The factors that the file has by now. A platform that was not measured on as many CPUs as the program
            measures it on keeps a wider one.
    """
    lines = _head(found)
    for name, one in found["platforms"].items():
        factor = found["factors"][name]
        is_whole = all(pool.name in found["pools"] for pool in POOLS if pool.platform == name)
        if factor is not None and not is_whole:
            factor = max(factor, former.get(name, factor))
        lines += [f"\n[platform.{name}]", f"mixes = {one['mixes']}", *_errors(one, factor)]
    return "\n".join(lines) + "\n"


def live_toml_of(found: dict[str, Any]) -> str:
    """Give the file of `stealtime advise`: the errors of the stretch that it predicts, by kind of guest."""
    lines = _head(found)
    for name, one in found["live"].items():
        lines += [f"\n[kind.{name.partition('-')[0]}]", *_errors(one, found["live_factors"][name])]
    return "\n".join(lines) + "\n"


def _head(found: dict[str, Any]) -> list[str]:
    return [
        "# Written by `benchmarks/stretch_prediction.py --write`.",
        f'measured = "{found["measured"]}"',
        f'machine = "{found["machine"]}"',
    ]


def _errors(one: Mapping[str, Any], factor: float | None) -> list[str]:
    if factor is None:
        raise ValueError("there are too few mixes for an interval: measure more before they are written")
    keys = ("mape_percent", "floor_mape_percent", "mae_of_p_points", "covered_percent")
    errors = [f"{key} = {one[key]:.1f}" for key in keys if one[key] is not None]
    return [f"guests = {one['guests']}", *errors, f"factor = {factor:.3f}"]
