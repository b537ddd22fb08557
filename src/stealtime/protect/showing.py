"""Members as a table, and the progress of a first full copy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.text import Text

from stealtime.protect.status import REFUSES, RUNNING_ROLES, MemberStatus, StatusDocument
from stealtime.report.notation import duration
from stealtime.vocabulary.quantities import approximate_size, format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NUMBERS = ("epoch", "lag", "interval", "pause", "hold", "dirty pages/s", "shipped/s", "held")


def status_table(members: Sequence[MemberStatus]) -> "Table":
    """Lay out members, one a row: those that have a machine first."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("vm", "host", "role", "protected", "mode", "standby"):
        table.add_column(heading, no_wrap=True)
    for heading in _NUMBERS:
        table.add_column(heading, justify="right", no_wrap=True)
    for member in sorted(members, key=lambda one: (one.vm, one.role not in RUNNING_ROLES, one.host)):
        table.add_row(*_row(member))
    return table


UNPROVED_UNDER_KVM = (
    "warning: protection under KVM was proved in an emulated machine only, without nested paging (docs/kvm.md), not on"
    " hardware; test a failover on your hosts before you rely on it"
)


def remarks(members: Sequence[MemberStatus]) -> list[str]:
    lines = []
    for member in members:
        lines += [f"{member.vm} on {member.host}: alarm: {alarm.text}" for alarm in member.alarms]
        lines += [f"{member.vm} on {member.host}: {warning}" for warning in member.warnings]
        if member.fenced_reason is not None:
            lines.append(f"{member.vm} on {member.host} was fenced: {member.fenced_reason}")
    return lines


def remarks_on_hosts(document: StatusDocument) -> list[str]:
    """Give in sentences what only shows when several hosts are asked."""
    lines = [f"alarm: {vm} runs on {' and on '.join(hosts)}" for vm, hosts in document.run_twice().items()]
    for host in document.unheard:
        lines.append(f"{host.reason} (hint: {host.hint})" if host.hint else host.reason)
    return lines


@contextmanager
def show_full_copy(console: "Console") -> Iterator[Callable[[MemberStatus], None]]:
    """Show the progress of the first full copy; gives the function that takes each status."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("booting", total=None)
        told: set[str] = set()

        def update(status: MemberStatus) -> None:
            # Nobody should wait to hear at the end why nothing came of it.
            for refusal in (warning for warning in status.warnings if REFUSES in warning and warning not in told):
                progress.console.print(refusal, style="yellow", markup=False, soft_wrap=True)
                told.add(refusal)
            if status.full_copy is not None:
                progress.update(
                    task,
                    description="copying all memory",
                    completed=status.full_copy.done_bytes,
                    total=status.full_copy.total_bytes,
                )
            else:
                progress.update(task, description="protected" if status.protected else status.role)

        yield update


def _row(member: MemberStatus) -> tuple[str | Text, ...]:
    runs = member.role in RUNNING_ROLES
    protected = Text("yes", style="green") if member.protected else Text("no", style="red")
    numbers: tuple[str, ...] = ("",) * len(_NUMBERS)
    if runs:
        numbers = (
            str(member.epoch),
            str(member.lag_epochs),
            format_duration(member.interval_ns) if member.interval_ns else "",
            duration(member.pause_p50_ns or None, 3),
            duration(member.hold_p50_ns or None, 3),
            f"{member.dirty_pages_per_s:.0f}",
            approximate_size(member.bytes_per_s),
            approximate_size(member.held_bytes),
        )
    elif member.role == "standby":
        numbers = (str(member.epoch), *numbers[1:])
    return (
        member.vm,
        member.host,
        member.role,
        protected if runs else "",
        member.mode or "",
        member.standby.name if member.standby is not None else "",
        *numbers,
    )
