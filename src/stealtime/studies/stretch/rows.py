"""The tables of a kind of work, with what is said below each: the same in the terminal and on the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from textwrap import fill

from stealtime.report import notation
from stealtime.report.plain_table import INVALID_MARK, TableOfWords
from stealtime.studies.stretch import wording
from stealtime.studies.stretch.analysis.lost import PARTS, shown_parts
from stealtime.studies.stretch.analysis.model import AlikeGuest, StretchCell

_NAMED = "platform, scenario"
_AGAINST = ("against native", "against itself alone")
_HEAD_WIDTH = 14
_GUEST_PARTS = {"cpu_wait": "waiting for a CPU", "quota": "its quota"}
"""The parts of lost seconds that are told of each guest, in percent of its elapsed time."""


@dataclass(frozen=True)
class Told:
    """A table, and what is to be known of it."""

    table: TableOfWords
    sentences: Sequence[str] = ()
    says_why_empty: bool = False
    """Whether the sentences are worth reading where the table has no row."""

    @property
    def is_shown(self) -> bool:
        return bool(self.table.rows) or (self.says_why_empty and bool(self.sentences))


class Work:
    """The cells of one kind of work.

    Attributes:
        title: The name of the work.
        cells: All of them.
        stretch: How many times as long it takes.
        guests: Each of the guests that did the same work together.
        lost: Where the seconds went that it took longer than natively.
        predictions: What models say, beside what was measured.
        provisioning: Whether host and machine had too many or too few CPUs.
    """

    def __init__(self, title: str, cells: Sequence[StretchCell]) -> None:
        self.title, self.cells = title, cells
        self.stretch = Told(
            _stretch_table(title, cells),
            [
                wording.bases_sentence(cells),
                *wording.not_judged_sentences(cells),
                *wording.invalid_sentences(cells),
            ],
        )
        self.guests = Told(_guests_table(cells), [wording.EACH_NOTE, *wording.priority_sentences(cells)])
        self.lost = Told(_lost_table(cells), [*wording.exits_sentences(cells), *wording.absent_sentences(cells)])
        self.predictions = Told(
            _prediction_table(cells), [*wording.open_queue_sentences(cells), *wording.one_more_sentences(cells)]
        )
        self.provisioning = Told(_provisioning_table(cells), wording.unjudged_sentences(cells), says_why_empty=True)


def works_of(cells: Sequence[StretchCell]) -> list[Work]:
    """Give the kinds of work of a run, in the order in which they were first done."""
    works: dict[str, list[StretchCell]] = {}
    for cell in cells:
        works.setdefault(wording.work_words(cell), []).append(cell)
    return [Work(title, own) for title, own in works.items()]


def _stretch_table(work: str, cells: Sequence[StretchCell]) -> TableOfWords:
    rows = [
        (
            cell.platform + ("" if cell.valid else f" {INVALID_MARK}"),
            cell.scenario,
            wording.guest_words(cell),
            wording.beside_words(cell),
            str(len(cell.repetitions)),
            _elapsed(cell),
            wording.against_words(cell.against_native)
            + (" (not alone)" if cell.company and cell.against_native else ""),
            wording.against_words(cell.against_alone),
            wording.iteration_words(cell.iterations),
        )
        for cell in cells
    ]
    heads = ("platform", "scenario", "machine", "beside it", "n", "elapsed", *_AGAINST)
    return TableOfWords(
        f"Stretch: how many times as long the same work takes ({work})",
        (*heads, "one iteration: median, 95 %, longest"),
        rows,
        named=4,
        invalid=tuple(number for number, cell in enumerate(cells) if not cell.valid),
        wide=1,
    )


def short_table(work: Work) -> TableOfWords:
    """Give what a screen has room for: the stretch, and what took most of the time that was lost."""
    rows = [
        (
            cell.title + ("" if cell.valid else f" {INVALID_MARK}"),
            str(len(cell.repetitions)),
            _elapsed(cell),
            wording.against_words(cell.against_native),
            wording.largest_part_words(cell),
        )
        for cell in work.cells
    ]
    heads = (_NAMED, "n", "elapsed", "against native", "most of the lost seconds")
    return TableOfWords(work.title, heads, rows)


def _elapsed(guest: StretchCell | AlikeGuest) -> str:
    return notation.duration(median(guest.elapsed_s) * 1e9) if guest.repetitions else notation.ABSENT


def _guests_table(cells: Sequence[StretchCell]) -> TableOfWords:
    rows = [
        (
            "" if number else cell.title,
            name,
            _elapsed(guest),
            wording.against_words(guest.against_native),
            wording.against_words(guest.against_alone),
            *(wording.part_words(guest, part) for part in _GUEST_PARTS),
            "" if number else wording.spread_words(cell),
        )
        for cell in cells
        for number, (name, guest) in enumerate(wording.named_guests(cell) if cell.alike else [])
    ]
    heads = (_NAMED, "guest", "elapsed", *_AGAINST, *_GUEST_PARTS.values(), "fastest to slowest")
    return TableOfWords("Each of the guests that did the same work together", heads, rows, named=2, whole=(0,))


def _lost_table(cells: Sequence[StretchCell]) -> TableOfWords:
    shown = shown_parts(cells)
    rows = []
    for cell in cells:
        if (one := cell.lost) is not None:
            values = [one.lost_s, *(one.parts_s.get(name) for name in shown), one.unexplained_s]
            words = (notation.ABSENT if value is None else f"{value:.3f} s" for value in values)
            rows.append((cell.title, *words))
    heads = (_NAMED, "longer by", *(fill(PARTS[name], _HEAD_WIDTH) for name in shown), "unexplained")
    return TableOfWords("Where the seconds went that it takes longer than natively", heads, rows, whole=(0,))


def _prediction_table(cells: Sequence[StretchCell]) -> TableOfWords:
    # Columns of models that hold nowhere would only be dashes; the sentence below says so.
    shown = [one.predicted for one in cells if one.predicted is not None and one.against_alone is not None]
    has_open = any(map(wording.suits_open_queues, shown))
    rows = [
        (
            cell.title,
            notation.ratio(alone.ratio),
            notation.ratio(one.shared),
            notation.ABSENT if one.residual is None else f"{100 * one.residual:+.1f} %",
            notation.ratio(one.entitled),
            notation.ratio(one.closed),
            notation.percent(one.utilization),
            notation.percent(one.all_busy),
            *(
                notation.ratio(ratio if wording.suits_open_queues(one) else None)
                for ratio in ((one.open_queue, one.erlang_c) if has_open else ())
            ),
        )
        for cell in cells
        if (one := cell.predicted) is not None and (alone := cell.against_alone) is not None
    ]
    models = ("shared", "residual", "entitled", "closed N v/m", "utilization", "all busy")
    title = "Stretch against itself alone, measured and predicted"
    heads = (_NAMED, "measured", *models, *(("1/(1-rho^m)", "M/M/m") if has_open else ()))
    return TableOfWords(title, heads, rows, whole=(0,))


def _provisioning_table(cells: Sequence[StretchCell]) -> TableOfWords:
    rows = [
        (cell.title, one.subject, wording.verdict_words(one), "; ".join(one.evidence))
        for cell in cells
        for one in cell.provisioning
        if not wording.had_no_chance(one)
    ]
    title = "Provisioning while the work was done, by the rules of `stealtime advise`"
    return TableOfWords(title, (_NAMED, "of the", "verdict", "by"), rows, named=4, whole=(0,))
