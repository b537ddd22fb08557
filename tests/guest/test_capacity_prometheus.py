"""A real Prometheus asks the exporter of a host on which two busy guests share a CPU: it is told, and it alerts."""

import asyncio
import json
import math
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib import resources
from pathlib import Path

import pytest
from machines import HOUSEKEEPING_CPU, MEASURED_CPU, needs_root, require_usable, until
from prometheus_rig import LOOPBACK, free_port, installed, prometheus
from watched_guests import prefer

from stealtime.lab.platforms import registry
from stealtime.lab.platforms.machine import BootedMachine
from stealtime.lab.platforms.model import MachineRequest
from stealtime.wire.load import CpuLoad, LoadRequest

pytestmark = [pytest.mark.guest, pytest.mark.truth, pytest.mark.asyncio(loop_scope="session"), needs_root]

EXPORTER = resources.files("stealtime.capacity.exporter")
ALERTS = re.sub(r"^( +for:) .*$", r"\1 0s", (EXPORTER / "alerts.yml").read_text("utf-8"), flags=re.MULTILINE)
"""As they are, but at once."""


@asynccontextmanager
async def busy_guest(folder: Path) -> AsyncIterator[BootedMachine]:
    await require_usable("uml")
    await asyncio.to_thread(folder.mkdir)
    request = MachineRequest(
        vcpu_cpus=((MEASURED_CPU,),),
        housekeeping_cpus=(HOUSEKEEPING_CPU,),
        folder=folder,
        memory_bytes=128 << 20,
        group=folder.name,
    )
    async with registry.find("uml").boot(request) as machine:
        assert isinstance(machine, BootedMachine)
        await machine.connection.start_load(0, LoadRequest(kind=CpuLoad(), threads=1))
        yield machine


@contextmanager
def hog(cpu: int) -> Iterator[None]:
    """Keep a CPU from idling: guests that wait beside an idle one are misplaced, and their host not over-committed."""
    script = f"import os; os.sched_setaffinity(0, {{{cpu}}}); os.nice(19)\nwhile True: pass"
    process = subprocess.Popen([sys.executable, "-c", script])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def exporter(port: int, temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    temporary.mkdir()
    argv = [str(Path(sys.executable).with_name("stealtime")), "watch", "--prometheus", str(port)]
    argv += ["--neighbours", "--guest-view", "own", "--keep", str(temporary.parent / "kept")]
    process = subprocess.Popen(argv, env={**os.environ, "TMPDIR": str(temporary)}, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def expressions() -> list[tuple[str, str]]:
    """Give each query of the dashboard, with its panel, for all hosts and guests."""
    board = json.loads((EXPORTER / "grafana.json").read_text("utf-8"))
    found = [(panel["title"], target["expr"]) for panel in board["panels"] for target in panel["targets"]]
    replaced = (("$instance", ".*"), ("$guest", ".*"), ("$__rate_interval", "30s"))
    for old, new in replaced:
        found = [(title, expression.replace(old, new)) for title, expression in found]
    return found


def remarks_of_promtool(port: int) -> str:
    """Give what `promtool check metrics` says of the metrics as they are served."""
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=10) as answer:
        text = answer.read()
    done = subprocess.run([installed("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    said: bytes = done.stdout + done.stderr
    return said.decode()


async def test_each_panel_has_a_series_and_the_crowded_host_raises_the_alarm(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        pair = [await stack.enter_async_context(busy_guest(tmp_path / name)) for name in ("a", "b")]
        for machine in pair:  # once both have booted: one that is preferred leaves nothing to do so with
            prefer(machine)
        stack.enter_context(hog(HOUSEKEEPING_CPU))
        watching = stack.enter_context(exporter(port, tmp_path / "temporary"))
        asked = stack.enter_context(prometheus(tmp_path / "prometheus", f"{LOOPBACK}:{port}", ALERTS))
        assert await until(asked.is_ready, within_s=30)

        def is_judged() -> bool:
            return any(name == "StealtimeHostOverCommitted" for name, _ in asked.firing())

        # A verdict after a minute; then some windows of the trace are over, too.
        assert await until(is_judged, within_s=120), asked.firing()
        names = {one["metric"]["guest"] for one in asked.query("stealtime_guest_info")}
        crowded = {name for alert, name in asked.firing() if alert == "StealtimeGuestCrowded"}
        assert len(crowded & names) >= 2, asked.firing()

        missing = []
        for title, expression in expressions():
            values = [float(one["value"][1]) for one in asked.query(expression)]
            tell(f"{title}: {len(values)} series, {min(values, default=math.nan):.3g} to {max(values, default=0):.3g}")
            if not any(math.isfinite(value) for value in values):
                missing.append((title, expression))
        assert missing == []

        # Two that share a CPU wait as long as they run, and for each other.
        run, wait = (f"rate(stealtime_guest_{what}_seconds_total[1m])" for what in ("run", "wait"))
        stretches = asked.query(f"1 + {wait} / {run}")
        assert sum(1.6 < float(one["value"][1]) < 2.6 for one in stretches) >= 2, stretches
        estimated = asked.query("sum by (guest) (stealtime_guest_neighbour_wait_seconds_total)")
        counted = asked.query("stealtime_guest_wait_seconds_total")
        assert {one["metric"]["guest"] for one in estimated} <= {one["metric"]["guest"] for one in counted}

        assert remarks_of_promtool(port) == ""

        watching.send_signal(signal.SIGTERM)
        assert await until(lambda: watching.poll() is not None, within_s=20)
        assert watching.returncode == 0
    assert os.listdir(tmp_path / "temporary") == []  # noqa: PTH208
