"""The answer of each study: one sentence before everything else, whose figures are those of tables and document."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
import stretch_cells
from pydantic import ValidationError

from stealtime.report.answer import LINES_MAX, Answer, QuotedFigure, Quotes
from stealtime.report.answers import with_answers
from stealtime.report.cells.model import CellFigures
from stealtime.report.summary import RunSummary
from stealtime.studies.stretch.rows import works_of

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def summary_of(cells: Sequence[CellFigures], **changes: Any) -> RunSummary:
    values: dict[str, Any] = {"run_id": "r", "created_at": datetime.now(UTC), "campaign": "mine", "host": {}}
    return with_answers(RunSummary(**{**values, **changes}, cells=list(cells)))


def answer_of(cells: Sequence[CellFigures], **changes: Any) -> Answer:
    (answer,) = summary_of(cells, **changes).answers
    return answer


def cell_of(document: dict[str, Any], one: QuotedFigure) -> dict[str, Any]:
    """Give the cell of a document of a run that a figure is quoted of."""
    names = ("platform", "scenario", "probe", "parameters", "traced")
    (cell,) = [cell for cell in document["cells"] if all(cell[name] == getattr(one, name) for name in names)]
    return dict(cell)


def at(cell: dict[str, Any], path: str) -> Any:
    """Follow the name of a figure into a cell; lists of figures go by their names."""
    found: Any = cell
    for name in path.split("."):
        found = next(one for one in found if one["name"] == name) if isinstance(found, list) else found[name]
    return found


def unquoted(answer: Answer, known: str) -> list[str]:
    """Give the numbers of the sentence and its lines that are neither quoted nor stand in what is known."""
    lines = [line for line in (answer.sentence, *answer.lines) if line not in known]
    text = "\n".join(lines)
    for one in answer.figures:
        for end in (one.words, *(NUMBER.findall(one.words))):
            text = text.replace(end, "")
    return [number for number in NUMBER.findall(text) if number not in known]


def test_an_answer_is_trusted_if_and_only_if_nothing_speaks_against_it() -> None:
    sure = Answer.of("echo", "nobody lost anything", quotes=Quotes(), hint="do nothing")
    assert (sure.trusted, sure.hint, sure.told) == (True, None, "nobody lost anything; may be trusted.")
    unsure = Answer.of("echo", "all is lost", quotes=Quotes(), because=["it was dark", "late"], hint="light a lamp")
    assert unsure.told == "all is lost; not to be trusted, because it was dark (and 1 more)."
    assert (unsure.trusted, unsure.hint) == (False, "light a lamp")
    with pytest.raises(ValidationError, match="nothing speaks against it"):
        Answer(study="echo", sentence="s", is_judged=True, trusted=True, because=["no"])
    nothing = Answer.not_judged("echo", ["nobody called"], "call")
    assert nothing.told == "not judged, because nobody called."


def test_no_more_than_five_lines_stand_below_the_sentence() -> None:
    quotes = Quotes()
    (cell,) = stretch_cells.related()[:1]
    lines = [quotes.figure(cell, "n", number, f"line {number}") for number in range(9)]
    answer = Answer.of("echo", "s", quotes=quotes, lines=lines)
    assert answer.lines == ["line 0", "line 1", "line 2", "line 3", "5 more: see the tables"]
    assert len(answer.lines) == LINES_MAX
    assert [one.words for one in answer.figures] == lines[:4], "what is left out is quoted nowhere"


def test_stretch_answers_with_the_most_stretched_machine_and_where_its_seconds_went() -> None:
    summary = summary_of(stretch_cells.provisioned())
    (answer,) = summary.answers
    assert answer.trusted, answer.because
    assert answer.sentence == (
        "uml overcommitted, beside 3 busy: the same work takes 4.17 times as long (4.11 to 4.23) as native whole; "
        "65.8 % of the lost seconds are waiting for a CPU of the host"
    )
    document = summary.model_dump(mode="json")
    for one in answer.figures:
        cell = cell_of(document, one)
        if one.name.startswith("lost_percent."):
            part = cell["lost"]["parts_s"][one.name.removeprefix("lost_percent.")]
            lost_s = cell["lost"]["elapsed_s"] - cell["lost"]["base_elapsed_s"]
            assert one.value == pytest.approx(100.0 * part / lost_s)
            assert one.words == f"{one.value:.1f} %"
            continue
        against = cell[one.name.partition(".")[0]]
        assert (one.value, one.low, one.high) == (against["ratio"], against["low"], against["high"])
    works = works_of(stretch_cells.provisioned())
    tables = [told for work in works for told in (work.stretch, work.predictions, work.provisioning)]
    shown = "\n".join(part for told in tables for row in (*told.table.rows, told.sentences) for part in row)
    assert unquoted(answer, shown) == []
    for one in answer.figures:
        if one.low is not None:
            number = NUMBER.findall(one.words)[0]
            assert f"{number}\N{MULTIPLICATION SIGN} (" in shown, "the table has the same words"


def test_stretch_says_when_nothing_is_shown_and_when_nothing_can_be_said() -> None:
    cell, relate = stretch_cells.cell, stretch_cells.relate
    base = cell("native", "whole", [0.5, 0.51, 0.5, 0.505], vcpus=1)
    same = answer_of(relate([base, cell("uml", "whole", [0.5, 0.51, 0.505, 0.5])]))
    assert same.sentence.endswith("as native whole, so no stretch is shown")
    once = answer_of(relate([cell("native", "whole", [0.5]), cell("uml", "whole", [1.0])]))
    assert (once.trusted, once.because) == (False, ["one side has 1 valid repetition, 4 are needed"])
    assert "2.00 times as long (no interval)" in once.sentence
    assert once.hint == "stealtime run mine --repetitions 4"
    lonely = answer_of(relate([cell("uml", "whole", [1.0] * 4)]))
    assert not lonely.is_judged
    assert lonely.told == "not judged, because one machine was measured."
    assert "-P native" in str(lonely.hint)
    broken = cell("uml", "whole", [1.0] * 4).model_copy(update={"valid": False, "reasons": ["its clock stood still"]})
    assert "its clock stood still" in answer_of(relate([base, broken])).told


def test_a_run_that_misses_trials_is_not_trusted() -> None:
    answer = answer_of(stretch_cells.provisioned(), state="interrupted", missing_trials=3)
    assert answer.because == ["3 planned trials were not measured"]
    assert answer.hint == "measure what is missing: stealtime run --resume r"
