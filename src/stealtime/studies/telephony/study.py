"""How the study is registered."""

from importlib import resources

from stealtime.report.catalogue.study import CatalogueStudy
from stealtime.report.study import late
from stealtime.studies.telephony.probes import PROBES


class TelephonyStudy(CatalogueStudy):
    """What a SIP server carries and costs, and what phones see when its host dies."""

    name = "telephony"
    probes = PROBES
    folder = resources.files("stealtime.studies.telephony")
    catalogue = late("catalogue:CATALOGUE")
    answer = late("answer:answer_of")
    figures = late("figures:TelephonyFigures")
    relate = late("analysis:relate")
    names = late("wording:names")
    notes = late("wording:notes")
    more_tables = late("rows:tables")
    conclusions = late("rows:conclusions")
    pictures = late("page.pictures:pictures")


STUDY = TelephonyStudy()
