"""What a study answers of a run: its verdict in one plain sentence, whether that may be trusted, and a few lines more.

Terminal and page show it before everything else, ``show --json`` has it as ``answers``. A study has the figures from
its rows or its catalogue and quotes them by :class:`Quotes`: each stands in the document beside the words that were
made of it, so that a test can hold the words against the tables.
"""

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from stealtime.report import notation
from stealtime.report.cells.figures import Figures, NamedCell

LINES_MAX = 5
"""More would be a table, and that stands below."""


class QuotedFigure(NamedCell):
    """A figure that an answer quotes, and the cell that it is of."""

    traced: bool
    name: str
    """As the study calls it, with its unit."""
    value: float
    low: float | None = None
    """Of its 95 % interval; None where that is not judged, or not quoted."""
    high: float | None = None
    words: str
    """What the sentence or a line makes of it."""


class Answer(Figures):
    """What a study says of its cells of a run."""

    study: str
    sentence: str
    """Who lost what, against what, with the interval; or that it is not judged. Without a full stop."""
    is_judged: bool
    """Whether anything is said of the machines; else the sentence says why not."""
    trusted: bool
    """Whether what is said may be relied on."""
    because: list[str]
    """Why not; nothing if and only if it may."""
    hint: str | None = None
    """What to do about that."""
    lines: list[str] = Field(default_factory=list, max_length=LINES_MAX)
    """What to know besides, the weightiest first."""
    figures: list[QuotedFigure] = Field(default_factory=list)
    """All that sentence and lines quote, in their order."""

    @model_validator(mode="after")
    def _trusted_without_reasons(self) -> Self:
        if self.trusted is bool(self.because):
            raise ValueError("an answer may be trusted if and only if nothing speaks against it")
        return self

    @classmethod
    def of(
        cls,
        study: str,
        sentence: str,
        *,
        quotes: "Quotes",
        because: Sequence[str] = (),
        hint: str | None = None,
        lines: Sequence[str] = (),
    ) -> Self:
        """Answer; of more lines than there is room for, the last is how many are left.

        Args:
            study: Its name.
            sentence: See :attr:`sentence`.
            quotes: That quoted all figures, of the lines that are left out as well.
            because: Why it may not be trusted.
            hint: What to do about that.
            lines: The weightiest first.
        """
        shown = list(lines)
        if len(shown) > LINES_MAX:
            shown = [*shown[: LINES_MAX - 1], f"{len(shown) - LINES_MAX + 1} more: see the tables"]
        told = "\n".join([sentence, *shown])
        return cls(
            study=study,
            sentence=sentence,
            is_judged=True,
            trusted=not because,
            because=list(because),
            hint=hint if because else None,
            lines=shown,
            figures=[one for one in quotes.figures if one.words in told],
        )

    @classmethod
    def not_judged(cls, study: str, because: Sequence[str], hint: str, lines: Sequence[str] = ()) -> Self:
        """Say that nothing can be said, why, and what to do."""
        return cls(
            study=study,
            sentence=f"not judged, because {because[0]}",
            is_judged=False,
            trusted=False,
            because=list(because),
            hint=hint,
            lines=list(lines)[:LINES_MAX],
        )

    @property
    def trust(self) -> str:
        """Say whether it may be trusted, and why not."""
        if self.trusted:
            return "may be trusted"
        more = f" (and {len(self.because) - 1} more)" if len(self.because) > 1 else ""
        return f"not to be trusted, because {self.because[0]}{more}"

    @property
    def told(self) -> str:
        """The whole sentence, with its full stop."""
        return f"{self.sentence}; {self.trust}." if self.is_judged else f"{self.sentence}."


class Quotes:
    """Takes down each figure that an answer quotes, where its words are made.

    Attributes:
        figures: Those that were taken down, in their order.
    """

    def __init__(self) -> None:
        self.figures: list[QuotedFigure] = []

    def figure(
        self, cell: Any, name: str, value: float, words: str, low: float | None = None, high: float | None = None
    ) -> str:
        """Quote a figure of a cell; gives the words."""
        self.figures.append(
            QuotedFigure(
                **NamedCell.naming(cell), traced=cell.traced, name=name, value=value, low=low, high=high, words=words
            )
        )
        return words


def times(value: float) -> str:
    """Write how many times something is in plain words: ``1.17 times``."""
    return f"{bare_ratio(value)} times"


def bare_ratio(value: float) -> str:
    """Write a ratio as the tables do, without its sign: for the ends of an interval."""
    return notation.ratio(value).removesuffix("\N{MULTIPLICATION SIGN}")


def listed(words: Sequence[str]) -> str:
    """Put words into a row: ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
