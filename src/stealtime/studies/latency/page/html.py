"""Writes the report: one HTML file that needs nothing else, fetches nothing and runs no script but its own."""

import json
import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from stealtime import __version__
from stealtime.report import environment, notation
from stealtime.report.figure_library import figure_library, figure_library_version, pack, script_hash
from stealtime.store.run import Run
from stealtime.studies.latency.content import cause_palette
from stealtime.studies.latency.content.causes import Causes
from stealtime.studies.latency.content.report import ReportContent
from stealtime.studies.latency.page.causes import gather_causes, gather_periodic
from stealtime.studies.latency.page.gather import gather
from stealtime.studies.latency.published.comparison import comparison_of_campaign
from stealtime.studies.latency.terminal.hypervisor import hypervisor_lines, kind_meanings
from stealtime.studies.latency.terminal.paper import title_of_test
from stealtime.studies.latency.terminal.published import summary_sentence
from stealtime.studies.latency.wording import cause_wording, wording
from stealtime.studies.latency.wording.held_back import held_back_sentences
from stealtime.studies.latency.wording.no_interval import no_interval_sentences
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Reading

_SCRIPTS = (
    "quantities", "envelope", "appearance", "time_figure", "distribution_figures", "spike_figure", "causes", "page",
)  # fmt: skip
"""In the order in which they build on each other."""
_STYLES = ("style", "causes")

Periodic = Mapping[tuple[str, str, str], tuple[str, ...]]
"""What was traced in the periods of a platform, scenario and probe."""


def write_report(run: Run, path: Path) -> int:
    """Write the report of ``run`` to ``path``; a file that is there is replaced when the new one is whole.

    Returns:
        The size in bytes.

    Raises:
        StealtimeError: ``path`` cannot be written, or the run's documents are damaged. A damaged Parquet file is no
            error: its cell is listed as damaged and the rest is drawn.
    """
    if not path.parent.is_dir():
        raise StealtimeError(f"the folder {path.parent} does not exist", hint="make it, or choose another file with -o")
    if path.is_dir():
        raise StealtimeError(f"{path} is a folder", hint=f"name a file, for example {path / 'report.html'}")
    content = gather(run)
    page = render(content, gather_causes(run), gather_periodic(content.summary, run)).encode()
    _replace(path, page)
    return len(page)


def render(content: ReportContent, causes: Causes, periodic: Periodic) -> str:
    """Give the page as text."""
    templates = Environment(
        loader=PackageLoader("stealtime.studies.latency.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        duration=notation.duration,
        exact_duration=notation.exact_duration,
        moment=notation.moment,
        count=notation.count,
        ratio=notation.ratio,
        interval=lambda one: wording.interval_words(one, lambda ns: notation.duration(ns, 2)),
        ratio_interval=lambda one: wording.interval_words(one, notation.ratio),
        percent=notation.percent,
        whole_ns=notation.whole_ns,
        packed_json=_packed_json,
        shift=cause_wording.signed_duration,
    )
    templates.globals["cause_looks"] = cause_palette.LOOKS
    published = comparison_of_campaign(content.summary)
    hypervisor = hypervisor_lines(content.summary)
    script = "\n".join(_source(templates, f"{name}.js") for name in _SCRIPTS)
    library = figure_library()
    return templates.get_template("report.html.jinja").render(
        content=content,
        causes=causes,
        periodic=periodic,
        published=published,
        skipped=[scenario for scenario in content.manifest.scenarios if scenario.skipped is not None],
        published_sentence=summary_sentence(published) if published is not None else "",
        title_of_test=title_of_test,
        manifest=content.manifest,
        answer=wording.answer(content),
        hypervisor=hypervisor,
        hypervisor_kinds=kind_meanings(hypervisor),
        held_back=held_back_sentences(content.summary.cells),
        no_interval=no_interval_sentences(content.summary.cells),
        remarks=wording.spread_remarks(content),
        nativeness=wording.describe_nativeness(content.manifest.host),
        describe_platform=wording.describe_platform,
        like_with_like=cause_wording.like_with_like,
        facts=environment.fact_table(content.manifest, content.trials),
        clocks=environment.clock_lines(content.trials),
        threads=environment.thread_lines(content.manifest, content.trials),
        embedded=_embedded(content),
        command=shlex.join(content.manifest.command_line),
        git_describe=_reading(content.manifest.git_describe),
        campaign=json.dumps(content.manifest.campaign, indent=2, ensure_ascii=False),
        # Files of this package and base64, not what a user wrote: safe to stand in the page as they are.
        script=Markup(script),  # noqa: S704
        style=Markup("\n".join(_source(templates, f"{name}.css") for name in _STYLES)),  # noqa: S704
        library=Markup(library.packed),  # noqa: S704
        script_sources=f"'{script_hash(script)}' '{library.content_hash}'",
        library_version=figure_library_version(),
        report_version=__version__,
    )


def _embedded(content: ReportContent) -> dict[str, Any]:
    """Give what the page's scripts read."""
    return {
        "platforms": {
            platform: {
                "label": platform,
                "light": look.light,
                "dark": look.dark,
                "dash": look.dash,
                "symbol": look.symbol,
            }
            for platform, look in content.looks.items()
        },
        "groups": [
            {"id": group.identity, "cells": [series.data for series in group.series]} for group in content.groups
        ],
    }


def _packed_json(value: Any) -> Markup:
    """Deflate JSON: that of a thousand spikes says the same few words over and over."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(pack(text.encode()))  # noqa: S704 - base64


def _reading(reading: Reading) -> str:
    return f"absent: {reading.absent}" if isinstance(reading, Absent) else str(reading.value)


def _source(templates: Environment, name: str) -> str:
    assert templates.loader is not None  # noqa: S101 - given above
    return templates.loader.get_source(templates, name)[0]


def _replace(path: Path, page: bytes) -> None:
    """Write beside ``path`` and rename, so that an interrupted report leaves the one before."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}-", delete=False) as file:
            temporary = Path(file.name)
            file.write(page)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise StealtimeError(f"{path} cannot be written: {reason}", hint="choose another file with -o") from error


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
