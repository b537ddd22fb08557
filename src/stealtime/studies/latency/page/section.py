"""What the report shows of latencies: what they cost, figures, causes and tables."""

from collections.abc import Iterator
from typing import Any

from stealtime.lab.platforms.traits import traits_of
from stealtime.report import notation
from stealtime.report.page.dot_figure import draw_dots
from stealtime.report.page.parts import hypervisor_section, published_section
from stealtime.report.page.section import Section
from stealtime.report.page.templates import rendered, source, templates_of
from stealtime.report.summary import RunSummary
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.model import own_part
from stealtime.studies.latency.attribution import families
from stealtime.studies.latency.attribution.cells import TINY_SHARE, Causes, gather_causes
from stealtime.studies.latency.page.content import ReportContent
from stealtime.studies.latency.page.gather import gather
from stealtime.studies.latency.page.periodic import Periodic, gather_periodic
from stealtime.studies.latency.page.ratios import cost_figure
from stealtime.studies.latency.page.spikes import drawings, worst_spikes
from stealtime.studies.latency.wording import cause_wording, wording
from stealtime.studies.latency.wording.held_back import held_back_sentences
from stealtime.studies.latency.wording.no_interval import no_interval_sentences

_SCRIPTS = (
    "quantities", "envelope", "appearance", "time_figure", "distribution_figures", "spike_figure", "causes", "page",
)  # fmt: skip
"""In the order in which they build on each other."""


def section_of(run: Run, summary: RunSummary) -> Section:
    """Gather and draw what the report of ``run`` says of latencies.

    Raises:
        StealtimeError: A document of the run is damaged.
    """
    content = gather(run, own_part(summary))
    return section(content, gather_causes(run), gather_periodic(content.summary, run))


def section(content: ReportContent, causes: Causes, periodic: Periodic) -> Section:
    templates = templates_of("stealtime.studies.latency.page")
    templates.filters.update(
        interval=lambda one: wording.interval_words(one, lambda ns: notation.duration(ns, 2)),
        ratio_interval=lambda one: wording.interval_words(one, notation.ratio),
        shift=cause_wording.signed_duration,
    )
    templates.globals.update(
        cause_looks=families.LOOKS,
        tiny_share=TINY_SHARE,
        worst_spikes=worst_spikes,
        drawings=drawings,
        overhead_in_words=cause_wording.overhead_in_words,
    )
    published = published_section(content.summary)
    hypervisor = hypervisor_section(content.summary, content.platforms)
    values: dict[str, Any] = {
        "content": content,
        "causes": causes,
        "periodic": periodic,
        "published": published,
        "manifest": content.manifest,
        "costs": [(scenario, cost_figure(content, scenario)) for scenario in content.scenarios],
        "draw_dots": draw_dots,
        "hypervisor": hypervisor,
        "held_back": held_back_sentences(content.summary.cells),
        "no_interval": no_interval_sentences(content.summary.cells),
        "nativeness": wording.describe_nativeness(content.manifest.host),
        "traits_of": traits_of,
        "held_back_alone": cause_wording.held_back_alone,
    }
    return Section(
        question="What does virtualization cost here?",
        links=tuple(_links(content, has_published=published is not None, has_hypervisor=hypervisor is not None)),
        navigation=rendered(templates, "navigation.html.jinja", values),
        body=rendered(templates, "sections.html.jinja", values),
        style=rendered(templates, "causes.css", values) + rendered(templates, "looks.css.jinja", values),
        script="\n".join(source(templates, f"{name}.js") for name in _SCRIPTS),
        embedded=_embedded(content),
        attachments=rendered(templates, "attachments.html.jinja", values),
        draws_figures=True,
        contents=(
            f"the shortest and the longest sample of each of at most {notation.count(content.buckets)} stretches of "
            f"every trial, the {content.worst_a_trial} longest samples of each exactly; all samples are in the run's "
            "Parquet files"
        ),
    )


def _links(content: ReportContent, *, has_published: bool, has_hypervisor: bool) -> Iterator[tuple[str, str]]:
    yield "answer", "Cost"
    if len(content.scenarios) == 1:
        yield from ((group.identity, group.title) for group in content.groups)
    elif content.groups:
        yield "figures", "Figures"
    yield "causes", "Whose fault"
    yield "summary", "Table"
    if has_published:
        yield "published", "Published"
    if has_hypervisor:
        yield "hypervisor", "Hypervisor"


def _embedded(content: ReportContent) -> dict[str, Any]:
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
