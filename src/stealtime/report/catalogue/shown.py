"""What tables and page are made of beside the cells: the catalogue of a study, and the words and pictures it adds."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from stealtime.report.catalogue.model import Catalogue
from stealtime.report.page.section import Pictures
from stealtime.report.plain_table import TableOfWords


class ShownStudy(ABC):
    """A study by its catalogue. What it adds is loaded once that is asked for."""

    name: str

    @property
    @abstractmethod
    def catalogue(self) -> Catalogue:
        """What its figures are."""

    def names(self, cells: Sequence[Any]) -> tuple[str, list[str]]:
        """Name some cells, as rows of a table: by probe and parameters, and by the platform unless all have the same.

        Returns:
            The head of the column of names, and a name for each cell.
        """
        from stealtime.report.plain_table import cell_title

        platforms = {cell.platform for cell in cells}
        titles = [cell_title(cell.probe, cell.parameters) for cell in cells]
        if len(platforms) == 1:
            return platforms.pop(), titles
        return "", [f"{cell.platform} {title}" for cell, title in zip(cells, titles, strict=True)]

    def more_tables(self, _cells: Sequence[Any]) -> Sequence[TableOfWords]:
        """Give tables that stand on several cells at once, beside those that the catalogue declares."""
        return ()

    def notes(self, _cells: Sequence[Any]) -> Sequence[str]:
        """Say what a reader of its tables must know besides."""
        return ()

    def conclusions(self, _cells: Sequence[Any]) -> Sequence[str]:
        """Say what it makes of its tables; the page shows that by its pictures."""
        return ()

    def pictures(self, cells: Sequence[Any]) -> Pictures:
        """Draw what the page shows above the tables: what the catalogue declares."""
        from stealtime.report.catalogue.pictures import pictures_of

        return pictures_of(self.catalogue.pictures, cells)
