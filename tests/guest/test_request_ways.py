"""Known delays on the way of a disk's requests, each of which must be found in its part and in no other.

A block server delays each request by a known time; a hog takes the CPU of the virtual CPU. Of the delay at least 95 %
must land where it belongs. What follows a wait of milliseconds takes longer than what follows none, wherever the wait
was: caches are cold then. So a wait is held against a shorter one, not against none. The host of a virtual machine
takes what it likes, and does not say so: what breaks this rule is measured again with its ring (``tools/rings.sh``).
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
RESTED_NS = 5_000_000
"""A longer wait leaves nothing colder."""
SERVING_NS = 300_000
"""What the host's side of a request may take besides its delay."""
DISK_BYTES = 8 << 20
TAKEN_BY_THE_HOST = ("pending", "preempted", "emulator_off")
HOGS_ON_NS = (5_000_000, 10_000_000)
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


async def ways_behind(delay_ns: int, device: str, folder: Path) -> Ways:
    with slow_disk(delay_ns, device) as uri:
        return await ways_of_cell(folder, {"device": device, "backing": uri})


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
    rested = await ways_behind(RESTED_NS, device, tmp_path)
    delayed = await ways_behind(RESTED_NS + delay_ns, device, tmp_path)
    text = f"delayed by 5 ms: {told(rested)}; by {delay_ns / 1e6:.0f} ms more: {told(delayed)}"
    served_ns = float(np.median(rested.parts_ns["host_io"]))
    assert RESTED_NS <= served_ns <= LANDED_SHARE_MAX * RESTED_NS + SERVING_NS, text
    shift_ns = {
        part: float(np.median(delayed.parts_ns[part]) - np.median(rested.parts_ns[part])) for part in REQUEST_PARTS
    }
    assert LANDED_SHARE_MIN * delay_ns <= shift_ns["host_io"] <= LANDED_SHARE_MAX * delay_ns, text
    # What the host takes of virtual CPU and emulator is named, and is no delay of the server's.
    elsewhere = {part: shift for part, shift in shift_ns.items() if part not in ("host_io", *TAKEN_BY_THE_HOST)}
    limit_ns = max(ELSEWHERE_SHARE_MAX * delay_ns, SETTLE_NS)
    assert max(elsewhere.values()) <= limit_ns, text
    tell(f"devices, {device}: {text}")


@pytest.mark.truth
@pytest.mark.parametrize("device", ["virtio-blk", "ahci"])
async def test_a_hog_on_the_virtual_cpus_cpu_is_pending_or_preempted_and_nothing_else(
    device: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    await require_usable(PLATFORM)
    cell = {"device": device, "backing": "memory", "samples": 4000, "duration": "5s"}
    quiet = await ways_of_cell(tmp_path, cell)
    usual = {part: float(np.median(values)) for part, values in quiet.parts_ns.items()}
    texts, taken_ns, besides_ns = [], [], []
    for on_ns in HOGS_ON_NS:
        turn = {"on": f"{on_ns}ns", "off": f"{3 * on_ns}ns"}
        hog = {"kind": "process", "load": "cpu-load", "cpus": "measured", "priority": 90, **turn}
        ways = await ways_of_cell(tmp_path, cell, neighbours=[hog])
        # Whoever was hit waited for a good part of the hog's turn; without the hog nobody does, or few.
        limit_ns = np.median(quiet.duration_ns) + on_ns / 2
        hit, by_chance = ways.duration_ns > limit_ns, quiet.duration_ns > limit_ns
        text = f"hog of {on_ns / 1e6:.0f} ms: {hit.sum()} of {len(hit)} requests were hit, {by_chance.sum()} without it"
        assert hit.mean() >= HIT_FACTOR_MIN * max(by_chance.mean(), 1 / len(hit)), text
        late_ns = {part: float(np.median(values[hit])) - usual[part] for part, values in ways.parts_ns.items()}
        text = (
            f"{text}, which took longer: {', '.join(f'{part} {late / 1e3:.0f} us' for part, late in late_ns.items())}"
        )
        elsewhere = {part: late for part, late in late_ns.items() if part not in TAKEN_BY_THE_HOST}
        assert max(elsewhere.values()) <= ELSEWHERE_SHARE_MAX * on_ns, text
        # A request is hit while its virtual CPU waits for an interrupt, or while it does something else for it.
        taken = (ways.parts_ns["pending"] + ways.parts_ns["preempted"])[hit]
        assert LANDED_SHARE_MIN * on_ns <= np.median(taken) <= LANDED_SHARE_MAX * on_ns, text
        assert (ways.parts_ns["pending"][hit] > on_ns / 2).any(), text
        taken_ns.append(float(np.median(taken)))
        # The emulator is on another CPU than the hog. Boots differ in how long a request takes that nothing hits.
        whole = ways.duration_ns - ways.parts_ns["emulator_off"]
        besides_ns.append(float(np.median(whole[hit] - taken) - np.median(whole[~hit])))
        texts.append(text)
    text = f"{'; '.join(texts)}; besides {besides_ns[0] / 1e3:.0f} and {besides_ns[1] / 1e3:.0f} us"
    more_ns = HOGS_ON_NS[1] - HOGS_ON_NS[0]
    assert LANDED_SHARE_MIN * more_ns <= taken_ns[1] - taken_ns[0] <= LANDED_SHARE_MAX * more_ns, text
    # What is cold after a wait is so after each of them, or nearly.
    assert abs(besides_ns[1] - besides_ns[0]) <= ELSEWHERE_SHARE_MAX * HOGS_ON_NS[1], text
    tell(f"devices, {device}: {text}")
