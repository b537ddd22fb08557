"""A guest that writes each value to its disk before it acknowledges it, and the deaths of its hosts.

The counter reads its disk past the guest's page cache, and knows from its memory what each block must hold: a write
that is missing shows, and one that the memory has forgotten.
"""

import hashlib
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from failover_campaign import Campaign
from truth import repetitions, seed
from two_hosts import Counting, TwoHosts, assert_unharmed, await_that, laboratory_or_skip, other

from stealtime.hosts.counting import COUNTER
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

SEED = seed()
"""Printed by every failure; give it to have the same campaign again."""

FAULTS = (
    "kill-member",
    "after-stage, delay",
    "planned, the active dies after-claim",
    "after-apply",
    "power-off",
    "during-ship",
    "kill-qemu",
    "before-release",
    "planned, the standby dies after-load",
    "after-copy",
    "cut-link",
)
FAILOVERS = repetitions(few=5, full=40, variable="STEALTIME_FAILOVERS")

IMAGE_BYTES = 64 << 20
FILLED_BYTES = 8 << 20
"""What is on it before: the counter's blocks are in front of it."""


BLOCK_BYTES = 64 << 10
COUNTER_BYTES = 2048 * 4096
"""The blocks that a counter goes round in (``crates/witness/src/counter/disk.rs``)."""


def make_image(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(IMAGE_BYTES)
        file.seek(IMAGE_BYTES // 2)
        file.write(random.Random(1).randbytes(FILLED_BYTES))  # noqa: S311 - only to be other than zeros


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoHosts]:
    image = tmp_path_factory.mktemp("disks") / "data.raw"
    make_image(image)
    with laboratory_or_skip() as laboratory:
        guest = TwoHosts(
            laboratory,
            interval="50ms",
            program_arguments=[*COUNTER, "disk=/dev/vda"],
            disks=[{"name": "data", "path": str(image)}],
        )
        guest.boot()
        yield guest


def images(hosts: TwoHosts) -> dict[str, Path]:
    """Give the image of the disk on each host, wherever that is."""
    found = {}
    for name in ("a", "b"):
        status = hosts.status(name)
        assert status is not None
        found[name] = Path(status.disks[0])
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def assert_equal_images(hosts: TwoHosts) -> None:
    """Assert that a guest that writes nothing has the same on both hosts."""
    hosts.settled()

    def are_equal() -> bool:
        return len({digest(path) for path in images(hosts).values()}) == 1

    await_that(are_equal, lambda: f"the images differ\n{hosts.log_tail()}", poll_s=0.3)


def mismatches(hosts: TwoHosts) -> int:
    return int(hosts.ask("check")["mismatches"])


def test_what_was_acknowledged_is_on_the_disk_after_every_death(hosts: TwoHosts) -> None:
    chance = random.Random(SEED)  # noqa: S311 - it must be repeatable
    plan = [FAULTS[number % len(FAULTS)] for number in range(FAILOVERS)]
    sys.stdout.write(f"seed {SEED}: {', '.join(plan)}\n")
    counting = Counting(hosts)
    campaign = Campaign(hosts, chance)
    for what in plan:
        campaign.strike(what)
        assert mismatches(hosts) == 0, f"seed {SEED}: {what}\n{hosts.log_tail()}"
    seen = counting.end()
    assert campaign.moved >= 1
    assert_unharmed(seen)
    # Each value was written and read again.
    assert seen["check"]["total"] > 100
    assert_equal_images(hosts)


def test_what_a_host_wrote_beyond_the_last_epoch_is_gone_when_it_returns(hosts: TwoHosts) -> None:
    before = hosts.settled()
    lost = images(hosts)[before.host]
    hosts.strike("kill")
    hosts.power_off(before.host)
    survivor = other(before.host)
    hosts.await_running(survivor)
    # Where the counter has written, where it has not, and where nobody ever had: none of it was acknowledged.
    newer = [100 * 4096, IMAGE_BYTES // 2 + (1 << 20), IMAGE_BYTES - 4096]
    with lost.open("r+b") as file:
        for offset in newer:
            file.seek(offset)
            file.write(b"newer" * 800)
    hosts.start_daemon(before.host)
    assert_equal_images(hosts)
    with lost.open("rb") as file:
        for offset in newer:
            file.seek(offset)
            assert b"newer" not in file.read(4096)
    assert mismatches(hosts) == 0
    # Only what differed came: nearly nothing of what was filled.
    copied = [event for event in hosts.events(survivor) if event["event"] == "disks-copied"][-1]
    assert copied["compared_bytes"] == IMAGE_BYTES
    blocks = copied["copied_bytes"] / BLOCK_BYTES
    assert len(newer) <= blocks <= len(newer) + COUNTER_BYTES / BLOCK_BYTES + 1


def test_a_second_machine_does_not_get_the_image(hosts: TwoHosts) -> None:
    active = hosts.settled()
    image = images(hosts)[active.host]
    error = hosts.boot_from(active.host, "rival", image)
    assert error is not None
    assert f"the disk image {image} is in use by another program" in str(error), error
    assert mismatches(hosts) == 0


def test_a_block_that_the_standby_does_not_have_is_seen(hosts: TwoHosts) -> None:
    # The check of the tests above, shown a loss. The guest has lost a block for good then.
    active = hosts.settled()
    standby = other(active.host)
    counting = Counting(hosts)
    counting.await_answers()
    counting.end()
    total = hosts.ask("status")["total"]
    with images(hosts)[standby].open("r+b") as file:
        file.seek(total * 4096 % COUNTER_BYTES)
        file.write(bytes(4096))
    hosts.kill_active()
    hosts.await_running(standby)
    with pytest.raises(StealtimeError, match="does not answer check"):
        hosts.ask("check")
    lost = total * 4096 % COUNTER_BYTES // 4096
    assert f"counter: the disk's blocks [{lost}] are wrong" in hosts.log_tail()


def test_an_image_that_was_left_behind_is_not_booted(hosts: TwoHosts) -> None:
    active = hosts.settled()
    behind = other(active.host)
    image = images(hosts)
    hosts.power_off(behind)

    def is_alone() -> bool:
        status = hosts.status(active.host)
        return status is not None and status.role == "solo"

    await_that(is_alone, hosts.log_tail)
    hosts.control(active.host).stop()
    error = hosts.boot_from(behind, hosts.name, image[behind])
    assert error is not None
    assert "the machine has run elsewhere since" in str(error), error
    assert hosts.boot_from(active.host, hosts.name, image[active.host]) is None
