"""In words: which samples the kernel's limit on real-time threads explains, and what that means for a reader."""

from collections.abc import Sequence

from stealtime.report import notation
from stealtime.report.plain_table import cell_title
from stealtime.studies.latency.analysis.model import CellSummary, HeldBack

_MEANS = {
    "RT throttling": "--lift-rt-throttling measures without it",
    "fair server": "keep ordinary threads off the measured CPU to measure without it",
}


def held_back_sentences(cells: Sequence[CellSummary]) -> list[str]:
    """Say of each platform what its own kernel's limit explains; nothing of those that it did not hold back."""
    by_platform: dict[tuple[str, str], list[CellSummary]] = {}
    for cell in cells:
        held_back = cell.held_back
        if held_back is not None and (held_back.count or held_back.unproven or held_back.is_in_rest):
            by_platform.setdefault((cell.platform, held_back.cause), []).append(cell)
    return [_sentence(platform, cause, own) for (platform, cause), own in by_platform.items()]


def cause_of(held_back: HeldBack) -> str:
    """Name a limit, what it does and whose it is."""
    period = notation.duration(held_back.period_ns, 3) if held_back.period_ns != 1e9 else "second"
    return (
        f"{held_back.cause} (a limit of this machine's own kernel: real-time threads stand still for up to "
        f"{notation.duration(held_back.pause_ns, 3)} of every {period})"
    )


def _sentence(platform: str, cause: str, cells: Sequence[CellSummary]) -> str:
    known = [(cell_title(cell.probe, cell.parameters), cell.held_back) for cell in cells if cell.held_back is not None]
    explained = [
        f"{one.count} of {title} (the longest {notation.duration(one.longest_ns, 3)})"
        for title, one in known
        if one.count
    ]
    unproven = [f"{one.unproven} of {title}" for title, one in known if one.unproven]
    unclear = [
        f"{notation.duration(one.rest_max_overhead_ns, 3)} of {title}"
        for title, one in known
        if one.is_in_rest and not one.unproven
    ]
    words = f"{platform}: {cause_of(known[0][1])}"
    if explained:
        words += f" explains samples: {', '.join(explained)}. They count for no maximum and no ratio"
    if unproven:
        words += f"{'. It' if explained else ''} explains none of those as long as its pauses: {', '.join(unproven)}. "
        words += f"They count, as {_why_unproven([one for _, one in known if one.unproven])}"
    if unclear:
        words += f"{'. It' if explained or unproven else ''} may be a part of {', '.join(unclear)}"
        words += ", which counts for no ratio"
    return f"{words}; {_MEANS[cause]}."


def _why_unproven(those: Sequence[HeldBack]) -> str:
    unseen = next((one.unseen for one in those if one.unseen is not None), None)
    if unseen is not None:
        return f"nothing tells who ran then ({unseen}; root may watch)"
    return "no ordinary thread was seen to run then, nor the CPU to idle"
