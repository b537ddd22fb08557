"""What is said of stretch, in the tables of the terminal and on the page."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean

from pydantic import JsonValue

from stealtime.capacity.judgement import NO_GUEST
from stealtime.capacity.rules import load_rules
from stealtime.report import notation
from stealtime.studies.stretch.analysis.lost import PARTS
from stealtime.studies.stretch.analysis.model import (
    AlikeGuest,
    Guest,
    IterationTimes,
    Predicted,
    Provisioning,
    Stretch,
    StretchCell,
)
from stealtime.vocabulary.quantities import approximate_size, format_duration

_OPEN_QUEUES_BELOW = 0.9
"""From here on 1/(1-rho^m) doubles where the utilization is 5 % off, as ours may be."""

EACH_NOTE = (
    "They started together. Who ends first leaves CPUs to the others, so guests with less right are stretched less "
    "than they would be by guests that go on."
)
"""What is to be known of the times of each guest."""


def work_words(cell: StretchCell) -> str:
    """Name the work: ``contend, 8 tasks of 30 iterations, lock 50 %``; of the rest only what is unusual."""
    parameters = dict(cell.parameters)
    tasks = parameters.pop("tasks", None)
    amount = f"{tasks} task{'' if tasks == 1 else 's'} of {parameters.pop('iterations', None)} iterations"
    return ", ".join([cell.probe, amount, *(_parameter_words(*one) for one in sorted(parameters.items()))])


def _parameter_words(name: str, value: JsonValue) -> str:
    *words, unit = name.split("_")
    match unit, value:
        case "ns", 0:
            return f"no {words[0]}"
        case "ns", int():
            return f"{' '.join(words)} {format_duration(value)}"
        case "percent", int():
            return f"{' '.join(words)} {value} %"
        case "bytes", int():
            return f"{' '.join(words)} {approximate_size(value)}"
    return f"{name.replace('_', ' ')} {value}"


def against_words(one: Stretch | None) -> str:
    """Give the ratio with its interval: ``2.01x (1.98 to 2.04)``; a dash where there is none, or no base.

    Without an interval it is not judged: :func:`not_judged_sentences` says so once.
    """
    if one is None or one.ratio is None:
        return notation.ABSENT
    if one.low is None or one.high is None:
        return notation.ratio(one.ratio)
    low, high = (notation.ratio(end).rstrip("\N{MULTIPLICATION SIGN}") for end in (one.low, one.high))
    return f"{notation.ratio(one.ratio)} ({low} to {high})"


def largest_part_words(cell: StretchCell) -> str:
    """Give what took most of the seconds that were lost, and its share of them; a dash where none were."""
    if cell.lost is None or cell.lost.lost_s <= 0:
        return notation.ABSENT
    name, part_s = max(cell.lost.parts_s.items(), key=lambda part: part[1])
    return f"{PARTS[name]}, {notation.percent(part_s / cell.lost.lost_s)}" if part_s > 0 else "unexplained"


def iteration_words(times: IterationTimes | None) -> str:
    """Give the median, the 95th percentile and the longest of single iterations."""
    if times is None:
        return notation.ABSENT
    return ", ".join(notation.duration(each_ms * 1e6) for each_ms in (times.p50_ms, times.p95_ms, times.max_ms))


def guest_words(cell: StretchCell) -> str:
    """Say what the machine has: ``1 vCPU on 2 CPUs, weight 300``."""
    cpus = "CPU" if cell.is_native else "vCPU"
    words = notation.number_of(cell.vcpus, cpus)
    if not cell.is_native:
        words += f" on {notation.number_of(cell.own_cpus, 'CPU')}"
    return ", ".join([words, *_share_words(cell.itself)])


def beside_words(cell: StretchCell) -> str:
    """Say who computes beside it: ``3 like it, weight 100 each``; others are busy all the time."""
    groups = [(one, len(list(same))) for one, same in groupby(cell.beside)]
    words = [
        ", ".join(
            [
                f"{count} {'like it' if one.is_alike else 'busy'}",
                *(words + (" each" if count > 1 else "") for words in _share_words(one)),
            ]
        )
        for one, count in groups
    ]
    if cell.not_alone is not None:
        words.append("other programs")
    return "; ".join(words) or "nothing"


def named_guests(cell: StretchCell) -> list[tuple[str, StretchCell | AlikeGuest]]:
    """Name the machine and its neighbours that did the same, each with what it may have: ``itself, weight 300``."""
    own = (", ".join(["itself", *_share_words(cell.itself)]), cell)
    return [own, *((", ".join([one.name, *_share_words(one.guest)]), one) for one in cell.alike)]


def part_words(guest: StretchCell | AlikeGuest, part: str) -> str:
    """Give how much of a guest's elapsed time a part of the lost seconds is; none where native lost more of it."""
    if guest.lost is None:
        return notation.ABSENT
    return notation.percent(max(0.0, guest.lost.parts_s[part] / guest.lost.elapsed_s))


def spread_words(cell: StretchCell) -> str:
    """Give the fastest and the slowest of guests that did the same: ``4 guests: 2.01x to 2.10x``."""
    guests = [cell.against_native, *(one.against_native for one in cell.alike)]
    known = [one.ratio for one in guests if one is not None and one.ratio is not None]
    if not known:
        return notation.ABSENT
    return f"{1 + len(cell.alike)} guests: {notation.ratio(min(known))} to {notation.ratio(max(known))}"


