"""The verdicts as text: a summary, a paragraph for the host, and a line or a paragraph for each guest."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from stealtime.capacity.document import AdviceDocument, SubjectDocument
from stealtime.capacity.judgement import Evidence
from stealtime.capacity.prediction.terminal import PredictionPage
from stealtime.capacity.rules import Verdict
from stealtime.capacity.severity import counted
from stealtime.capacity.wording import unit_of
from stealtime.vocabulary.readings import Value
from stealtime.vocabulary.visible import in_one_line

STYLES: dict[Verdict, str] = {
    "over-provisioned host": "cyan",
    "efficiently provisioned": "green",
    "over-committed host": "bold red",
    "misplaced guests": "bold yellow",
    "under-provisioned guest": "bold yellow",
    "not judged": "magenta",
}
_INDENTED = 2


class AdvicePage:
    """Renders the document of ``stealtime advise``.

    Args:
        document: What is rendered.
        details: Whether each guest has its evidence and what to change, instead of one line.
    """

    def __init__(self, document: AdviceDocument, *, details: bool = False) -> None:
        self._document = document
        self._details = details

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        document = self._document
        host = document.host
        yield Text.assemble(
            (in_one_line(document.host_name or "this host"), "bold"),
            ": ",
            (host.verdict, STYLES[host.verdict]),
            f", {counted(one.verdict for one in document.guests)}",
        )
        yield Text(f"watched for {document.elapsed_s:.0f} s, judged by {document.rules}\n", style="dim")
        yield from _paragraph(host)
        yield Text()
        for guest in document.guests:
            if self._details:
                yield from _paragraph(guest)
                yield Text()
            else:
                yield from _hanging(_line(guest), console, options.max_width)
        if document.guests and not self._details:
            yield Text("\n--details tells the evidence of each, and what to change", style="dim")
        if document.prediction is not None and document.guests:
            yield Text()
            yield PredictionPage(document.prediction)
        subjects = (host, *document.guests) if self._details else (host,)
        quoted = {one.rule.id: one.rule for one in subjects if one.rule is not None}
        for rule in quoted.values():
            yield Text(f"rule {rule.id} ({rule.date}): {rule.source}", style="dim")
        for note in document.notes:
            yield Text(note, style="dim")


def _paragraph(subject: SubjectDocument) -> Iterator[RenderableType]:
    yield Text.assemble((_named(subject), "bold"), ": ", (subject.verdict, STYLES[subject.verdict]))
    for line in _lines(subject):
        yield Padding(Text(line), (0, 0, 0, 2), expand=False)


def _line(subject: SubjectDocument) -> Text:
    """Give a guest in one line: its verdict, and the figure or the reason that decided."""
    if subject.rule is None:
        decided = subject.because or ""
    elif subject.verdict == "under-provisioned guest":
        decided = subject.rule.change
    else:
        decided = describe(subject.evidence[0]) if subject.evidence else subject.rule.why
    line = Text.assemble((_named(subject), "bold"), ": ", (subject.verdict, STYLES[subject.verdict]))
    stretch = subject.figures.get("stretch")
    if isinstance(stretch, Value) and subject.verdict != "not judged":
        line.append(f", stretch {stretch.value:.2f}")
    if decided:
        line.append(f", {decided}")
    if subject.rule is not None and subject.rule.uncalibrated:
        line.append(" (a limit that is not calibrated)")
    return line


def _hanging(line: Text, console: Console, width: int) -> Iterator[Text]:
    """Give a line whole, as many lines as it takes; where it goes on, it is indented, so that names stand alone."""
    for number, part in enumerate(line.wrap(console, max(width - _INDENTED, 1))):
        part.rstrip()
        yield Text.assemble(" " * _INDENTED, part) if number else part


_UNCALIBRATED = ", whose limits are not calibrated: nobody has timed the work of guests at them"


def _named(subject: SubjectDocument) -> str:
    if subject.kind == "host":
        return "host"
    return f"guest {in_one_line(subject.name)} ({subject.kind}, pid {subject.pid})"


def _lines(subject: SubjectDocument) -> Iterator[str]:
    if subject.rule is not None:
        if subject.verdict != "not judged":
            yield subject.rule.why
        for one in subject.evidence:
            yield describe(one, subject.of_guest)
        if subject.verdict == "not judged":
            yield f"not judged, because {subject.rule.why}"
        yield f"change: {subject.rule.change}"
        yield f"by the rule {subject.rule.id}{_UNCALIBRATED if subject.rule.uncalibrated else ''}"
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
    name, write = unit_of(one.figure)
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
