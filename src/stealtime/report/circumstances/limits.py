"""What is invalid, limited or missing in a run, whatever was measured: each remark once, with its cells."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from stealtime.campaigns.registry import probes
from stealtime.campaigns.strangers import findings_of
from stealtime.campaigns.validity import reasons_of
from stealtime.report.cells.model import CellFigures, plain_cells
from stealtime.report.circumstances.strangers import stranger_lines
from stealtime.report.order import platform_order, probe_order, scenario_order
from stealtime.report.summary import RunSummary
from stealtime.store.model import PlatformRecord, ScenarioRecord, TrialRecord
from stealtime.store.run import Run

_NAMED = 6
_MEASURE_AGAIN = "measure the cell again with `stealtime run --resume`"


@dataclass(frozen=True)
class Remark:
    """Something that a reader of a result must know."""

    code: str
    is_invalidating: bool
    text: str
    hint: str | None = None


_TRACED = Remark(
    "traced",
    False,
    "measured with tracing, which has an overhead",
    'measure without tracing as well: tracing = "both" in the campaign',
)


@dataclass(frozen=True)
class SpreadRemark:
    """A remark and all cells that it is about."""

    remark: Remark
    where: tuple[tuple[str, str], ...]
    """Platform, and its probes in words: ``("uml", "every probe")``."""

    @property
    def platforms(self) -> str:
        return ", ".join(platform for platform, _ in self.where)


@dataclass(frozen=True)
class Missing:
    """A trial without figures: it failed, or what it left on the disk is damaged."""

    name: str
    kind: str
    """``failed`` or ``damaged``."""
    message: str
    hint: str | None
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """All that limits a run."""

    remarks: tuple[SpreadRemark, ...]
    """What invalidates comes first."""
    missing: tuple[Missing, ...]
    skipped: tuple[ScenarioRecord, ...]
    unusable: tuple[PlatformRecord, ...]
    strangers: tuple[str, ...] = ()
    """Who else ran on the CPUs that were measured."""


def limits_of(run: Run, summary: RunSummary) -> Limits:
    """Find what limits a run, or the part of one that holds some trials alone; ``summary`` is of all of it."""
    records: dict[str, list[TrialRecord]] = {}
    for trial in run.trials:
        records.setdefault(trial.record.cell.name, []).append(trial.record)
    cells = {name: cell for cell in summary.cells if (name := cell.stored.name) in records}
    shown = plain_cells([cell for cell in cells.values() if cell.is_measured])
    scenarios = scenario_order(cell.scenario for cell in shown)
    shown.sort(
        key=lambda cell: (scenarios.index(cell.scenario), probe_order(cell.stored), platform_order(cell.platform))
    )
    names_scenario = len({cell.scenario for cell in shown}) > 1
    spread: dict[Remark, dict[str, list[str]]] = {}
    for cell in shown:
        title = probes()[cell.probe].describe(cell.parameters)
        for remark in remarks_of(cell, records[cell.stored.name]):
            titles = spread.setdefault(remark, {}).setdefault(cell.platform, [])
            titles.append(f"{title} in {cell.scenario}" if names_scenario else title)
    counts = Counter(cell.platform for cell in shown)
    remarks = [
        SpreadRemark(
            remark,
            tuple(
                (name, "every probe" if len(titles) == counts[name] > 1 else some_names(titles))
                for name, titles in by_platform.items()
            ),
        )
        for remark, by_platform in spread.items()
    ]
    return Limits(
        remarks=tuple(sorted(remarks, key=lambda one: not one.remark.is_invalidating)),
        missing=tuple(one for name, cell in cells.items() for one in _missing(cell, records[name])),
        skipped=tuple(scenario for scenario in run.manifest.scenarios if scenario.skipped is not None),
        unusable=tuple(platform for platform in run.manifest.platforms if not platform.usable),
        strangers=tuple(stranger_lines(summary)),
    )


def remarks_of(cell: CellFigures, records: Sequence[TrialRecord]) -> tuple[Remark, ...]:
    """Give what was found in any trial of a measured cell, once, and what makes the cell invalid besides."""
    findings = [one for record in records if record.outcome is not None for one in record.outcome.findings]
    findings += [one for record in records if record.outcome is None for one in findings_of(record.strangers)]
    remarks = [Remark(one.code, one.level == "invalidates", one.text, one.hint) for one in findings]
    if cell.traced:
        remarks.append(_TRACED)
    told = {remark.text for remark in remarks}
    remarks += [Remark("repetitions", True, reason) for reason in cell.reasons if reason not in told]
    remarks += [Remark("too_short", False, text, _MEASURE_AGAIN) for text in cell.too_short]
    return tuple(dict.fromkeys(remarks))


def _missing(cell: CellFigures, records: Sequence[TrialRecord]) -> list[Missing]:
    trials = {trial.repetition: trial for trial in cell.trials}
    # What no record tells was found when the tables were read.
    told = {reason for reasons in reasons_of(records) for reason in reasons}
    missing = []
    for record in records:
        if record.result is None:
            missing.append(_failed(record))
        elif record.repetition in trials:
            damage = [reason for reason in trials[record.repetition].reasons if reason not in told]
            if damage:
                missing.append(Missing(record.trial_id, "damaged", " ".join(damage), _MEASURE_AGAIN))
    return missing


def _failed(record: TrialRecord) -> Missing:
    failure = record.failure
    if failure is None:
        return Missing(record.trial_id, "failed", "its record holds neither an outcome nor a failure", None)
    return Missing(record.trial_id, "failed", failure.message, failure.hint, tuple(failure.log_tail))


def some_names(names: Sequence[str]) -> str:
    """Name a few, and say how many more there are: seven scenarios of three probes would fill a page."""
    return ", ".join(names) if len(names) <= _NAMED else f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
