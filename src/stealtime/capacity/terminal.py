"""The verdicts as text: one paragraph for the host and for each guest."""

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from stealtime.capacity.document import AdviceDocument, EvidenceDocument, SubjectDocument
from stealtime.capacity.rules import Verdict

STYLES: dict[Verdict, str] = {
    "over-provisioned host": "cyan",
    "efficiently provisioned": "green",
    "over-committed host": "bold red",
    "under-provisioned guest": "bold yellow",
    "not judged": "magenta",
}
_UNITS = {"percent": "%", "ns": "ns", "cpus": "CPUs"}


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
            yield describe(one)
        if subject.verdict == "not judged":
            yield f"not judged, because {subject.rule.why}"
        yield f"change: {subject.rule.change}"
        yield f"by the rule {subject.rule.id}"
    elif subject.verdict == "not judged":
        yield f"not judged, because {subject.because}"
    else:
        yield "no rule of another verdict holds:"
        yield from (describe(one) for one in _telling(subject.evidence))


def _telling(evidence: Sequence[EvidenceDocument]) -> list[EvidenceDocument]:
    """Give each figure once, of those that decided."""
    seen: dict[str, EvidenceDocument] = {}
    for one in evidence:
        if one.holds is False:
            seen.setdefault(one.figure, one)
    return list(seen.values())


def describe(one: EvidenceDocument) -> str:
    """Say what a figure was, and what it was held against: ``wait of vCPU 0: 49.8 % (49.1 to 50.4), above 10 %``."""
    name, unit = split_unit(one.figure)
    named = name if one.part is None else f"{name} of {one.part}"
    if one.mean is None:
        return f"{named}: {one.undecided}"
    interval = "" if one.low is None or one.high is None else f" ({one.low:.4g} to {one.high:.4g}, n={one.samples})"
    limit = f"{one.limit:g}{unit}"
    if one.percent_of_samples is not None:
        relation = f"{one.relation} {limit} in {one.percent_of_samples:.0f} % of samples"
        return f"{named}: {one.mean:.4g}{unit}{interval}, {relation} ({one.needed_percent_of_samples:g} % needed)"
    is_so = {True: one.relation, False: f"not {one.relation}", None: "undecided about"}[one.holds]
    return f"{named}: {one.mean:.4g}{unit}{interval}, {is_so} {limit}"


def split_unit(figure: str) -> tuple[str, str]:
    """Take the unit out of a figure's name: ``vcpu_wait_percent`` is ``vcpu wait`` and `` %``."""
    name, _, unit = figure.rpartition("_")
    if unit in _UNITS:
        return name.replace("_", " "), f" {_UNITS[unit]}"
    return figure.replace("_", " "), ""
