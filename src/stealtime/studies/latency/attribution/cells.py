"""Whose fault the lost time of a run is, cell by cell: what ``show`` prints and what the page draws.

One trial's traces are in memory at a time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from stealtime.lab.platforms.traits import traits_of
from stealtime.report.order import platform_order, probe_order, scenario_order
from stealtime.store.run import Run, Trial
from stealtime.studies.latency.attribution.attribute import attribute_trial
from stealtime.studies.latency.attribution.families import (
    FAMILIES,
    LOOKS,
    NOT_JUDGED,
    RT_THROTTLING,
    UNEXPLAINED,
    cause_family,
)
from stealtime.studies.latency.attribution.model import AttributedSpike, Cause, TracingOverhead, TrialAttribution
from stealtime.studies.latency.attribution.tracing_overhead import tracing_overheads
from stealtime.studies.latency.probes.catalogue import PROBES
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Reading

WORST_A_CELL = 20
"""Spikes drawn as time lines, of all repetitions of a cell together; of each as many are told."""
TINY_SHARE = 0.002
"""Causes below it are folded: a busy host has dozens of interrupts and threads that took a microsecond."""
_NAMED = 3

Attribute = Callable[[Trial], TrialAttribution]
Overheads = Callable[[Run], Sequence[TracingOverhead]]


@dataclass(frozen=True)
class CauseLine:
    """One cause of one cell: a line of its table."""

    family: str
    """A key of ``families.LOOKS``."""
    label: str
    lost_ns: float
    share: float
    """Of the excess of all judged spikes."""
    spikes: int
    largest_ns: float


@dataclass(frozen=True)
class StackPart:
    """One piece of a stacked bar."""

    family: str
    lost_ns: float
    share: float
    """Of the whole bar, which holds what was not judged too."""
    label: str
    """What the piece consists of, in words."""


@dataclass(frozen=True)
class Attributed:
    """One repetition whose spikes have causes."""

    repetition: int
    is_native: bool
    measured_s: float
    told: TrialAttribution

    @property
    def events(self) -> tuple[tuple[str, int, int], ...]:
        """Whose events, how many, how many were lost; natively host and machine are one."""
        trace = self.told.trace
        host = ("host", trace.host_events, trace.host_lost)
        return (host,) if self.is_native else (host, ("machine", trace.machine_events, trace.machine_lost))

    @property
    def views(self) -> tuple[tuple[str, Reading], ...]:
        """The three instruments that see the time a machine could not run."""
        views = self.told.views
        return (
            ("guest steal", views.guest_steal),
            ("host run_delay", views.host_run_delay),
            ("traced off-CPU", views.traced_off_cpu),
        )

    def tracks(self, spike: AttributedSpike) -> tuple[str, ...]:
        """Give the tracks of a spike to draw: both of a guest, also where one of them could not be traced."""
        if not self.is_native:
            return ("machine", "host")
        return tuple(dict.fromkeys(segment.track for segment in spike.segments)) or ("machine",)


@dataclass(frozen=True)
class Refused:
    """A trial whose spikes could not be attributed."""

    trial: str
    reason: str
    hint: str | None


@dataclass(frozen=True)
class TracedCell:
    """Whose fault the spikes of one cell are, of all its attributed repetitions together."""

    identity: str
    """Unique in the page, fit for an HTML id."""
    platform: str
    scenario: str
    probe: str
    """With its parameters, in words."""
    attributed: tuple[Attributed, ...]
    refused: tuple[Refused, ...]
    excess_ns: float
    """Of the judged spikes: what the lines add up to."""
    not_judged_ns: float
    """Excess of the spikes that were not judged."""
    lines: tuple[CauseLine, ...]
    stack: tuple[StackPart, ...]

    @property
    def measured_s(self) -> float:
        """How long was measured, all attributed repetitions together."""
        return sum(one.measured_s for one in self.attributed)

    @property
    def judged(self) -> int:
        return sum(one.told.judged for one in self.attributed)

    @property
    def not_judged(self) -> int:
        return sum(one.told.not_judged for one in self.attributed)

    @property
    def rule(self) -> str:
        return next((one.told.rule for one in self.attributed), "")

    @property
    def worst(self) -> list[tuple[AttributedSpike, Attributed]]:
        """The longest spikes of all repetitions, each with its own."""
        spikes = [(spike, one) for one in self.attributed for spike in one.told.worst]
        return sorted(spikes, key=lambda pair: -pair[0].duration_ns)[:WORST_A_CELL]

    @property
    def lost_ns_per_s(self) -> float:
        """Excess of all spikes in a second of measuring."""
        return (self.excess_ns + self.not_judged_ns) / self.measured_s if self.measured_s > 0 else 0.0

    @property
    def held_back_ns_per_s(self) -> float:
        """What the machine's own kernel, or the host's, took of it by its limit on real-time threads."""
        held_back_ns = sum(line.lost_ns for line in self.lines if line.family == RT_THROTTLING)
        return held_back_ns / self.measured_s if self.measured_s > 0 else 0.0

    def folded(self, least_share: float) -> tuple[CauseLine, ...]:
        """Give the causes too small to be listed one by one: none if there is but one; never ``unexplained``."""
        small = tuple(line for line in self.lines if line.share < least_share and line.family != UNEXPLAINED)
        return small if len(small) > 1 else ()

    @property
    def summary(self) -> str:
        """The largest causes in a few words."""
        if not self.attributed:
            return "not attributed"
        if not self.lines or self.excess_ns <= 0:
            return "no spike was judged" if self.judged + self.not_judged else "no spike"
        largest = [line for line in self.lines if line.lost_ns > 0][:2]
        return ", ".join(f"{line.share:.0%} {line.label}" for line in largest)


@dataclass(frozen=True)
class ProbeCauses:
    """All traced cells of one probe with its parameters: bars side by side, on one scale."""

    identity: str
    title: str
    cells: tuple[TracedCell, ...]

    @property
    def most_ns_per_s(self) -> float:
        return max((cell.lost_ns_per_s for cell in self.cells), default=0.0)

    @property
    def held_back_alone(self) -> dict[str, tuple[TracedCell, ...]]:
        """By platform, the cells that a limit on real-time threads held back, and no other platform beside them."""
        found: dict[str, tuple[TracedCell, ...]] = {}
        for _, cells in self.scenarios:
            held_back = [cell for cell in cells if cell.held_back_ns_per_s > 0]
            if len(held_back) == 1 < len(cells):
                found[held_back[0].platform] = (*found.get(held_back[0].platform, ()), held_back[0])
        return found

    @property
    def scenarios(self) -> tuple[tuple[str, tuple[TracedCell, ...]], ...]:
        names = dict.fromkeys(cell.scenario for cell in self.cells)
        return tuple((name, tuple(cell for cell in self.cells if cell.scenario == name)) for name in names)


@dataclass(frozen=True)
class Causes:
    """All that is told of the causes of a run."""

    probes: tuple[ProbeCauses, ...]
    families: tuple[str, ...]
    """Those that occur, and always ``unexplained`` and ``not_judged``."""
    overheads: Sequence[TracingOverhead]
    overhead_absent_because: str | None = None

    @property
    def cells(self) -> tuple[TracedCell, ...]:
        return tuple(cell for probe in self.probes for cell in probe.cells)


def gather_causes(
    run: Run,
    attribute: Attribute = attribute_trial,
    overheads: Overheads = tracing_overheads,
) -> Causes:
    """Find whose fault the spikes of every traced cell of ``run`` are.

    Args:
        run: Its untraced trials are passed over.
        attribute: Splits the spikes of one trial into causes; what it refuses stands in the report with its reason.
        overheads: Compares traced trials with untraced ones.
    """
    traced: dict[str, list[Trial]] = {}
    for trial in run.measured:
        if trial.record.cell.traced:
            traced.setdefault(trial.record.cell.name, []).append(trial)
    scenarios = scenario_order(trial.record.cell.scenario for trial in run.trials)
    ordered = sorted(
        traced.values(),
        key=lambda trials: (
            probe_order(trials[0].record.cell),
            scenarios.index(trials[0].record.cell.scenario),
            platform_order(trials[0].record.cell.platform),
        ),
    )
    cells = [_gather_cell(trials, f"traced-{number}", attribute) for number, trials in enumerate(ordered)]
    titles = dict.fromkeys(cell.probe for cell in cells)
    probes = tuple(
        ProbeCauses(f"causes-{number}", title, tuple(cell for cell in cells if cell.probe == title))
        for number, title in enumerate(titles)
    )
    seen = {part.family for cell in cells for part in cell.stack} | {UNEXPLAINED, NOT_JUDGED}
    costs, unknown_cost = _costs(run, overheads) if traced else ([], None)
    return Causes(probes, tuple(family for family in FAMILIES if family in seen), costs, unknown_cost)


def _costs(run: Run, overheads: Overheads) -> tuple[Sequence[TracingOverhead], str | None]:
    """Give what tracing cost, or why it is not known."""
    try:
        return overheads(run), None
    except StealtimeError as error:
        return (), error.message


def _gather_cell(trials: Sequence[Trial], identity: str, attribute: Attribute) -> TracedCell:
    """Attribute the repetitions of one cell, at least one, and add them up."""
    cell = trials[0].record.cell
    attributed: list[Attributed] = []
    refused: list[Refused] = []
    for trial in sorted(trials, key=lambda one: one.record.repetition):
        try:
            told = attribute(trial)
        except StealtimeError as error:  # a verdict, or a damaged file: the other trials are not touched by that
            refused.append(Refused(trial.record.trial_id, error.message.rstrip("."), error.hint))
        else:
            is_native = traits_of(cell.platform).is_native
            attributed.append(Attributed(trial.record.repetition, is_native, _measured_s(trial), told))
    results = [one.told for one in attributed]
    excess_ns = sum(one.excess_ns for one in results)
    not_judged_ns = sum(one.total_lost_ns - one.excess_ns for one in results)
    lines = _lines(results, excess_ns)
    return TracedCell(
        identity=identity,
        platform=cell.platform,
        scenario=cell.scenario,
        probe=PROBES[cell.probe].describe(cell.parameters),
        attributed=tuple(attributed),
        refused=tuple(refused),
        excess_ns=excess_ns,
        not_judged_ns=not_judged_ns,
        lines=lines,
        stack=_stack(lines, excess_ns, not_judged_ns),
    )


def _lines(results: Iterable[TrialAttribution], excess_ns: float) -> tuple[CauseLine, ...]:
    """Add the causes of all repetitions up, the largest first; ``unexplained`` is last and always there."""
    causes: dict[Cause, CauseLine] = {}
    for result in results:
        for share in result.shares:
            before = causes.get(share.cause)
            lost_ns = share.lost_ns + (before.lost_ns if before else 0.0)
            causes[share.cause] = CauseLine(
                family=cause_family(share.cause),
                label=share.cause.label,
                lost_ns=lost_ns,
                share=lost_ns / excess_ns if excess_ns > 0 else 0.0,
                spikes=share.spikes + (before.spikes if before else 0),
                largest_ns=max(share.largest_ns, before.largest_ns if before else 0.0),
            )
    lines = list(causes.values())
    if not any(line.family == UNEXPLAINED for line in lines):
        lines.append(CauseLine(UNEXPLAINED, LOOKS[UNEXPLAINED].words, 0.0, 0.0, 0, 0.0))
    return tuple(sorted(lines, key=lambda line: (line.family == UNEXPLAINED, -line.lost_ns)))


def _stack(lines: Sequence[CauseLine], excess_ns: float, not_judged_ns: float) -> tuple[StackPart, ...]:
    """Give the pieces of the bar, a family each, from the inside to the outside."""
    whole_ns = excess_ns + not_judged_ns
    if whole_ns <= 0:
        return ()
    parts = []
    for family in FAMILIES:
        own = [line for line in lines if line.family == family and line.lost_ns > 0]
        lost_ns = not_judged_ns if family == NOT_JUDGED else sum(line.lost_ns for line in own)
        if lost_ns > 0:
            parts.append(StackPart(family, lost_ns, lost_ns / whole_ns, _stack_label(family, own)))
    return tuple(parts)


def _stack_label(family: str, lines: Sequence[CauseLine]) -> str:
    """Name a piece of a bar: by its only cause, or by its family and the largest causes in it."""
    words = LOOKS[family].words
    labels = [line.label for line in sorted(lines, key=lambda line: -line.lost_ns)]
    if not labels or labels == [words]:
        return words
    if len(labels) == 1:
        return labels[0]
    more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
    return f"{words} ({', '.join(labels[:_NAMED])}{more})"


def _measured_s(trial: Trial) -> float:
    outcome = trial.record.outcome
    if outcome is None:
        return 0.0
    return (outcome.clock.end.monotonic_raw_ns - outcome.clock.start.monotonic_raw_ns) / 1e9
