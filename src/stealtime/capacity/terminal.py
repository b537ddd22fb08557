"""The verdicts as text: one paragraph for the host and for each guest."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from stealtime.capacity.document import AdviceDocument, SubjectDocument
from stealtime.capacity.judgement import Evidence
from stealtime.capacity.prediction.terminal import PredictionPage
from stealtime.capacity.rules import Verdict

STYLES: dict[Verdict, str] = {
    "over-provisioned host": "cyan",
    "efficiently provisioned": "green",
    "over-committed host": "bold red",
    "under-provisioned guest": "bold yellow",
    "not judged": "magenta",
}


class AdvicePage:
    """Renders the document of ``stealtime advise``."""

    def __init__(self, document: AdviceDocument) -> None:
        self._document = document

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        yield Text(f"watched for {document.elapsed_s:.0f} s, judged by {document.rules}\n", style="dim")
        for subject in (document.host, *document.guests):
            name = "host" if subject.kind == "host" else f"guest {subject.name} ({subject.kind}, pid {subject.pid})"
            yield Text.assemble((name, "bold"), ": ", (subject.verdict, STYLES[subject.verdict]))
            for line in _lines(subject):
                yield Padding(Text(line), (0, 0, 0, 2), expand=False)
            yield Text()
        if document.prediction is not None and document.guests:
            yield PredictionPage(document.prediction)
            yield Text()
        quoted = {one.rule.id: one.rule for one in (document.host, *document.guests) if one.rule is not None}
        for rule in quoted.values():
            yield Text(f"rule {rule.id} ({rule.date}): {rule.source}", style="dim")
        for note in document.notes:
            yield Text(note, style="dim")


def _lines(subject: SubjectDocument) -> Iterator[str]:
    if subject.rule is not None:
        if subject.verdict != "not judged":
            yield subject.rule.why
        for one in subject.evidence:
            yield describe(one, subject.of_guest)
        if subject.verdict == "not judged":
            yield f"not judged, because {subject.rule.why}"
        yield f"change: {subject.rule.change}"
        yield f"by the rule {subject.rule.id}"
    elif subject.verdict == "not judged":
        yield f"not judged, because {subject.because}"
    else:
        yield "no rule of another verdict holds:"
        yield from (describe(one) for one in _telling(subject.evidence))


def _telling(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Give each figure once, of those that decided."""
    seen: dict[str, Evidence] = {}
    for one in evidence:
        if one.holds is False:
            seen.setdefault(one.figure, one)
    return list(seen.values())


def describe(one: Evidence, of_guest: str | None = None) -> str:
    """Say what a figure was and what it was held against: ``vcpu wait of vCPU 0: 50 % (49 % to 51 %, n=9), above 9 %``.

    Args:
        one: The figure.
        of_guest: Whose it is, where that is not said already.
    """
    name, write = _unit_of(one.figure)
    part = " of ".join(filter(None, [one.part, of_guest]))
    named = f"{name} of {part}" if part else name
    if one.mean is None or one.low is None or one.high is None:
        return f"{named}: {one.undecided}"
    figure = f"{named}: {write(one.mean)} ({write(one.low)} to {write(one.high)}, n={one.samples})"
    if one.percent_of_samples is not None:
        share = f"{one.percent_of_samples:.0f} % of samples ({one.needed_percent_of_samples:g} % needed)"
        return f"{figure}, {one.relation} {write(one.limit)} in {share}"
    is_so = {True: one.relation, False: f"not {one.relation}", None: "undecided about"}[one.holds]
    return f"{figure}, {is_so} {write(one.limit)}"


def _unit_of(figure: str) -> tuple[str, Callable[[float], str]]:
    name, _, unit = figure.rpartition("_")
    if unit == "percent":
        return name.replace("_", " "), lambda value: f"{value:.3g} %"
    if unit == "ns":
        return name.replace("_", " "), duration
    return figure.replace("_", " "), lambda value: f"{value:.3g}"


def duration(figure_ns: float) -> str:
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(figure_ns) >= size_ns:
            return f"{figure_ns / size_ns:.3g} {unit}"
    return f"{figure_ns:.0f} ns"
