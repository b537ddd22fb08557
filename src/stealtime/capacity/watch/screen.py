"""The screen: the host's CPUs, the guests, who waits for whom, and the verdict on each."""

from collections.abc import Iterator, Sequence

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.terminal import STYLES, duration
from stealtime.capacity.use import Figure, GuestUse, Use, run_percent
from stealtime.capacity.watch.sparkline import sparkline
from stealtime.capacity.watch.state import Neighbours, Snapshot
from stealtime.vocabulary.readings import Absent

_LINES_BESIDES = 13
"""What headings and notes take of the screen."""
_FEWEST_ROWS = 3
_GUEST_BARS = 15


def render(snapshot: Snapshot, *, rows: int | None = None, notes: Sequence[str] = ()) -> RenderableType:
    """Draw the screen.

    Args:
        snapshot: What to show.
        rows: How many lines there are; None for as many as it takes.
        notes: Said at the bottom.
    """
    last = snapshot.uses[-1]
    left = None if rows is None else max(2 * _FEWEST_ROWS, rows - _LINES_BESIDES)
    cpu_rows = None if left is None else max(_FEWEST_ROWS, left // 3)
    guest_rows = None if left is None else left - min(cpu_rows or 0, _count(last))
    parts: list[RenderableType] = [_headline(snapshot), _cpus(snapshot.uses, cpu_rows), Text()]
    if last.guests:
        parts += [_guests(snapshot, guest_rows), Text()]
    parts += [Text(line, style="dim") for line in (*_neighbours(snapshot.neighbours), *_why(snapshot), *notes)]
    return Group(*parts)


def _headline(snapshot: Snapshot) -> Text:
    judgement = snapshot.host.judgement
    last = snapshot.uses[-1]
    pressures = [f"{name} {_percent(last.pressure_percent.get(name))}" for name in ("cpu", "memory", "io")]
    figures = f"memory available {_percent(last.memory_available_percent)}   pressure {', '.join(pressures)}"
    count = "1 guest" if len(last.guests) == 1 else f"{len(last.guests)} guests"
    return Text.assemble(
        ("host: ", "bold"),
        (judgement.verdict, STYLES[judgement.verdict]),
        (f"   {count}, judged by the last {len(snapshot.uses)} samples\n", "dim"),
        figures,
    )


def _cpus(uses: Sequence[Use], rows: int | None) -> RenderableType:
    last = uses[-1].cpus
    if isinstance(last, Absent):
        return Text(f"CPUs: {last.absent}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("CPU", "busy", "", "of it guests", "interrupts", "stolen by the host below"):
        table.add_column(name, justify="left" if name in ("", "CPU") else "right", no_wrap=True)
    busiest = sorted(last, key=lambda cpu: -_number(last[cpu].busy_percent))
    shown = sorted(busiest[:rows])
    for cpu in shown:
        one = last[cpu]
        history = [use.cpus[cpu].busy_percent for use in uses if not isinstance(use.cpus, Absent) and cpu in use.cpus]
        bars = sparkline([None if isinstance(value, Absent) else value for value in history])
        figures = (one.guest_percent, one.interrupts_percent, one.steal_percent)
        table.add_row(str(cpu), _percent(one.busy_percent), bars, *map(_percent, figures))
    if len(shown) < len(last):
        table.add_row(f"and {len(last) - len(shown)} less busy ones")
    return table


def _guests(snapshot: Snapshot, rows: int | None) -> RenderableType:
    last = snapshot.uses[-1]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("guest", "vCPU", "run", "wait", "", "wait per dispatch", "emulator", "I/O", "verdict"):
        justify: JustifyMethod = "left" if name in ("guest", "", "verdict") else "right"
        table.add_column(name, justify=justify, no_wrap=True)
    worst_first = sorted(last.guests.items(), key=lambda item: (-_worst_wait(item[1]), item[1].guest.name))
    lines = 0
    for shown, (key, use) in enumerate(worst_first):
        needed = max(len(use.vcpus), 1)
        if rows is not None and shown > 0 and lines + needed > rows:
            table.add_row(f"and {len(worst_first) - shown} that wait less")
            break
        lines += needed
        advice = snapshot.guests.get(key)
        verdict = Text("")
        if advice is not None:
            verdict = Text(advice.judgement.verdict, STYLES[advice.judgement.verdict])
        if use.unreadable is not None or not use.vcpus:
            table.add_row(use.guest.name, "?", "?", "?", "", "?", "?", "?", verdict)
            continue
        for number, vcpu in use.vcpus.items():
            first = number == next(iter(use.vcpus))
            table.add_row(
                use.guest.name if first else "",
                str(number),
                _percent(vcpu.run_percent),
                _percent(net_wait_percent(use, vcpu)),
                sparkline(_wait_history(snapshot.uses, key, number), width=_GUEST_BARS),
                "-" if isinstance(vcpu.wait_per_dispatch_ns, Absent) else duration(vcpu.wait_per_dispatch_ns),
                _percent(run_percent(use.emulator)) if first else "",
                _percent(run_percent(use.io)) if first else "",
                verdict if first else Text(),
            )
    return table


def _wait_history(uses: Sequence[Use], key: tuple[int, int], number: int) -> list[float | None]:
    seen = [use.guests.get(key) for use in uses]
    return [
        None
        if one is None or one.unreadable is not None or number not in one.vcpus
        else _known(net_wait_percent(one, one.vcpus[number]))
        for one in seen
    ]


def _neighbours(neighbours: Neighbours) -> Iterator[str]:
    if neighbours.absent is not None:
        yield f"neighbours: not known, because {neighbours.absent.absent}"
    for one in neighbours.blames[:5]:
        yield (
            f"{one.guest} vCPU {one.vcpu} waited {one.percent:.1f} % of the last traced {neighbours.window_s:.1f} s "
            f"for {one.neighbour}{'' if one.tid is None else f' ({one.tid})'}"
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
        if line not in said and len(said) < 4:
            said.add(line)
            yield f"{judgement.subject}: {line}"


def _count(use: Use) -> int:
    return 1 if isinstance(use.cpus, Absent) else len(use.cpus) + 1


def _worst_wait(use: GuestUse) -> float:
    return max((_number(net_wait_percent(use, one)) for one in use.vcpus.values()), default=0.0)


def _known(figure: Figure) -> float | None:
    return None if isinstance(figure, Absent) else figure


def _number(figure: Figure) -> float:
    return -1.0 if isinstance(figure, Absent) else figure


def _percent(figure: Figure | None) -> str:
    return "absent" if figure is None or isinstance(figure, Absent) else f"{figure:.1f} %"
