"""What ``watch --once`` prints: the live screen as it stands, then who waited for whom, and what to change."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.capacity.watch import words
from stealtime.capacity.watch.rows import ORDERS, row_of
from stealtime.capacity.watch.state import Neighbours, Snapshot
from stealtime.vocabulary.readings import Absent
from stealtime.vocabulary.visible import in_one_line, visible

_WIDTH = 80
_MOST_BLAMES = 5
_MOST_REASONS = 4


def render(snapshot: Snapshot, *, notes: Sequence[str] = ()) -> RenderableType:
    """Draw it, for 80 columns, the worst guests first.

    Args:
        snapshot: What to show.
        notes: Said at the bottom.
    """
    parts: list[RenderableType] = [words.headline(snapshot), words.cpus(snapshot, _WIDTH), Text()]
    if snapshot.uses[-1].guests:
        parts += [_guests(snapshot), Text()]
    parts += [Text(line, style="dim") for line in (*_neighbours(snapshot.neighbours), *_why(snapshot), *notes)]
    return Group(*parts)


def _guests(snapshot: Snapshot) -> RenderableType:
    table = Table(box=None, padding=0, pad_edge=False, header_style="dim")
    for name, width in words.COLUMNS:
        is_left = name in ("guest", "verdict", "")
        table.add_column(Text(name), width=width, no_wrap=True, justify="left" if is_left else "right")
    rows = [row_of(key, use, snapshot) for key, use in snapshot.uses[-1].guests.items()]
    for row in sorted(rows, key=ORDERS["worst"]):
        table.add_row(*words.cells(row, snapshot))
    return table


def _neighbours(neighbours: Neighbours) -> Iterator[str]:
    if isinstance(neighbours.absent, Absent):
        yield f"neighbours: not known, because {visible(neighbours.absent.absent)}"
    for one in neighbours.blames[:_MOST_BLAMES]:
        yield (
            f"{in_one_line(one.guest)} vCPU {one.vcpu} waited {one.percent:.1f} % of the last traced "
            f"{neighbours.window_s:.1f} s for {in_one_line(one.neighbour)}{'' if one.tid is None else f' ({one.tid})'}"
        )


def _why(snapshot: Snapshot) -> Iterator[str]:
    """Say what to change, of the host and then of guests of which something else is to be said."""
    said: set[str] = set()
    for advice in (snapshot.host, *snapshot.guests.values()):
        judgement = advice.judgement
        if judgement.because is not None:
            line = f"not judged, because {judgement.because}"
        elif advice.change is not None and judgement.outcome is not None:
            line = f"{judgement.verdict}: {advice.change} (rule {judgement.outcome.rule.id})"
        else:
            continue
        if line not in said and len(said) < _MOST_REASONS:
            said.add(line)
            yield f"{in_one_line(judgement.subject)}: {visible(line)}"
