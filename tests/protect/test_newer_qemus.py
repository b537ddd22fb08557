"""Failovers under the QEMUs that Debian offers beside the one that is installed, with guests of newer kernels."""

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest
from failover_campaign import Campaign
from newer_qemu import newer_qemu
from truth import repetitions, seed
from two_hosts import Counting, TwoHosts, assert_unharmed, laboratory_or_skip

from stealtime.hosts.counting import COUNTER
from stealtime.lab.image.cache import cache_folder
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.longer,
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

SEED = seed()
FAULTS = ("kill-member", "kill-qemu", "planned, the active dies after-claim", "after-apply", "power-off")
FAILOVERS = repetitions(few=1, full=10)
IMAGE_BYTES = 16 << 20


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that anybody may look into, as each QEMU has a user of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="stealtime-qemu-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.mark.parametrize(
    ("suite", "release", "kernel"),
    [("trixie", "10.0", "backports"), ("trixie-backports", "11.1", "rt-new")],
)
def test_nothing_is_lost_under_another_qemu(
    suite: str, release: str, kernel: str, open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = cache_folder() / f"qemu-{suite}"
    try:
        newer_qemu(cache, suite)
    except StealtimeError as error:
        pytest.skip(f"no QEMU of {suite} here: {error.message}")
    subprocess.run(["cp", "-r", cache / "tree", open_folder / "tree"], check=True)
    qemu = newer_qemu(open_folder, suite)
    assert qemu.version.startswith(f"{release}."), "another release: try it, and name it in protect/machine.py"
    monkeypatch.setenv("PATH", f"{qemu.in_path(open_folder / 'program')}:{os.environ['PATH']}")
    image = tmp_path / "data.raw"
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    with laboratory_or_skip() as laboratory:
        hosts = TwoHosts(
            laboratory,
            interval="50ms",
            kernel=kernel,
            program_arguments=[*COUNTER, "disk=/dev/vda"],
            disks=[{"name": "data", "path": str(image)}],
        )
        hosts.boot()
        counting = Counting(hosts)
        campaign = Campaign(hosts, random.Random(SEED))  # noqa: S311 - it must be repeatable
        for fault in islice(cycle(FAULTS), FAILOVERS):
            campaign.strike(fault)
            assert int(hosts.ask("check")["mismatches"]) == 0, f"seed {SEED}: {fault}\n{hosts.log_tail()}"
        seen = counting.end()
        status = hosts.settled()
    assert campaign.moved >= 1
    assert_unharmed(seen)
    assert status.device_state == "xen-save"
