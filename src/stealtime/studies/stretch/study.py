"""How the study is registered."""

from importlib import resources

from stealtime.report.study import ReportedStudy, late
from stealtime.studies.stretch.probes import CONTEND


class StretchStudy(ReportedStudy):
    """How much longer work takes in a virtual machine, where the time goes, and what one more machine would cost."""

    name = "stretch"
    probes = (CONTEND,)
    folder = resources.files("stealtime.studies.stretch")
    figures = late("analysis.model:StretchCell")
    summarize_cell = late("analysis.cell:summarize_cell")
    relate = late("analysis.relate:relate")
    measurement = late("analysis.claimed:measurement")
    compare_cells = late("analysis.compare:compare_cells")
    answer = late("answer:answer_of")
    tables = late("terminal:tables")
    overview = late("terminal:overview_of")
    section = late("page.section:section_of")


STUDY = StretchStudy()
