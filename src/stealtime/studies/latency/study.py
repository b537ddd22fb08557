"""How the study is registered."""

from importlib import resources

from stealtime.report.study import ReportedStudy, late
from stealtime.studies.latency.probes.catalogue import PROBES


class LatencyStudy(ReportedStudy):
    """How much longer anything takes in a virtual machine than natively, and whose fault that is."""

    name = "latency"
    probes = tuple(PROBES.values())
    folder = resources.files("stealtime.studies.latency")
    figures = late("analysis.model:CellSummary")
    unusable = late("analysis.clock_rates:unusable")
    summarize_cell = late("analysis.summary:summarize_cell")
    measurement = late("analysis.claimed:measurement")
    periods = late("analysis.claimed:periods")
    tail_series = late("analysis.tail_series:tail_series")
    observed_services = late("analysis.supply:observed_services")
    compare_cells = late("analysis.compare:compare_cells")
    answer = late("answer:answer_of")
    tables = late("terminal.summary:tables")
    overview = late("terminal.overview:overview")
    moment = late("attribution.moment:moment_of")
    intervals = late("analysis.tail:intervals_of")
    marks = late("marks:marks_of")
    explanation = late("terminal.causes:explanation")
    section = late("page.section:section_of")


STUDY = LatencyStudy()
