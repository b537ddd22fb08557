"""Help texts on a narrow terminal: as wide as it is, with what an option does below its name.

The formatter of typer knows no terminal of less than 50 columns, which then breaks lines in the middle of words. It
sets what an option does beside its name, where a narrow terminal has room for a word or none.
"""

import shutil
from collections.abc import Sequence

import typer.core
from typer._click.formatting import HelpFormatter

_NARROW = 52
"""Columns: typer leaves two free, and its least is 50."""
_LEAST = 26
"""Narrower, and ``[OPTIONS]`` has no line."""
_BESIDE = 4
"""So long a name may be to have what it does beside it, on a narrow terminal."""


class NarrowHelp(HelpFormatter):
    """Formats help as typer does, and on a narrow terminal for that terminal."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns
        self._is_narrow = width is None and columns < _NARROW
        super().__init__(indent_increment, max(columns, _LEAST) - 2 if self._is_narrow else width, max_width)

    def write_dl(self, rows: Sequence[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write names and what they are."""
        super().write_dl(rows, _BESIDE if self._is_narrow else col_max, col_spacing)


def fit_help_to_the_terminal() -> None:
    """Have the help of every command formatted so: typer has no setting for it."""
    typer.core.TyperGroup.context_class.formatter_class = NarrowHelp
