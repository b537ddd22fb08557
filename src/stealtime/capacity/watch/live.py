"""The loop of ``stealtime watch``: reads, judges, shows, serves, until it is told to stop."""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress

from rich.console import Console, RenderableType
from rich.live import Live

from stealtime.capacity.collector import Collector, hidden_processes
from stealtime.capacity.gather import spare_the_garbage_collector, uses_beside
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.session import Watch
from stealtime.capacity.watch.metrics import Metrics, serving
from stealtime.capacity.watch.neighbours import follow
from stealtime.capacity.watch.screen import render
from stealtime.capacity.watch.state import Neighbours, Snapshot, State
from stealtime.vocabulary.readings import Absent

_LINES_OF_A_SMALL_TERMINAL = 8


async def watch(
    order: Watch,
    console: Console,
    *,
    once: bool,
    serve_at: tuple[str, int] | None,
    trace: bool,
    on_progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Show the screen until cancelled, or once.

    Args:
        order: What to watch, and by which rules.
        console: Where the screen is.
        once: Show it a single time, as soon as a verdict can be given.
        serve_at: Where metrics are served, if they are.
        trace: Whether to name neighbours, which takes the host's trace.
        on_progress: Told how far it is until the only screen can be shown.

    Raises:
        StealtimeError: Metrics cannot be served there.
    """
    spare_the_garbage_collector()
    views = GuestViews(order.ways)
    metrics = Metrics()
    notes = [f"{hidden}; run it as root"] if (hidden := hidden_processes()) is not None else []
    with ExitStack() as stack:
        if serve_at is not None:
            notes.append(f"metrics: {stack.enter_context(serving(metrics, serve_at))}")
        stack.callback(views.close)
        collector = stack.enter_context(Collector(guest_view=views.of if order.guest_views else None))
        state = State(order.rules)
        if not trace:
            state.blame(Neighbours(absent=Absent(absent="it was not asked for")))
        tracing = asyncio.create_task(_follow(collector, state)) if trace else None
        screen = stack.enter_context(_screen(console)) if not once and console.is_terminal else None
        try:
            async for use in uses_beside(collector, order.interval_ns / 1e9):
                snapshot = state.take(use)
                metrics.show(snapshot)
                if screen is not None:
                    screen.update(_draw(snapshot, console, notes), refresh=True)
                if once:
                    on_progress(f"reading counters: {snapshot.samples} of {order.rules.minimum_samples} samples")
                    if snapshot.samples >= order.rules.minimum_samples:
                        console.print(render(snapshot, notes=notes))
                        return
        finally:
            if tracing is not None:
                tracing.cancel()
                with suppress(asyncio.CancelledError):
                    await tracing


def _screen(console: Console) -> Live:
    return Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop")


def _draw(snapshot: Snapshot, console: Console, notes: list[str]) -> RenderableType:
    return render(snapshot, rows=max(console.height, _LINES_OF_A_SMALL_TERMINAL), notes=[*notes, "Ctrl-C ends it"])


async def _follow(collector: Collector, state: State) -> None:
    """Name neighbours; whatever stops that stops nothing else."""
    await asyncio.sleep(0.5)  # the first sample tells which guests there are
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    try:
        await follow(lambda: _vcpus(collector), lambda: _members(collector), state.blame, cpus)
    except Exception as error:
        state.blame(Neighbours(absent=Absent(absent=f"tracing ended: {error}")))


def _vcpus(collector: Collector) -> dict[tuple[str, int], set[int]]:
    vcpus: dict[tuple[str, int], set[int]] = {}
    for guest, threads in collector.threads().values():
        for thread in threads:
            if thread.vcpu is not None:
                vcpus.setdefault((guest.name, thread.vcpu), set()).add(thread.tid)
    return vcpus


def _members(collector: Collector) -> Mapping[int, str]:
    return {thread.tid: guest.name for guest, threads in collector.threads().values() for thread in threads}
