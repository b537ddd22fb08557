"""Disks of guests on file systems that fail: a power cut of both hosts, and one without room.

Both hosts lose their power at once, with what their file systems had not brought to the medium.

With ``flush = "stable"`` each value that was acknowledged is on the standby's medium. With ``"memory"`` it is not, and
the test sees it.
"""

import contextlib
import os
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from forgetful_disk import after_a_power_cut, forgetful_disk, mounted, small_file_system
from truth import some_of
from two_hosts import Counting, TwoHosts, assert_unharmed, await_that, laboratory_or_skip

from stealtime.hosts.counting import COUNTER
from stealtime.hosts.laboratory import Laboratory
from stealtime.hosts.namespace_testbed import STANDBY

pytestmark = [
    pytest.mark.longer,
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs, network namespaces and mounts need root"),
]

IMAGE_BYTES = 16 << 20
BLOCK_BYTES = 4096
BLOCKS = 2048
_MASK = (1 << 64) - 1


def mix(number: int) -> int:
    """As ``crates/witness/src/counter/ledger.rs``."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK
    return number ^ (number >> 31)


def block_of(total: int) -> bytes:
    """As ``crates/witness/src/counter/disk.rs``."""
    return b"".join(mix(total ^ mix(word)).to_bytes(8, "little") for word in range(BLOCK_BYTES // 8))


def totals_on(image: Path, newest: int) -> int:
    """Give up to which total an image has all of them."""
    with image.open("rb") as file:
        for total in range(1, newest + 1):
            file.seek(total % BLOCKS * BLOCK_BYTES)
            if file.read(BLOCK_BYTES) != block_of(total):
                return total - 1
    return newest


@pytest.mark.parametrize("flush", some_of(["stable", "memory"], "stable"))
def test_what_was_acknowledged_is_on_the_standbys_medium(flush: str, tmp_path: Path) -> None:
    source = tmp_path / "data.raw"
    with source.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    backing, cut = tmp_path / "b.ext4", tmp_path / "b-after.ext4"
    with ExitStack() as stack:
        stack.enter_context(forgetful_disk(backing, tmp_path / "b", 8 * IMAGE_BYTES))
        laboratory = stack.enter_context(laboratory_or_skip())
        hosts = TwoHosts(
            laboratory,
            interval="50ms",
            flush=flush,
            program_arguments=[*COUNTER, "disk=/dev/vda"],
            disks=[{"name": "data", "path": str(source)}],
        )
        hosts.laboratory.power_off(STANDBY)
        hosts.testbed.tell(
            STANDBY,
            listen=hosts.vm.standby_hosts[0].endpoint,
            identity=hosts.testbed.identity(STANDBY),
            disks=tmp_path / "b" / "disks",
        )
        hosts.testbed.start_daemon(STANDBY)
        hosts.boot()
        counting = Counting(hosts)
        counting.await_answers()
        time.sleep(3)
        # The status is an answer like others: what it tells was acknowledged.
        acknowledged = int(hosts.ask("status")["total"])
        after_a_power_cut(backing, cut)
        hosts.stop()
        hosts.start_daemon("a")
        stack.enter_context(mounted(cut, tmp_path / "after"))
        image = tmp_path / "after" / "disks" / hosts.name / "data.raw"
        # A start does with the journal what is to be done; the counter writes nothing before it is asked to.
        assert hosts.boot_from("a", "after", image) is None
        hosts.stop()
        found = totals_on(image, acknowledged)
    if flush == "stable":
        assert found == acknowledged
    else:
        assert found < acknowledged, "nothing is forgotten here, so that nothing was shown"


def test_a_guest_waits_for_room_on_its_hosts_disk(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stack.enter_context(forgetful_disk(tmp_path / "a.ext4", tmp_path / "a", 2 * IMAGE_BYTES))
        image, filler = tmp_path / "a" / "data.raw", tmp_path / "a" / "filler"
        laboratory = stack.enter_context(laboratory_or_skip())
        hosts = _alone(laboratory, image)
        _fill(filler)
        counting = Counting(hosts)
        told = await_that(lambda: _disk_alarm(hosts), hosts.log_tail)
        assert "the disk data takes no writes" in told, told
        assert "No space left on device" in told, told
        filler.unlink()
        await_that(lambda: _disk_alarm(hosts) is None, hosts.log_tail)
        counting.await_answers()
        assert_unharmed(counting.end())
        hosts.stop()


@pytest.mark.truth
def test_a_medium_that_takes_nothing_is_an_alarm(tmp_path: Path) -> None:
    with ExitStack() as stack:
        small = stack.enter_context(small_file_system(tmp_path / "small", 48 << 20))
        # It has more room than what is below it, as a thinly provisioned disk has.
        stack.enter_context(forgetful_disk(small / "a.ext4", tmp_path / "a", 16 * IMAGE_BYTES))
        image, filler = tmp_path / "a" / "data.raw", small / "filler"
        laboratory = stack.enter_context(laboratory_or_skip())
        hosts = _alone(laboratory, image)
        _fill(filler)
        counting = Counting(hosts)
        told = await_that(lambda: _disk_alarm(hosts), hosts.log_tail)
        assert f"what was written to {image} does not come to its medium" in told, told
        counting.end()
        hosts.stop()


def _alone(laboratory: Laboratory, image: Path) -> TwoHosts:
    """Boot a guest that nobody protects, from a new image."""
    with image.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    disks = [{"name": "data", "path": str(image)}]
    hosts = TwoHosts(laboratory, mode="off", program_arguments=[*COUNTER, "disk=/dev/vda"], disks=disks)
    hosts.boot()
    return hosts


def _fill(filler: Path) -> None:
    """Leave no room on a file system."""
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()


def _disk_alarm(hosts: TwoHosts) -> str | None:
    status = hosts.status("a")
    assert status is not None
    return next((alarm.text for alarm in status.alarms if alarm.kind == "disk"), None)
