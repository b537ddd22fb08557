"""What a publication says in words, held against a run: each statement has a rule, which is the study's and is told.

A publication of words is one file in its study's folder ``published``: ``NAME.toml`` without figures beside it.
"""

import tomllib
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stealtime.report.cells.figures import Figures
from stealtime.report.studies import studies
from stealtime.vocabulary.errors import StealtimeError, UsageError

if TYPE_CHECKING:
    from stealtime.report.study import ReportedStudy
    from stealtime.store.run import Run

SCHEMA_VERSION = 1
"""Of :class:`StatementsComparison`; rises when an older reader could misunderstand a newer document."""

StatementVerdict = Literal["holds", "does not hold", "not judged"]
Words = Annotated[str, Field(min_length=1)]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PublishedStatement(_File):
    """One of them."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    """By which the study judges it."""
    words: Words


class PublishedStatements(_File):
    """``NAME.toml``."""

    name: str
    citation: Words
    licence: Words
    system: Words
    differences: list[str] = Field(default_factory=list)
    remarks: list[str] = Field(default_factory=list)
    statements: list[PublishedStatement] = Field(min_length=1)


class JudgedStatement(Figures):
    """One statement, of one of our machines."""

    machine: str
    name: str
    """Of the statement."""
    theirs: str
    """What they say."""
    rule: str
    """Ours, by which it holds."""
    verdict: StatementVerdict
    evidence: str
    """The figures, or why it is not judged."""


class StatementsComparison(Figures):
    """A run beside what others say: what ``compare RUN --published NAME --json`` prints of a publication of words."""

    schema_version: Literal[1] = 1
    run_id: str
    publication: str
    source: str
    system: str
    statements: tuple[JudgedStatement, ...]
    differences: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def is_judged(self) -> bool:
        return bool(self.statements) and all(one.verdict != "not judged" for one in self.statements)


def statement_names() -> list[str]:
    """List the publications that are of words."""
    return sorted(_studies())


def find_statements(name: str) -> PublishedStatements:
    """Read a publication of words.

    Raises:
        UsageError: There is none of that name.
        StealtimeError: The file that came with stealtime is damaged.
    """
    owners = _studies()
    if name not in owners:
        close = get_close_matches(name.lower(), owners, n=1)
        raise UsageError(
            f"there are no published statements named {name!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(owners))}",
        )
    folder = owners[name].published
    text = "" if folder is None else (folder / f"{name}.toml").read_text("utf-8")
    try:
        return PublishedStatements.model_validate({**tomllib.loads(text), "name": name})
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise StealtimeError(f"{name}.toml is damaged: {error}", hint="install stealtime anew") from error


def compare_with_statements(run: "Run", published: PublishedStatements) -> StatementsComparison:
    """Have the study judge each statement by a run."""
    words = {one.name: one.words for one in published.statements}
    found = _studies()[published.name].judged_statements(run, words)
    return StatementsComparison(
        run_id=run.run_id,
        publication=published.name,
        source=published.citation,
        system=published.system,
        statements=tuple(found),
        differences=tuple(published.differences),
        remarks=tuple(published.remarks),
    )


def _studies() -> "dict[str, ReportedStudy]":
    found = {}
    for study in studies():
        names = set() if study.published is None else {entry.name for entry in study.published.iterdir()}
        for name in names:
            stem = name.removesuffix(".toml")
            if name.endswith(".toml") and f"{stem}.csv" not in names:
                found[stem] = study
    return found
