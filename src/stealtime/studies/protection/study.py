"""How the study is registered."""

from importlib import resources

from stealtime.report.catalogue.study import CatalogueStudy
from stealtime.report.study import late
from stealtime.studies.protection.probes import PROBES


class ProtectionStudy(CatalogueStudy):
    """What protection costs, and what a client sees when a host dies."""

    name = "protection"
    probes = PROBES
    folder = resources.files("stealtime.studies.protection")
    catalogue = late("catalogue:CATALOGUE")
    answer = late("answer:answer_of")
    host_line = late("stealtime.hosts.moments:line_of")
    marks = late("stealtime.hosts.moments:marks_of")
    figures = late("figures:ProtectionFigures")


STUDY = ProtectionStudy()
