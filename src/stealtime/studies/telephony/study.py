"""How the study of telephony is registered. What it computes and draws is loaded once that is asked for."""

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from stealtime.report.catalogue.study import CatalogueStudy
from stealtime.studies.telephony.catalogue import CATALOGUE
from stealtime.studies.telephony.probes import PROBES

if TYPE_CHECKING:
    from stealtime.report.page.section import Pictures
    from stealtime.studies.telephony.figures import TelephonyFigures


class TelephonyStudy(CatalogueStudy):
    """What a SIP server carries and costs, and what phones see when its host dies."""

    name = "telephony"
    probes = PROBES
    folder = resources.files("stealtime.studies.telephony")
    catalogue = CATALOGUE

    @property
    def figures(self) -> "type[TelephonyFigures]":
        """With response times, failovers over time and calls."""
        from stealtime.studies.telephony.figures import TelephonyFigures

        return TelephonyFigures

    def names(self, cells: "Sequence[TelephonyFigures]") -> tuple[str, list[str]]:
        """Name cells by where the server runs, how phones reach it, and the load."""
        from stealtime.studies.telephony.wording import cell_words

        return "", [cell_words(cell) for cell in cells]

    def notes(self, cells: "Sequence[TelephonyFigures]") -> Sequence[str]:
        """Say what transports, loads, CPU times and modes are."""
        from stealtime.studies.telephony.wording import notes

        return notes(cells)

    def conclusions(self, cells: "Sequence[TelephonyFigures]") -> Sequence[str]:
        """Say what the loads of calls speak for."""
        from stealtime.studies.telephony.calls.shown import recommendation_lines
        from stealtime.studies.telephony.wording import recommendations

        return recommendation_lines(recommendations(cells))

    def pictures(self, cells: "Sequence[TelephonyFigures]") -> "Pictures":
        """Draw box plots, curves and time lines."""
        from stealtime.studies.telephony.page.pictures import pictures

        return pictures(cells)


STUDY = TelephonyStudy()
