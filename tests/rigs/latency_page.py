"""The page of a run that holds nothing but latencies."""

from stealtime.report.page.html import render
from stealtime.store.run import Run
from stealtime.studies.latency.analysis.summary import summarize
from stealtime.studies.latency.attribution.cells import Causes
from stealtime.studies.latency.page.content import ReportContent
from stealtime.studies.latency.page.gather import gather
from stealtime.studies.latency.page.periodic import Periodic
from stealtime.studies.latency.page.section import section


def content_of(run: Run) -> ReportContent:
    return gather(run, summarize(run))


def latency_page(content: ReportContent, causes: Causes, periodic: Periodic) -> str:
    return render(content.manifest, content.trials, [section(content, causes, periodic)], content.limits)
