"""Writes the report: one HTML file that needs nothing else, fetches nothing and runs no script but its own."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from stealtime import __version__
from stealtime.report import environment
from stealtime.report.acceptance.document import Acceptance
from stealtime.report.answer import Answer
from stealtime.report.circumstances.limits import Limits, limits_of
from stealtime.report.figure_library import figure_library, figure_library_version, script_hash
from stealtime.report.page.file import check_place, write_page
from stealtime.report.page.section import Section
from stealtime.report.page.templates import source, templates_of
from stealtime.report.studies import studies
from stealtime.report.summarizing import summarize
from stealtime.report.summary import RunSummary
from stealtime.report.verdict_lines import Verdicts, verdicts_of_bars, verdicts_of_gate
from stealtime.store.model import Manifest, TrialRecord
from stealtime.store.run import Run
from stealtime.vocabulary.readings import Absent, Reading


def write_report(run: Run, path: Path, summary: RunSummary | None = None, acceptance: Acceptance | None = None) -> int:
    """Write the report of ``run`` to ``path``; a file that is there is replaced when the new one is whole.

    Args:
        run: What was measured.
        path: Of the file.
        summary: The figures of ``run``, for callers that have them already.
        acceptance: The run held against bars, which the page shows first.

    Returns:
        The size in bytes.

    Raises:
        StealtimeError: ``path`` cannot be written, or the run's documents are damaged. A damaged Parquet file is no
            error: its cell is listed as damaged and the rest is drawn.
    """
    check_place(path)
    parts = [(study, run.only([probe.name for probe in study.probes])) for study in studies()]
    summary = summarize(run) if summary is None else summary
    sections = [study.section(part, summary) for study, part in parts if part.trials or not run.trials]
    verdicts = [] if summary.gate is None else [verdicts_of_gate(summary.gate)]
    verdicts += [] if acceptance is None else [verdicts_of_bars(acceptance)]
    records = tuple(trial.record for trial in run.trials)
    page = render(run.manifest, records, sections, limits_of(run, summary), summary.answers, verdicts).encode()
    write_page(path, page)
    return len(page)


def render(
    manifest: Manifest,
    trials: tuple[TrialRecord, ...],
    sections: Sequence[Section],
    limits: Limits,
    answers: Sequence[Answer] = (),
    thresholds: Sequence[Verdicts] = (),
) -> str:
    """Give the page as text: the answers, what the studies show, what limits that, on what it was measured, and how to
    do it again."""
    templates = templates_of("stealtime.report.page")
    script = "\n".join(section.script for section in sections)
    library = figure_library()
    return templates.get_template("report.html.jinja").render(
        heading=sections[0].question if len(sections) == 1 else "What was measured here?",
        answers=answers,
        thresholds=thresholds,
        sections=sections,
        limits=limits,
        manifest=manifest,
        facts=environment.fact_table(manifest, trials),
        clocks=environment.clock_lines(trials),
        threads=environment.thread_lines(manifest, trials),
        embedded={key: value for section in sections for key, value in section.embedded.items()},
        command=shlex.join(manifest.command_line),
        git_describe=_reading(manifest.git_describe),
        campaign=json.dumps(manifest.campaign, indent=2, ensure_ascii=False),
        # Files of this package and base64, not what a user wrote: safe to stand in the page as they are.
        script=Markup(script),  # noqa: S704
        style=Markup(source(templates, "style.css")),  # noqa: S704
        library=Markup(library.packed) if any(section.draws_figures for section in sections) else "",  # noqa: S704
        script_sources=f"'{script_hash(script)}' '{library.content_hash}'",
        library_version=figure_library_version(),
        report_version=__version__,
    )


def _reading(reading: Reading) -> str:
    return f"absent: {reading.absent}" if isinstance(reading, Absent) else str(reading.value)
