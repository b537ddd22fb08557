"""Carries out the same trials on a quiet host and beside each disturbance, in a random order, on machines that stay up.

Each is a trial as `stealtime run` makes it, in the scenario `alone`.
"""

import asyncio
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stealtime.campaigns.booted import Measured
from stealtime.campaigns.events import Event
from stealtime.campaigns.executor import LocalExecutor
from stealtime.campaigns.file import find_campaign
from stealtime.campaigns.overrides import Overrides, apply_overrides
from stealtime.campaigns.session import Order, prepare
from stealtime.lab.processors import read_cpu_sets
from stealtime.lab.strangers.look import StrangerLook, look
from stealtime.lab.strangers.processes import TICK_NS, gains
from stealtime.store.strangers import StrangersRecord

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/rigs"))
from strangers_on_purpose import compiling, hog

PLATFORMS = ("native", "uml", "qemu-tcg-paravirt")
PROBES = ("tick", "wakeup")
DUTIES = (0.03, 0.1, 0.3, 1.0)
QUIET, COMPILE = "quiet", "compile"
QUIETS_A_ROUND = 3
_SETTLE_S = 0.15
_MOMENT_S, _MOMENTS, _QUIET_SHARE = 0.1, 40, 0.15
_COMPILERS = 2


class _Silent:
    def on_event(self, event: Event) -> None:
        """Show nothing."""


@dataclass(frozen=True)
class Rounds:
    """How often and how long."""

    count: int
    trial_ns: int
    seed: int


def conditions() -> list[str]:
    """Give what one round holds, quiet trials as often as they are wanted."""
    return [QUIET] * QUIETS_A_ROUND + [f"hog {duty:g}" for duty in DUTIES] + [COMPILE]


def measure(rounds: Rounds, keep: Callable[[dict[str, Any]], None]) -> None:
    """Measure and hand over a line for each trial as it is made."""
    asyncio.run(_measure(rounds, keep))


async def _measure(rounds: Rounds, keep: Callable[[dict[str, Any]], None]) -> None:
    chosen = Overrides(platforms=PLATFORMS, probes=PROBES, duration_ns=rounds.trial_ns, repetitions=1)
    with tempfile.TemporaryDirectory() as name:
        order = Order(apply_overrides(find_campaign("quick"), chosen), Path(name), ("busy_hosts",))
        prepared = await prepare(order)
        executor = LocalExecutor(prepared.plan, prepared.platforms, _Silent(), "busy-hosts")
        calibration = Path(name) / "calibration"
        calibration.mkdir()
        loops = await executor.calibrate(sorted(prepared.plan.loops_ns), calibration)
        drawn = random.Random(rounds.seed)  # noqa: S311 - no secret
        for boot in prepared.plan.boots:
            folder = Path(name) / boot.platform
            folder.mkdir()
            cpu = prepared.plan.placement(boot.platform, boot.scenario).measured_cpu
            async with executor.boot(boot, folder, loops) as machine:
                wanted = [
                    (cell, condition) for _ in range(rounds.count) for cell in boot.cells for condition in conditions()
                ]
                drawn.shuffle(wanted)
                for cell, condition in wanted:
                    await _quiet_moment()
                    with _beside(condition, cpu, Path(name)) as pid:
                        await asyncio.sleep(_SETTLE_S)
                        used_ns, first = _used_ns(pid), look((cpu,))
                        measured = await machine.measure(cell)
                        used_ns, last = _used_ns(pid) - used_ns, look((cpu,))
                    elapsed_ns = last.at_ns - first.at_ns
                    others_ns = max(0, _others_ns(first, last) - used_ns)
                    keep(_line(measured, condition, used_ns / elapsed_ns, others_ns / elapsed_ns))


async def _quiet_moment() -> None:
    """Wait until nobody else works on this host, but not for ever: what is measured then is left out of the rates."""
    cpus = read_cpu_sets().inherited
    for _ in range(_MOMENTS):
        first = look(cpus)
        await asyncio.sleep(_MOMENT_S)
        last = look(cpus)
        if _others_ns(first, last) < _QUIET_SHARE * (last.at_ns - first.at_ns):
            return


@contextmanager
def _beside(condition: str, cpu: int, folder: Path) -> Iterator[int | None]:
    if condition == QUIET:
        yield None
    elif condition == COMPILE:
        with compiling(folder, _COMPILERS) as pid:
            yield pid
    else:
        with hog(cpu, float(condition.split()[1])) as pid:
            yield pid


def _used_ns(pid: int | None) -> int:
    """Give the CPU time that a hog's threads have used so far; compilers come and go, so theirs is not known."""
    if pid is None:
        return 0
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def _others_ns(first: StrangerLook, last: StrangerLook) -> int:
    """Give what processes that are not ours used on any CPU, as their own accounts say."""
    own = first.own | last.own
    return sum(gain.ticks for gain in gains(first.processes, last.processes) if gain.process.pid not in own) * TICK_NS


def _line(measured: Measured, condition: str, used: float, others: float) -> dict[str, Any]:
    record = measured.record
    strangers = record.strangers
    assert isinstance(strangers, StrangersRecord)
    return {
        "platform": record.cell.platform,
        "probe": record.cell.probe,
        "condition": condition,
        "used_share": round(used, 4),
        "others_share": round(others, 4),
        "strangers": strangers.model_dump(mode="json", exclude={"who"}),
        "who": [f"{one.name} {one.cpu_ns / 1e9:.2f} s" for one in strangers.who],
    }
