"""Words and figures of the live screen, short enough for 80 columns; pure."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from stealtime.capacity.figures import net_wait_percent
from stealtime.capacity.rules import Verdict
from stealtime.capacity.terminal import STYLES, describe
from stealtime.capacity.use import Figure, GuestUse, Use, run_percent
from stealtime.capacity.watch.rows import Key, Row
from stealtime.capacity.watch.sparkline import sparkline
from stealtime.capacity.watch.state import Snapshot
from stealtime.capacity.wording import duration
from stealtime.vocabulary.cpu_lists import format_cpus
from stealtime.vocabulary.readings import Absent
from stealtime.vocabulary.visible import in_one_line, visible

SHORT: Final[dict[Verdict, str]] = {
    "over-provisioned host": "room",
    "efficiently provisioned": "fine",
    "over-committed host": "crowded",
    "misplaced guests": "misplaced",
    "under-provisioned guest": "too small",
    "not judged": "?",
}
"""A verdict in a column; its words in full stand with the guest itself."""
COLUMNS: Final = (
    ("guest", 21), ("verdict", 9), ("vCPU", 5), ("run", 7), ("wait", 7), ("stretch", 8), ("/dispatch", 10), ("", 10),
)  # fmt: skip
"""Of the table of guests, with their widths in characters, a space among them: 77 of 80, two are the scroll bar's."""
_BARS = 9


def cells(row: Row, snapshot: Snapshot) -> list[Text]:
    """Give a row's cells, as ``COLUMNS``; no name steers the terminal, none is markup."""
    verdict = Text("..." if row.verdict is None else SHORT[row.verdict], _style(row.verdict))
    right = [
        str(row.vcpus) if row.vcpus else "?",
        percent(row.run_percent),
        percent(row.wait_percent),
        "-" if row.stretch is None else f"{row.stretch:.2f}",
        "-" if row.wait_per_dispatch_ns is None else duration(row.wait_per_dispatch_ns),
    ]
    figures = [Text(figure, justify="right") for figure in right]
    bars = sparkline(waits(snapshot.uses, row.key, None), width=_BARS)
    return [Text(shortened(row.name, COLUMNS[0][1] - 1)), verdict, *figures, Text(f" {bars}")]


def headline(snapshot: Snapshot) -> Text:
    """Give the verdict on the host, and its figures, in two lines."""
    judgement = snapshot.host.judgement
    last = snapshot.uses[-1]
    count = "1 guest" if len(last.guests) == 1 else f"{len(last.guests)} guests"
    pressures = " ".join(f"{name} {percent(last.pressure_percent.get(name))}" for name in ("cpu", "memory", "io"))
    return Text.assemble(
        ("host: ", "bold"),
        (judgement.verdict, STYLES[judgement.verdict]),
        f"   {count}, {sum(use.elapsed_s for use in snapshot.uses):.0f} s\n",
        f"memory available {percent(last.memory_available_percent)}   pressure {pressures}",
    )


def cpus(snapshot: Snapshot, width: int) -> Text:
    """Give how busy the CPUs are in one line: all of them together, then the busiest ones."""
    last = snapshot.uses[-1].cpus
    if isinstance(last, Absent):
        return Text(f"CPUs: {visible(last.absent)}")
    known = {cpu: one.busy_percent for cpu, one in last.items() if not isinstance(one.busy_percent, Absent)}
    mean = [_mean_busy(use) for use in snapshot.uses]
    line = f"{len(last)} CPUs {sparkline(mean, width=12)} {percent(mean[-1])}  busiest:"
    for cpu, busy in sorted(known.items(), key=lambda one: (-one[1], one[0])):
        more = f" {cpu}: {busy:.0f}%"
        if len(line) + len(more) > width:
            break
        line += more
    return Text(line)


def waits(uses: Sequence[Use], key: Key, vcpu: int | None) -> list[float | None]:
    """Give what a virtual CPU waited in percent, or the one of a guest that waited most, at each moment."""
    history: list[float | None] = []
    for use in uses:
        one = use.guests.get(key)
        if one is None or one.unreadable is not None or not one.vcpus or (vcpu is not None and vcpu not in one.vcpus):
            history.append(None)
        else:
            chosen = one.vcpus.values() if vcpu is None else [one.vcpus[vcpu]]
            waited = [net_wait_percent(one, threads) for threads in chosen]
            known = [figure for figure in waited if not isinstance(figure, Absent)]
            history.append(max(known, default=None))
    return history


