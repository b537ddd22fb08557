"""The loop of ``stealtime watch``: reads, judges and shows, until it is told to stop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress

from rich.console import Console

from stealtime.capacity.collector import Collector, hidden_processes
from stealtime.capacity.gather import spare_the_garbage_collector, uses_beside
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.session import Watch
from stealtime.capacity.watch.following import follow_neighbours
from stealtime.capacity.watch.screen import render
from stealtime.capacity.watch.state import Neighbours, Snapshot, State
from stealtime.vocabulary.readings import Absent


async def snapshots(order: Watch, *, trace: bool) -> AsyncIterator[Snapshot]:
    """Read and judge, and give each second what there is to show, without end.

    Args:
        order: What to watch, and by which rules.
        trace: Whether to name neighbours, which takes the host's trace.
    """
    spare_the_garbage_collector()
    views = GuestViews(order.ways)
    with ExitStack() as stack:
        stack.callback(views.close)
        collector = stack.enter_context(Collector(guest_view=views.of if order.guest_views else None))
        state = State(order.rules)
        if not trace:
            state.blame(Neighbours(absent=Absent(absent="it was not asked for")))
        tracing = asyncio.create_task(follow_neighbours(collector, state.blame)) if trace else None
        try:
            async for use in uses_beside(collector, order.interval_ns / 1e9):
                yield state.take(use)
        finally:
            if tracing is not None:
                tracing.cancel()
                with suppress(asyncio.CancelledError):
                    await tracing


async def show(order: Watch, *, trace: bool) -> None:
    """Show the live screen until somebody leaves it."""
    # Textual takes 0.3 s to load.
    from stealtime.capacity.watch.app import WatchApp

    await WatchApp(lambda: snapshots(order, trace=trace), notes()).run_async()


async def show_once(
    order: Watch, console: Console, *, trace: bool, on_progress: Callable[[str], None] = lambda _: None
) -> None:
    """Print one screen, as soon as a verdict can be given.

    Args:
        order: What to watch, and by which rules.
        console: Where it is printed.
        trace: Whether to name neighbours.
        on_progress: Told how far it is until then.
    """
    feed = snapshots(order, trace=trace)
    try:
        async for snapshot in feed:
            on_progress(f"reading counters: {snapshot.samples} of {order.rules.minimum_samples} samples")
            if snapshot.samples >= order.rules.minimum_samples:
                console.print(render(snapshot, notes=notes()))
                return
    finally:
        await feed.aclose()  # type: ignore[attr-defined]


def notes() -> tuple[str, ...]:
    hidden = hidden_processes()
    return () if hidden is None else (f"{hidden}; run it as root",)
