"""The page of a run that holds nothing but latencies."""

from stealtime.report.page.html import render
from stealtime.studies.latency.content.causes import Causes
from stealtime.studies.latency.content.report import ReportContent
from stealtime.studies.latency.page.section import Periodic, section


def latency_page(content: ReportContent, causes: Causes, periodic: Periodic) -> str:
    return render(content.manifest, content.trials, [section(content, causes, periodic)], content.limits)
