"""Changes to a campaign from the command line."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from stealtime.campaigns.model import Campaign
from stealtime.campaigns.moment import ThresholdRule
from stealtime.campaigns.probe import given
from stealtime.campaigns.probe_options import ProbeOption
from stealtime.lab.scenarios.model import SCENARIOS
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.plain_errors import plain_message
from stealtime.vocabulary.quantities import PARSED
from stealtime.vocabulary.toml_errors import nearest

_HINT = "`stealtime run -h` tells what each option takes"
_OPTIONS = {"cell_timeout_ns": "--timeout", "probes": "--probe", "scenarios": "--scenario", "platforms": "--platform"}
"""Of keys whose option has another name."""
_VALUES_SHOWN = 60
"""Characters of two values that still make a readable sentence."""


@dataclass(frozen=True)
class Overrides:
    """Options of ``run``; None or empty leaves what the campaign says."""

    short: bool = False
    """Take the campaign's short form, before anything else is changed."""
    platforms: tuple[str, ...] = ()
    scenarios: tuple[str, ...] = ()
    """Builtin ones, or those that the campaign defines."""
    probes: tuple[str, ...] = ()
    """Keep only these."""
    tracing: str | None = None
    """``off``, ``on`` or ``both``, for all probes."""
    duration_ns: int | None = None
    max_samples: int | None = None
    of_probes: Mapping[ProbeOption, object] = field(default_factory=dict)
    """Options that are about one probe, with the value of its field."""
    priority: int | None = None
    repetitions: int | None = None
    kernel: str | None = None
    cell_timeout_ns: int | None = None
    lift_rt_throttling: bool = False
    max_overhead: tuple[str, ...] = ()
    """Thresholds, in place of those of the campaign."""
    on_threshold: ThresholdRule | None = None
    """Cells are traced then, unless ``tracing`` says otherwise."""


def shorten(campaign: Campaign) -> Campaign:
    """Give the short form of ``campaign``, as a campaign that has no shorter one.

    Raises:
        UsageError: It has none.
    """
    short = campaign.short
    if short is None:
        raise UsageError(
            f"the campaign {campaign.name} has no short form",
            hint="shorten it with options such as -D 1s --repetitions 1, or give it a table [short]",
        )
    own = given(short, ("platforms", "scenarios", "repetitions", "tracing"))
    changed = [cells.model_copy(update=short.of(cells.probe).changes()) for cells in campaign.probes if cells.short]
    if not changed:
        raise UsageError(
            f"the campaign {campaign.name} has nothing left in its short form",
            hint="leave `short = false` away from one of its probes",
        )
    return campaign.model_copy(update={**own, "probes": changed, "short": None})


def apply_overrides(campaign: Campaign, overrides: Overrides) -> Campaign:
    """Give the campaign with the options put in.

    Raises:
        UsageError: An option is about a probe, a scenario or a short form that the campaign has not, or its value is
            out of range.
    """
    if overrides.short:
        campaign = shorten(campaign)
    _refuse_unknown_scenarios(campaign, overrides.scenarios)
    kept = list(campaign.probes)
    present = sorted({cells.probe for cells in kept})
    if overrides.probes:
        for name in overrides.probes:
            if name not in present:
                raise UsageError(
                    f"the campaign {campaign.name} has no probe {name!r}", hint=f"it has {', '.join(present)}"
                )
        kept = [cells for cells in kept if cells.probe in overrides.probes]
    left = {cells.probe for cells in kept}
    own: dict[str, dict[str, object]] = {name: {} for name in left}
    for option, value in overrides.of_probes.items():
        if option.probe not in left:
            raise UsageError(
                f"{option.flags[0]} is about the probe {option.probe!r}, which is not measured here",
                hint=f"leave it out, or choose a campaign and --probe with {option.probe}",
            )
        own[option.probe][option.field] = value
    if overrides.on_threshold is not None:
        overrides = replace(overrides, tracing=overrides.tracing or "on")
    everywhere = given(overrides, ("duration_ns", "max_samples", "tracing"))
    changes = given(overrides, ("on_threshold", "tracing", "priority", "repetitions", "kernel", "cell_timeout_ns"))
    several = ("platforms", "scenarios", "max_overhead")
    changes |= {name: list(some) for name in several if (some := getattr(overrides, name))}
    if overrides.lift_rt_throttling:
        changes["lift_rt_throttling"] = True
    changes["probes"] = [cells.model_copy(update=everywhere | own[cells.probe]) for cells in kept]
    changed = campaign.model_copy(update=changes)
    try:
        return Campaign.model_validate(changed.model_dump(), context=PARSED)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][-1]) if isinstance(first["loc"][-1], str) else str(first["loc"][-2])
        # As the command line writes it: a campaign from a file has been read before.
        option_name = _OPTIONS.get(key, f"--{key.removesuffix('_ns').replace('_', '-')}")
        if first["type"] == "value_error":
            raise UsageError(f"{option_name}: {first['ctx']['error']}", hint=_HINT) from error
        raise UsageError(f"{option_name} cannot be {first['input']!r}: {plain_message(first)}", hint=_HINT) from error


def _refuse_unknown_scenarios(campaign: Campaign, names: tuple[str, ...]) -> None:
    known = [*SCENARIOS, *(scenario.name for scenario in campaign.define)]
    for name in names:
        if name not in known:
            close = nearest(name, known)
            raise UsageError(
                f"there is no scenario {name!r}",
                hint=f"did you mean {close!r}?" if close else f"known: {', '.join(known)}",
            )


def refuse_difference(before: dict[str, Any], now: dict[str, Any]) -> None:
    """See that a run is resumed with the campaign it was begun with.

    Raises:
        UsageError: The campaigns differ; the message names the first key that does.
    """
    # A threshold changes nothing of what is measured.
    for key in sorted((before.keys() | now.keys()) - {"max_overhead"}):
        if before.get(key) != now.get(key):
            values = f": {now.get(key)!r} instead of {before.get(key)!r}"
            raise UsageError(
                f"the campaign differs from the run's in {key!r}{values if len(values) <= _VALUES_SHOWN else ''}",
                hint="resume without naming a campaign or options, or begin a new run",
            )
