"""How the study is registered."""

from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING

from stealtime.report.catalogue.study import CatalogueStudy
from stealtime.report.study import late
from stealtime.studies.devices.probes.disk import DISK

if TYPE_CHECKING:
    from stealtime.report.catalogue.cell import CatalogueCell
    from stealtime.store.run import Trial


class DevicesStudy(CatalogueStudy):
    """What emulated and paravirtual devices cost, split on the way from the guest to the disk and back."""

    name = "devices"
    probes = (DISK,)
    folder = resources.files("stealtime.studies.devices")
    catalogue = late("catalogue:CATALOGUE")
    answer = late("answer:answer_of")
    figures = late("figures:DeviceFigures")
    pictures = late("page.pictures:pictures")
    names = late("rows:names")
    more_tables = late("rows:more_tables")
    judged_statements = late("analysis.statements:judged_statements")

    def summarize_cell(self, trials: "Sequence[Trial]") -> "CatalogueCell":
        from stealtime.report.catalogue.cell import summarize_cell
        from stealtime.studies.devices.analysis.measured import measured

        return summarize_cell(self.name, self.catalogue, self.figures, trials, measure=measured)


STUDY = DevicesStudy()
