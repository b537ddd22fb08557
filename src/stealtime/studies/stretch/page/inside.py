"""What a machine told of itself over time, as shapes: a panel each for what M. Friedman's figures show. Pure.

A panel has axes of its own. Its lines have no marks, as there would be thousands: what each is in the mean and at most
is said beside its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stealtime.report.page.line_figure import Axis
from stealtime.report.page.plane import Tick, percent, room_for, ticks_of
from stealtime.studies.stretch.analysis.inside import Inside, Points
from stealtime.studies.stretch.page.figures import marked, place

_MOST_POINTS = 60
"""Of a line; more are taken together, so that a page of many cells stays small."""
_BESIDE = 9.0
_INTERRUPTS = {
    "timer_interrupts_per_s": "host: timer",
    "reschedule_interrupts_per_s": "host: rescheduling",
    "call_interrupts_per_s": "host: function calls",
    "tlb_interrupts_per_s": "host: TLB",
    "device_interrupts_per_s": "host: devices",
}
_INTERCEPTS = {
    "exits_per_s": "exits to KVM",
    "irq_injections_per_s": "interrupts injected",
    "irq_window_exits_per_s": "interrupts that had to wait",
    "hypercalls_per_s": "hypercalls",
    "io_exits_per_s": "I/O ports",
    "mmio_exits_per_s": "device memory",
    "halt_exits_per_s": "halts",
}


INTERCEPTS = "Intercepts and hypercalls a second (3, 4, 6, 7)"


@dataclass(frozen=True)
class Line:
    """One series."""

    colour: int
    """Its number in the style sheet."""
    is_right: bool
    """Whether its axis is the one at the right; it is dashed then."""
    words: str
    points: tuple[tuple[float, float], ...]
    """Places in percent."""


@dataclass(frozen=True)
class Panel:
    """One drawing."""

    title: str
    lines: tuple[Line, ...]
    seconds: list[Tick]
    left: tuple[tuple[float, str], ...]
    """Marks with their words, from the top; so is the other."""
    right: tuple[tuple[float, str], ...]

    @property
    def room_left(self) -> float:
        """The width that the words take, in letters' heights; so is the other."""
        return round(room_for([words for _, words in self.left]) + 1.0, 1)

    @property
    def room_right(self) -> float:
        return round(room_for([words for _, words in self.right]) + 1.0, 1)


def missing(inside: Inside) -> str | None:
    """Say why there are no intercepts; nothing natively, where no guest is left."""
    is_guest = "dispatches_per_s" in inside.guest
    if not is_guest or "exits_per_s" in inside.guest:
        return None
    return f"{INTERCEPTS}: KVM counts them, and it told of none: this is no guest of KVM, or debugfs is not to be read."


def panels(inside: Inside) -> list[Panel]:
    """Give a panel for each thing that was told, with the numbers of the source's figures in its title."""
    wanting = {
        name: points
        for name, points in (
            ("threads that want a CPU, in the machine", inside.machine.get("threads_wanting_cpu", ())),
            ("threads that want a CPU, on the host", inside.host.get("threads_wanting_cpu", ())),
        )
        if points
    }
    paired = {
        "switches of the machine's kernel": inside.machine.get("context_switches_per_s", ()),
        "dispatches of its virtual CPUs": inside.guest.get("dispatches_per_s", ()),
        "switches of the host's kernel": inside.host.get("context_switches_per_s", ()),
    }
    interrupts = {"in the machine, all kinds": inside.machine.get("interrupts_per_s", ())}
    interrupts |= {words: inside.host.get(name, ()) for name, words in _INTERRUPTS.items()}
    intercepts = {words: inside.guest.get(name, ()) for name, words in _INTERCEPTS.items()}
    drawn = [
        _panel("Programs in the machine, % of one CPU, and the queue (25, 29)", inside.run_percent, wanting),
        _panel("Ready threads in the machine, by program (26)", inside.ready_threads),
        _panel("Context switches and dispatches a second (28)", paired),
        _panel("Interrupts a second (30, 6)", interrupts),
        _panel(INTERCEPTS, intercepts),
        _panel("Besides the guest's own instructions, % of one CPU (27)", _besides(inside)),
    ]
    return [one for one in drawn if one is not None]


def _besides(inside: Inside) -> dict[str, Points]:
    found = {
        "QEMU's emulator threads": inside.guest.get("emulator_percent", ()),
        "its I/O threads": inside.guest.get("io_percent", ()),
    }
    run, executed = (dict(inside.guest.get(name, ())) for name in ("vcpus_run_percent", "guest_executed_percent"))
    found["KVM, on the virtual CPUs' threads"] = tuple(
        (at_s, max(0.0, run[at_s] - share)) for at_s, share in executed.items() if at_s in run
    )
    # A guest whose program is all virtual CPU has no others.
    return {name: points for name, points in found.items() if any(value for _, value in points)}


def _panel(title: str, left: Mapping[str, Points], right: Mapping[str, Points] | None = None) -> Panel | None:
    told = [(name, _thinned(points), is_right) for name, points, is_right in _both(left, right or {}) if points]
    if not told:
        return None
    seconds = marked(0.0, max(1.0, *(at_s for _, points, _ in told for at_s, _ in points)), " s")
    axes = {side: _axis([points for _, points, is_right in told if is_right is side]) for side in (False, True)}
    lines = tuple(
        _line(number, (name, points, is_right), seconds, axes[is_right])
        for number, (name, points, is_right) in enumerate(told)
    )
    return Panel(
        title,
        lines,
        ticks_of([(place(seconds, value), words) for value, words in seconds.ticks], _BESIDE),
        *(_marks(axes[side]) if any(one.is_right is side for one in lines) else () for side in (False, True)),
    )


def _both(left: Mapping[str, Points], right: Mapping[str, Points]) -> list[tuple[str, Points, bool]]:
    return [
        *((name, points, False) for name, points in left.items()),
        *((name, points, True) for name, points in right.items()),
    ]


def _axis(lines: Sequence[Points]) -> Axis:
    return marked(0.0, 1.05 * max([1e-9, *(value for points in lines for _, value in points)]))


def _marks(axis: Axis) -> tuple[tuple[float, str], ...]:
    return tuple((_height(value, axis), words) for value, words in axis.ticks)


def _line(number: int, told: tuple[str, Points, bool], seconds: Axis, axis: Axis) -> Line:
    name, points, is_right = told
    values = [value for _, value in points]
    words = f"{name}: {_short(sum(values) / len(values))} in the mean, at most {_short(max(values))}"
    places = tuple((place(seconds, at_s), _height(value, axis)) for at_s, value in points)
    return Line(number, is_right, words, places)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _height(value: float, axis: Axis) -> float:
    return percent(1.0 - min(1.0, axis.share(value)))


def _thinned(points: Points) -> Points:
    """Take consecutive points together, each group at its last moment with its mean."""
    size = -(-len(points) // _MOST_POINTS)
    groups = [points[begin : begin + size] for begin in range(0, len(points), max(1, size))]
    return tuple((group[-1][0], sum(value for _, value in group) / len(group)) for group in groups)
