"""What takes a CPU from tasks and is charged by no overhead: with the size that was seen, or why none is known.

A verdict holds only where none of it comes, or less of it than the slack. That is said with every verdict.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from stealtime.schedulability.document import NotChargedDocument
from stealtime.schedulability.overhead_seen import Uncharged
from stealtime.schedulability.overheads import OverheadModel
from stealtime.schedulability.supply import Supply
from stealtime.schedulability.wording import duration

SHOWN = 8
"""In a terminal; the document has all."""


@dataclass(frozen=True)
class Circumstances:
    """What besides overheads an analysis was told of."""

    interrupts: Literal["here", "on another CPU"]
    supply: Supply
    charged: frozenset[str] = frozenset()
    """What was seen and is charged."""


def not_charged(model: OverheadModel, under: Circumstances) -> tuple[NotChargedDocument, ...]:
    """Name everything that a verdict does not cover, that which takes longest first."""
    seen = [one for one in model.uncharged or () if one.what not in under.charged]
    return (*seen_documents(seen), *_unknown(model, under))


def not_charged_lines(found: Iterable[NotChargedDocument]) -> Iterator[str]:
    """Say it in a terminal."""
    everything = list(found)
    sized = [one for one in everything if one.longest_ns is not None]
    yield from (f"not charged: {sized_words(one)}" for one in sized[:SHOWN])
    if len(sized) > SHOWN:
        yield f"not charged: {len(sized) - SHOWN} more of up to {duration(sized[SHOWN].longest_ns or 0)} (--json)"
    yield from (f"not charged: {one.what}: {one.because}" for one in everything if one.longest_ns is None)


def sized_words(one: NotChargedDocument) -> str:
    """Say how large something is that was seen."""
    share = 0.0 if one.share_percent is None else one.share_percent
    return f"{one.what}, seen {one.count:,} times, up to {duration(one.longest_ns or 0)}, {share:.3f} % of the CPU"


def seen_documents(seen: Iterable[Uncharged]) -> list[NotChargedDocument]:
    """Give what was seen, that which took longest first."""
    return [_seen(one) for one in sorted(seen, key=lambda one: -one.longest_ns)]


def _seen(one: Uncharged) -> NotChargedDocument:
    return NotChargedDocument(
        what=one.what,
        longest_ns=one.longest_ns,
        count=one.count,
        share_percent=one.share_ppm / 10_000,
        because=None,
    )


def _unknown(model: OverheadModel, under: Circumstances) -> Iterator[NotChargedDocument]:
    has_none = not model.points
    reasons: Mapping[str, str | None] = {
        "everything that a kernel takes": "no overheads were given" if has_none else None,
        "device interrupts, softirqs and real-time threads of others": None
        if has_none or model.uncharged is not None
        else f"{model.source} does not tell of them",
        "cache-related preemption delay": None
        if has_none or "cache_preemption" in model.points
        else "not measured; 0 is charged",
        "inter-processor interrupts": "not measured; 0 is charged, though timers are handled elsewhere"
        if under.interrupts == "on another CPU" and "inter_processor_interrupt" not in model.points
        else None,
        "RT throttling and the fair server": None
        if under.supply.has_kernel_limits
        else "not asked for; --host here charges what this kernel may take of real-time threads",
        "what a hypervisor takes": "a dedicated CPU is assumed; --supply says what a guest gets"
        if under.supply.kind == "dedicated" and _is_guest(model)
        else None,
    }
    for what, because in reasons.items():
        if because is not None:
            yield NotChargedDocument(what=what, longest_ns=None, count=None, share_percent=None, because=because)


def _is_guest(model: OverheadModel) -> bool:
    return model.provenance is not None and not model.provenance.machine.startswith("native")