def why(snapshot: Snapshot, key: Key) -> list[Text]:
    """Give the verdict on a guest with its evidence, and what to change."""
    advice = snapshot.guests.get(key)
    if advice is None:
        return [Text("no verdict yet")]
    judgement = advice.judgement
    lines = [Text.assemble("verdict: ", (judgement.verdict, _style(judgement.verdict)))]
    if judgement.because is not None:
        lines.append(Text(f"because {visible(judgement.because)}"))
    if judgement.outcome is not None:
        lines += [Text(f"  {visible(describe(one))}") for one in judgement.outcome.evidence]
        lines.append(Text(f"change: {visible(advice.change or judgement.outcome.rule.change)}"))
    return lines


def neighbours(snapshot: Snapshot, guest: str) -> list[Text]:
    """Say who took the CPUs that a guest waited for, in the last window of the trace."""
    seen = snapshot.neighbours
    if seen.absent is not None:
        return [Text(f"neighbours: not known, because {visible(seen.absent.absent)}")]
    own = [one for one in seen.blames if one.guest == guest]
    if not own:
        return [Text("nobody took its CPUs in the last traced window")]
    return [
        Text(
            f"vCPU {one.vcpu} waited {one.percent:.1f} % of the last {seen.window_s:.1f} s traced for "
            f"{in_one_line(one.neighbour)}{'' if one.tid is None else f' ({one.tid})'}"
        )
        for one in own
    ]


def percent(figure: Figure | None) -> str:
    return "-" if figure is None or isinstance(figure, Absent) else f"{figure:.1f}%"


def shortened(name: str, width: int) -> str:
    """Cut a name in its middle: names of one fleet begin alike, and often end differently."""
    name = in_one_line(name)
    if len(name) <= width:
        return name
    tail = (width - 1) // 2
    return f"{name[: width - 1 - tail]}…{name[-tail:]}"


def _style(verdict: Verdict | None) -> str:
    return "dim" if verdict is None else STYLES[verdict]


def _mean_busy(use: Use) -> float | None:
    if isinstance(use.cpus, Absent):
        return None
    known = [one.busy_percent for one in use.cpus.values() if not isinstance(one.busy_percent, Absent)]
    return sum(known) / len(known) if known else None


def page(snapshot: Snapshot, key: Key, width: int) -> Text:
    """Give all that is known of one guest."""
    use = snapshot.uses[-1].guests.get(key)
    if use is None:
        return Text("this guest has ended")
    guest = use.guest
    lines = [Text.assemble((in_one_line(guest.name), "bold"), f"   {guest.kind}, pid {guest.pid}")]
    if isinstance(use.allowed_cpus, Absent):
        lines.append(Text(f"may run on: not known, {visible(use.allowed_cpus.absent)}"))
    else:
        lines.append(Text(f"may run on CPU {format_cpus(use.allowed_cpus)}{_quota(use)}"))
    if use.unreadable is not None:
        lines.append(Text(visible(use.unreadable.absent), "magenta"))
    bars = max(10, min(60, (width - 38) // 2))
    for number, vcpu in use.vcpus.items():
        runs = [one.guests[key].vcpus[number].run_percent if _has(one, key, number) else None for one in snapshot.uses]
        lines.append(
            Text(
                f"vCPU {number:<3} run {percent(vcpu.run_percent):>6} {sparkline(runs, width=bars)}"
                f" wait {percent(net_wait_percent(use, vcpu)):>6}"
                f" {sparkline(waits(snapshot.uses, key, number), width=bars)}"
            )
        )
    others = [f"{name} {percent(run_percent(one))}" for name, one in (("emulator", use.emulator), ("I/O", use.io))]
    lines += [Text(", ".join(others)), Text(), *neighbours(snapshot, guest.name), Text(), *why(snapshot, key)]
    return Text("\n").join(lines)


def _has(use: Use, key: Key, vcpu: int) -> bool:
    return key in use.guests and vcpu in use.guests[key].vcpus


def _quota(use: GuestUse) -> str:
    if use.quota_cpus is None:
        return ""
    return f", with a quota of {use.quota_cpus:.2g} CPUs, held back {percent(use.throttled_percent)}"