def priority_sentences(cells: Sequence[StretchCell]) -> list[str]:
    """Say whether weights and quotas protect the favoured guests."""
    sentences = []
    for cell in cells:
        one = cell.priority
        if one is None:
            continue
        sentences.append(
            f"{cell.title}: {_protection(one.favoured)}: the {_guests(one.favoured_guests, 'favoured guest')} took "
            f"{against_words(one.favoured)} as long as in {one.favoured.base}, the "
            f"{_guests(one.other_guests, 'other')} {against_words(one.others)}."
        )
    return sentences


def _protection(favoured: Stretch) -> str:
    if favoured.low is None or favoured.high is None:
        return f"not judged whether the priority protects, because {favoured.because}"
    if favoured.high < 1.0:
        return "the priority protects"
    return "the priority harms" if favoured.low > 1.0 else "no protection shown"


def _guests(count: int, what: str) -> str:
    return what if count == 1 else f"{count} {what}s"


def bases_sentence(cells: Sequence[StretchCell]) -> str:
    """Say what native is."""
    bases = _unique(cell.against_native.base for cell in cells if cell.against_native is not None)
    if not bases:
        return "Nothing was measured natively and alone, so there is no stretch against native."
    return f"Native is {' and '.join(bases)}. In brackets: the interval of 95 %, from repetitions that took turns."


def not_judged_sentences(cells: Sequence[StretchCell]) -> list[str]:
    """Say why ratios have no interval."""
    predicted = [cell.predicted.because for cell in cells if cell.predicted is not None]
    found = [one for cell in cells for one in (cell.against_native, cell.against_alone) if one is not None]
    reasons = _unique(because for because in (*(one.because for one in found), *predicted) if because is not None)
    return [f"Not judged, and without an interval: {because}." for because in reasons]


def suits_open_queues(predicted: Predicted) -> bool:
    """Tell whether open queues say anything: near a utilization of 1 they grow without limit.

    Work that all guests begin together and that ends is a closed load, and does not.
    """
    return predicted.utilization < _OPEN_QUEUES_BELOW


def open_queue_sentences(cells: Sequence[StretchCell]) -> list[str]:
    """Say where open queues are left out."""
    left_out = [cell for cell in cells if cell.predicted is not None and not suits_open_queues(cell.predicted)]
    if not left_out:
        return []
    return [
        "1/(1-rho^m) and M/M/m are of open queues, which do not hold above a utilization of "
        f"{100 * _OPEN_QUEUES_BELOW:.0f} %: these guests wait for work of their own to end."
    ]


def invalid_sentences(cells: Sequence[StretchCell]) -> list[str]:
    return [f"! {cell.title}: {'; '.join(cell.reasons)}" for cell in cells if not cell.valid]


def absent_sentences(cells: Sequence[StretchCell]) -> list[str]:
    """Say which parts of lost seconds were not told and why, each reason once with the machines that it holds for."""
    machines: dict[str, list[str]] = {}
    lost = [(cell, cell.lost) for cell in cells if cell.lost is not None]
    for cell, one in lost:
        for text in one.absent:
            machines.setdefault(text, []).append(cell.title)
    return [
        f"Not told{'' if len(titles) == len(lost) else f' of {_listed(titles)}'}: {text}."
        for text, titles in machines.items()
    ]


def exits_sentences(cells: Sequence[StretchCell]) -> list[str]:
    """Say how often virtual CPUs left their guest, where the hypervisor counted that."""
    sentences = []
    for cell in cells:
        counts = [one.exits for one in cell.repetitions if one.exits is not None]
        if counts:
            sentences.append(
                f"{cell.title}: its virtual CPUs left the guest {notation.count(round(fmean(counts)))} times "
                f"(mean of {len(counts)}), {fmean(counts) / fmean(cell.elapsed_s):.0f} a second."
            )
    return sentences


def verdict_words(one: Provisioning) -> str:
    return one.verdict if one.because is None else f"{one.verdict}, because {one.because}"


def had_no_chance(one: Provisioning) -> bool:
    """Tell whether nothing could have been judged: natively, where there is no guest, and where the work was short."""
    return one.verdict == "not judged" and (one.because == NO_GUEST or one.samples < load_rules().minimum_samples)


def unjudged_sentences(cells: Sequence[StretchCell]) -> list[str]:
    """Say once for each reason of what nothing could be judged."""
    of: dict[str, list[str]] = {}
    for cell in cells:
        for one in cell.provisioning:
            if had_no_chance(one):
                of.setdefault(one.because or "", []).append(f"{cell.title} ({one.subject})")
    return [f"not judged, because {because}: {', '.join(subjects)}" for because, subjects in of.items()]


def one_more_sentences(cells: Sequence[StretchCell]) -> list[str]:
    sentences = []
    for cell in cells:
        one = cell.predicted
        if one is None or one.one_more is None or one.one_more_low is None or one.one_more_high is None:
            continue
        more = "one more such neighbour" if cell.beside else "one busy guest of the same size"
        low, high = notation.ratio(one.one_more_low), notation.ratio(one.one_more_high)
        sentences.append(
            f"{cell.title}: beside {more} the stretch against native is predicted to be "
            f"{notation.ratio(one.one_more)}, interval {low} to {high}."
        )
    return sentences


def _share_words(guest: Guest) -> list[str]:
    words = [] if guest.quota_percent is None else [f"at most {guest.quota_percent:g} % of a CPU"]
    return words if guest.weight is None else [*words, f"weight {guest.weight}"]


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
