"""How the study is registered."""

from importlib import resources

from stealtime.report.study import ReportedStudy, late
from stealtime.studies.realtime.probes import RTLOAD


class RealTimeStudy(ReportedStudy):
    """Do periodic real-time tasks meet their deadlines in a virtual machine, and how late do they begin?"""

    name = "realtime"
    probes = (RTLOAD,)
    folder = resources.files("stealtime.studies.realtime")
    figures = late("analysis.model:RealTimeCell")
    summarize_cell = late("analysis.cell:summarize_cell")
    measurement = late("analysis.claimed:measurement")
    tail_series = late("analysis.tail_series:tail_series")
    judged_statements = late("analysis.overhead_source:judged_statements")
    measured_overheads = late("analysis.overhead_source:measured_overheads")
    compare_cells = late("analysis.compare:compare_cells")
    answer = late("answer:answer_of")
    tables = late("terminal:tables")
    overview = late("terminal:overview_of")
    marks = late("marks:marks_of")
    explanation = late("terminal:explanation")
    section = late("page.section:section_of")


STUDY = RealTimeStudy()
