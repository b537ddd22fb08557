"""Tables of the documentation: ``tables.py RUN`` prints those of a run, ``tables.py --write PAGE`` stores them.

A run of periodic tasks gives what the kernel took of them (``realtime.py``). Of the others, an untraced run gives the
overhead at the 99.9th percentile with its interval and its ratio to native, and the longest sample; a traced one the
time lost in each second of ``tick``, and its main causes. A page has a block for each campaign, between two comments,
so that no figure in it is older than the run that the block names.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures.realtime import realtime_rows
from stealtime.report import notation
from stealtime.report.cells.model import plain_cells
from stealtime.report.interval import Interval
from stealtime.report.plain_table import cell_title
from stealtime.report.strangers import strangers_figures
from stealtime.store.run import Run, default_runs_folder, find_run, runs_in
from stealtime.studies.latency.analysis.model import CellSummary
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.studies.latency.analysis.tail import tail_overhead, tail_ratio
from stealtime.studies.latency.attribution.cells import Causes, TracedCell, gather_causes
from stealtime.studies.latency.attribution.families import LOOKS, RT_THROTTLING
from stealtime.studies.latency.wording.held_back import held_back_sentences
from stealtime.studies.latency.wording.no_interval import no_interval_sentences
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Value

_BLOCK = re.compile(r"(<!-- figures of (\S+): .*? -->\n).*?(<!-- end of figures -->\n)", re.DOTALL)
_CAUSES_NAMED = 2
_LEAST_SHARE = 0.1
"""Of what was lost besides RT throttling: smaller causes are not named."""


def answer_rows(cells: Sequence[CellSummary]) -> Iterator[str]:
    """Give both tables of the answer and what explains them."""
    titles = list(dict.fromkeys(cell_title(cell.probe, cell.parameters) for cell in cells))
    by_key = {(cell.platform, cell_title(cell.probe, cell.parameters)): cell for cell in cells}
    platforms = sorted(dict.fromkeys(cell.platform for cell in cells), key=lambda name: name != "native")
    yield from _head("99.9th percentile over the floor", titles)
    for platform in platforms:
        row = [_steady(by_key.get((platform, title)), by_key.get(("native", title))) for title in titles]
        yield _row(platform, row)
    yield from (f"\n{sentence}" for sentence in no_interval_sentences(cells))
    yield ""
    yield from _head("longest over the floor", titles)
    for platform in platforms:
        found = [by_key.get((platform, title)) for title in titles]
        yield _row(platform, [notation.duration(cell.worst_overhead_ns if cell else None, 3) for cell in found])
    yield from (f"\n{sentence}" for sentence in held_back_sentences(cells))


def cause_rows(causes: Causes) -> Iterator[str]:
    """Give the time lost in each second of ``tick``, by scenario and platform."""
    probe = next(one for one in causes.probes if one.title.startswith("Clock tick"))
    platforms = list(dict.fromkeys(cell.platform for cell in probe.cells))
    yield from _head("scenario", platforms)
    for number, (scenario, cells) in enumerate(probe.scenarios, start=1):
        by_platform = {cell.platform: cell for cell in cells}
        yield _row(f"{number} {scenario}", [_lost(by_platform.get(platform)) for platform in platforms])
    counts = [(events, lost) for cell in causes.cells for one in cell.attributed for _, events, lost in one.events]
    yield f"\nEvents lost: {sum(lost for _, lost in counts):,} of {sum(events for events, _ in counts):,}."


def _steady(cell: CellSummary | None, native: CellSummary | None) -> str:
    if cell is None:
        return notation.ABSENT
    interval = tail_overhead(cell)
    if interval is None:
        return notation.duration(cell.tail_overhead_ns, 3)
    ratio = tail_ratio(cell, native) if native is not None and cell.platform != "native" else None
    times = f"; {notation.ratio(ratio.value)} ({_span(ratio)})" if ratio is not None else ""
    low, high = (notation.duration(end, 2) for end in (interval.low, interval.high))
    return f"{notation.duration(interval.value, 3)} ({low} to {high}){times}"


def _span(ratio: Interval) -> str:
    return f"{ratio.low:.2g} to {ratio.high:.2g}"


def _lost(cell: TracedCell | None) -> str:
    """Give what was lost besides RT throttling and the largest causes of that, then RT throttling."""
    if cell is None or not cell.attributed:
        return notation.ABSENT
    rest_ns = cell.lost_ns_per_s - cell.held_back_ns_per_s
    families: dict[str, float] = {}
    for line in cell.lines:
        families[line.family] = families.get(line.family, 0.0) + line.lost_ns / cell.measured_s
    shares = sorted(((ns / rest_ns, name) for name, ns in families.items() if name != RT_THROTTLING), reverse=True)
    named = [f"{share:.0%} {LOOKS[name].words}" for share, name in shares[:_CAUSES_NAMED] if share >= _LEAST_SHARE]
    limit = f"; and {notation.duration(cell.held_back_ns_per_s, 3)} RT throttling" if cell.held_back_ns_per_s else ""
    return f"{notation.duration(rest_ns, 3)}: {', '.join(named)}{limit}"


def _head(first: str, others: Sequence[str]) -> Iterator[str]:
    yield _row(first, others)
    yield f"|---|{'---:|' * len(others)}"


def _row(first: str, others: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(others)} |"


def rows_of(run: Run) -> Iterator[str]:
    """Give the rows that a run is good for."""
    if any(trial.record.cell.probe == "rtload" for trial in run.measured):
        yield from realtime_rows(run)
        return
    summary = summarize(run)
    if any(trial.record.cell.traced for trial in run.measured):
        yield from cause_rows(gather_causes(run))
    else:
        yield from answer_rows(plain_cells(summary.cells))


def caption(run: Run) -> str:
    """Say which run this is, of which day, and on what it was measured."""
    manifest = run.manifest
    facts = {name: reading.value for name, reading in manifest.host.items() if isinstance(reading, Value)}
    guest = ", itself a guest" if facts.get("hypervisor") else ""
    return (
        f"Run `{run.run_id}` of {manifest.created_at:%Y-%m-%d}: {facts.get('cpu_model', 'unknown CPU')}, "
        f"CPUs {facts.get('cpus_allowed', 'unknown')}, Linux {facts.get('kernel_release', 'unknown')}{guest}; "
        f"guest kernel `{manifest.campaign.get('kernel', 'rt')}`; stealtime {manifest.stealtime_version}."
        f"{_company(run)}"
    )


def _company(run: Run) -> str:
    """Say it where others ran beside the run: its figures are then not those of this machine alone."""
    watched = [trial.record.strangers for trial in run.measured if trial.record.strangers is not None]
    figures = strangers_figures(watched)
    words = None if figures is None else figures.words
    return "" if words is None else f" {words[0].upper()}{words[1:]}."


def put_into(page: str, run: Run) -> str:
    """Give the text of a page with the block of the run's campaign written anew.

    Raises:
        UsageError: The run is not finished, or the page has no block of its campaign.
    """
    campaign = run.manifest.campaign_name
    if run.manifest.state != "finished":
        raise UsageError(
            f"the run {run.run_id} is {run.manifest.state}", hint="finish it with `stealtime run --resume`"
        )
    if campaign not in campaigns_of(page):
        raise UsageError(
            f"the page has no figures of {campaign}", hint=f"it has those of {', '.join(campaigns_of(page))}"
        )
    body = "\n".join([caption(run), "", *rows_of(run)])
    return _BLOCK.sub(lambda found: f"{found[1]}{body}\n{found[3]}" if found[2] == campaign else found[0], page)


def campaigns_of(page: str) -> list[str]:
    """Name the campaigns that a page has figures of."""
    return [found[2] for found in _BLOCK.finditer(page)]


def newest_runs(campaigns: Sequence[str]) -> Iterator[Run]:
    """Give the newest run of each campaign.

    Raises:
        UsageError: A campaign has none.
    """
    runs = runs_in(default_runs_folder())
    for campaign in campaigns:
        own = [path for path in runs if f"-{campaign}-" in path.name]
        if not own:
            raise UsageError(f"there is no run of {campaign}", hint=f"measure one with `stealtime run {campaign}`")
        yield Run.open(own[-1])


def main() -> None:
    """Print the rows of runs, or write them to a page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help="as for `stealtime show`; default: the newest of each campaign"
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="write the blocks of this page")
    arguments = parser.parse_args()
    page = arguments.write.read_text() if arguments.write is not None else ""
    try:
        named = [find_run(name, None) for name in arguments.runs]
        for run in named or newest_runs(campaigns_of(page) or ["quick"]):
            if arguments.write is None:
                sys.stdout.writelines(f"{line}\n" for line in [caption(run), "", *rows_of(run)])
            else:
                page = put_into(page, run)
    except UsageError as error:
        parser.error(f"{error.message} ({error.hint})")
    if arguments.write is not None:
        arguments.write.write_text(page)


if __name__ == "__main__":
    main()
