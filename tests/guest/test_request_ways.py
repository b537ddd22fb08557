"""Known delays on the way of a disk's requests, each of which must be found in its part and in no other.

A block server delays each request by a known time; a hog takes the CPU of the virtual CPU. Of the delay at least 95 %
must land where it belongs. The host of a virtual machine takes what it likes, and does not say so: what breaks this
rule is measured again with its ring (``tools/rings.sh``).
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from machines import HOUSEKEEPING_CPU, needs_root, require_usable
from truth import some_of

from stealtime._core import REQUEST_PARTS
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.session import Order, execute, prepare
from stealtime.lab.platforms.device_models import find_model, mark_of
from stealtime.lab.platforms.leftovers import temporary_folder
from stealtime.store.run import Run
from stealtime.studies.devices.analysis.measured import measured
from stealtime.studies.devices.analysis.way import Ways

pytestmark = [pytest.mark.guest, pytest.mark.asyncio(loop_scope="session"), needs_root]

PLATFORM = "qemu-tcg-paravirt"
LANDED_SHARE_MIN, LANDED_SHARE_MAX = 0.95, 1.05
ELSEWHERE_SHARE_MAX = 0.05
SETTLE_NS = 100_000
"""How much the medians of parts in which nothing was delayed may differ between two boots, however short the delay."""
DISK_BYTES = 8 << 20
TAKEN_BY_THE_HOST = ("pending", "preempted", "emulator_off")
HOG_ON_NS = 5_000_000
COLD_SHARE_MAX = 0.1
"""Of the hog's turn, what a request it hit may take longer besides: the virtual CPU's memory has rested meanwhile."""
HIT_FACTOR_MIN = 5.0
"""With the hog so many times more requests take long than without it."""
SERVER = Path(__file__).with_name("nbd_server.py")


class _Unseen:
    def on_event(self, event: object) -> None:
        pass


async def ways_of_cell(folder: Path, cell: dict[str, Any], **scenario: Any) -> Ways:
    """Measure one traced cell and split its requests."""
    probe = {"probe": "disk", "duration": "3s", "samples": 1000, "size": "8MiB", **cell}
    campaign = Campaign.model_validate(
        {
            "name": "truth",
            "tracing": "on",
            "trace_buffer": "64MiB",
            "platforms": [PLATFORM],
            "scenarios": ["truth"],
            "define": [{"name": "truth", **scenario}],
            "probes": [probe],
        }
    )
    order = Order(campaign=campaign, runs_folder=folder, command_line=("truth",))
    finished = await execute(order, await prepare(order), _Unseen())
    (trial,) = Run.open(finished.folder).trials
    assert trial.record.outcome is not None, trial.record.failure
    ways = measured(trial).ways
    assert isinstance(ways, Ways), ways
    whole = sum(ways.parts_ns.values())
    np.testing.assert_allclose(whole, ways.duration_ns, atol=1)
    return ways


@contextmanager
def slow_disk(delay_ns: int, device: str) -> Iterator[str]:
    """Have a disk behind a block server that delays each request; gives its URI."""
    with temporary_folder() as folder:
        image, socket = folder / "image", folder / "disk"
        image.write_bytes(mark_of(find_model(device)).ljust(DISK_BYTES, b"\0"))
        # Before all else on its CPU, so that the delay is the one that was asked for.
        argv = ["taskset", "--cpu-list", str(HOUSEKEEPING_CPU), "chrt", "--fifo", "90", sys.executable, str(SERVER)]
        with subprocess.Popen([*argv, str(socket), str(image), str(delay_ns)], stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            try:
                yield f"nbd+unix:///?socket={socket}"
            finally:
                server.kill()


@asynccontextmanager
async def split_behind(delay_ns: int, device: str, folder: Path) -> AsyncIterator[Ways]:
    with slow_disk(delay_ns, device) as uri:
        yield await ways_of_cell(folder, {"device": device, "backing": uri})


def told(ways: Ways) -> str:
    medians = {part: np.median(values) / 1e3 for part, values in ways.parts_ns.items()}
    return ", ".join(f"{part} {median:.0f} us" for part, median in medians.items())


@pytest.mark.parametrize(
    ("device", "delay_ns"),
    some_of([(one, ms * 1_000_000) for one in ("virtio-blk", "ahci") for ms in (1, 5, 20)], ("virtio-blk", 5_000_000)),
)
async def test_the_delay_of_a_block_server_is_host_io_and_nothing_else(
    device: str, delay_ns: int, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    await require_usable(PLATFORM)
    async with split_behind(0, device, tmp_path) as ways:
        at_once = ways
    async with split_behind(delay_ns, device, tmp_path) as ways:
        delayed = ways
    text = f"at once: {told(at_once)}; delayed by {delay_ns / 1e6:.0f} ms: {told(delayed)}"
    shift_ns = {
        part: float(np.median(delayed.parts_ns[part]) - np.median(at_once.parts_ns[part])) for part in REQUEST_PARTS
    }
    assert LANDED_SHARE_MIN * delay_ns <= shift_ns["host_io"] <= LANDED_SHARE_MAX * delay_ns, text
    # What the host takes of virtual CPU and emulator is named, and is no delay of the server's.
    elsewhere = {part: shift for part, shift in shift_ns.items() if part not in ("host_io", *TAKEN_BY_THE_HOST)}
    limit_ns = max(ELSEWHERE_SHARE_MAX * delay_ns, SETTLE_NS)
    assert max(elsewhere.values()) <= limit_ns, text
    tell(f"devices, {device}: {text}")


@pytest.mark.parametrize("device", some_of(["virtio-blk", "ahci"], "virtio-blk"))
async def test_a_hog_on_the_virtual_cpus_cpu_is_pending_or_preempted_and_nothing_else(
    device: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    await require_usable(PLATFORM)
    cell = {"device": device, "backing": "memory"}
    quiet = await ways_of_cell(tmp_path, cell)
    hog = {"kind": "process", "load": "cpu-load", "cpus": "measured", "priority": 90, "on": "5ms", "off": "15ms"}
    ways = await ways_of_cell(tmp_path, cell, neighbours=[hog])
    usual = {part: float(np.median(values)) for part, values in quiet.parts_ns.items()}
    limit_ns = np.median(quiet.duration_ns) + HOG_ON_NS / 2
    # Whoever was hit waited for a good part of the hog's turn; without the hog nobody does, or few.
    hit = ways.duration_ns > limit_ns
    text = f"{hit.sum()} of {len(hit)} requests were hit, {(quiet.duration_ns > limit_ns).sum()} without the hog"
    assert hit.mean() >= HIT_FACTOR_MIN * max((quiet.duration_ns > limit_ns).mean(), 1 / len(hit)), text
    late_ns = {part: float(np.median(values[hit])) - usual[part] for part, values in ways.parts_ns.items()}
    text = f"{text}, which took longer: {', '.join(f'{part} {late / 1e3:.0f} us' for part, late in late_ns.items())}"
    elsewhere = {part: late for part, late in late_ns.items() if part not in TAKEN_BY_THE_HOST}
    assert max(elsewhere.values()) <= ELSEWHERE_SHARE_MAX * HOG_ON_NS, text
    # A request is hit while its virtual CPU waits for an interrupt, or while it does something else for it. The
    # emulator is on another CPU than the hog.
    taken_ns = float(np.median((ways.parts_ns["pending"] + ways.parts_ns["preempted"])[hit]))
    assert LANDED_SHARE_MIN * HOG_ON_NS <= taken_ns <= LANDED_SHARE_MAX * HOG_ON_NS, text
    # What a virtual CPU finds cold after its wait is in no part alone.
    excess_ns = float(np.median((ways.duration_ns - ways.parts_ns["emulator_off"])[hit] - np.median(quiet.duration_ns)))
    assert 0 <= excess_ns - taken_ns <= COLD_SHARE_MAX * HOG_ON_NS, text
    assert (ways.parts_ns["pending"][hit] > HOG_ON_NS / 2).any(), text
    tell(f"devices, {device}: {text}")
