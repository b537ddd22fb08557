"""What of a cell of this study is held against a threshold."""

from typing import Literal

from stealtime.report.catalogue.cell import CountedCell
from stealtime.report.cells.model import Bounded


class DeviceFigures(CountedCell):
    """A cell of this study."""

    study: Literal["devices"] = "devices"

    def bounded(self) -> Bounded:
        """Give the longest transfer."""
        if failed := self.count("failed"):
            return Bounded(None, endless=f"{failed} transfers failed")
        return Bounded(self.figure("max_ns").largest)
