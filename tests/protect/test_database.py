"""PostgreSQL in a Debian guest with a disk, whose hosts die: no transaction that was acknowledged is missing.

The database says by itself whether its tables and indexes are whole (``amcheck``), and ``e2fsck`` whether its file
system is.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bootable_image import make_bootable
from forgetful_disk import after_a_power_cut, forgetful_disk, mounted
from truth import repetitions, seed
from two_hosts import TIMING, laboratory_or_skip

from stealtime.hosts.database.guest import MEMORY, DatabaseClient, database_machine
from stealtime.hosts.database.image import DatabaseImage, database_image
from stealtime.hosts.guest import Guest
from stealtime.hosts.host import FaultKind
from stealtime.hosts.laboratory import GUEST_INTERFACE
from stealtime.hosts.namespace_testbed import HOSTS, STANDBY, NamespaceTestbed
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [
    pytest.mark.longer,
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

FAILOVERS = repetitions(few=5, full=20, variable="STEALTIME_FAILOVERS")
SEED = seed()
"""Printed by every failure; give it to have the same moments again."""

_PROTECTED_WITHIN_S = 180.0
_KINDS: tuple[FaultKind, ...] = ("killed", "killed", "planned")


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with laboratory_or_skip() as laboratory:
        machine = database_machine(_image(), laboratory.folder / "disks", "net", interval="100ms", min_interval="10ms")
        guest = NamespaceTestbed(laboratory, allow_faults=True).guest("database", timing=TIMING, **machine)
        guest.start()
        guest.await_ready(within_s=_PROTECTED_WITHIN_S)
        yield guest


def test_no_acknowledged_transaction_is_missing(guest: Guest, tmp_path: Path) -> None:
    chance = random.Random(SEED)  # noqa: S311 - it must be repeatable
    sys.stdout.write(f"seed {SEED}\n")
    client = DatabaseClient(guest)
    try:
        client.await_begin()
        for number in range(FAILOVERS):
            active = guest.await_ready(within_s=_PROTECTED_WITHIN_S)
            time.sleep(chance.uniform(0.5, 2.0))
            kind = chance.choice(_KINDS)
            guest.lose_host(guest.await_ready(), kind)
            guest.await_taken(guest.other_host(active.host))
            assert client.process.poll() is None, f"seed {SEED}, failover {number}\n{guest.waiting.log_tail()}"
        last = guest.await_ready(within_s=_PROTECTED_WITHIN_S)
        seen = client.end()
    finally:
        client.close()
    assert seen.acknowledged > FAILOVERS * 10, seen.acknowledged
    assert seen.missing == []
    assert seen.damage == []
    assert seen.connections_lost == 0, "the connection is part of what survives"
    guest.end()
    _assert_whole_file_system(Path(last.disks[0]), tmp_path)


@pytest.mark.truth
@pytest.mark.parametrize(("machine_type", "bus"), [("pc", "virtio"), ("q35", "scsi")])
def test_a_machine_with_a_boot_loader_of_its_own_is_protected(machine_type: str, bus: str, tmp_path: Path) -> None:
    with laboratory_or_skip() as laboratory:
        testbed = NamespaceTestbed(laboratory, allow_faults=True)
        disk = tmp_path / "bootable.raw"
        make_bootable(_image(), disk, GUEST_INTERFACE)
        root = {"name": "root", "path": str(disk), "bus": bus}
        machine: dict[str, Any] = {"kernel": "disk", "memory": MEMORY, "machine": machine_type, "disks": [root]}
        guest = testbed.guest("database", timing=TIMING, mode="net", min_interval="10ms", **machine)
        guest.start()
        guest.await_ready(within_s=_PROTECTED_WITHIN_S)
        client = DatabaseClient(guest)
        try:
            client.await_begin()
            time.sleep(3.0)
            active = guest.await_ready(within_s=_PROTECTED_WITHIN_S)
            guest.lose_host(active)
            guest.await_taken(guest.other_host(active.host))
            time.sleep(3.0)
            seen = client.end()
        finally:
            client.close()
    assert seen.acknowledged > 10
    assert (seen.missing, seen.damage, seen.connections_lost) == ([], [], 0)


@pytest.mark.truth
def test_a_power_cut_of_both_hosts_takes_no_transaction_where_flush_is_stable(tmp_path: Path) -> None:
    backing, cut = tmp_path / "b.ext4", tmp_path / "b-after.ext4"
    with ExitStack() as stack:
        stack.enter_context(forgetful_disk(backing, tmp_path / "b", 3 << 30))
        laboratory = stack.enter_context(laboratory_or_skip())
        testbed = NamespaceTestbed(laboratory, allow_faults=True)
        machine = database_machine(
            _image(), laboratory.folder / "disks", "net", interval="100ms", min_interval="10ms", flush="stable"
        )
        guest = testbed.guest("database", timing=TIMING, **machine)
        laboratory.power_off(STANDBY)
        endpoint = next(host.endpoint for host in guest.vm.standby_hosts if host.name == STANDBY)
        testbed.tell(STANDBY, listen=endpoint, identity=testbed.identity(STANDBY), disks=tmp_path / "b" / "disks")
        testbed.start_daemon(STANDBY)
        guest.start()
        guest.await_ready(within_s=_PROTECTED_WITHIN_S)
        client = DatabaseClient(guest)
        stack.callback(client.close)
        client.await_begin()
        time.sleep(5.0)
        active = guest.await_ready(within_s=_PROTECTED_WITHIN_S)
        assert active.host != STANDBY
        # Who stands says nothing more, and goes on alone no more: all that anybody was told is on the medium by then.
        for member in sorted(guest.members(), key=lambda one: one.host == STANDBY):
            assert member.pid is not None
            os.kill(member.pid, signal.SIGSTOP)
        after_a_power_cut(backing, cut)
        for name in HOSTS:
            laboratory.power_off(name)
        testbed.start_daemon(active.host)
        stack.enter_context(mounted(cut, tmp_path / "after"))
        image = tmp_path / "after" / "disks" / guest.name / "root.raw"
        # Its address is the same, so the client finds it, and asks it for what it was told.
        again = {**guest._machine, "name": "after", "mode": "off", "disks": [{"name": "root", "path": str(image)}]}
        again.pop("min_interval")
        testbed.host(active.host).start(again)
        seen = client.end()
    assert seen.acknowledged > 20
    assert seen.connections_lost == 1
    assert (seen.missing, seen.damage) == ([], [])


def _image() -> DatabaseImage:
    try:
        return database_image()
    except StealtimeError as error:
        pytest.skip(f"no database here: {error.message}")


def _assert_whole_file_system(image: Path, folder: Path) -> None:
    """Assert that ``e2fsck`` finds nothing once it has replayed the journal, as mounting would: on a copy."""
    copy = folder / "root.raw"
    subprocess.run(["cp", "--sparse=always", image, copy], check=True)
    e2fsck = shutil.which("e2fsck", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    assert e2fsck is not None
    subprocess.run([e2fsck, "-E", "journal_only", "-y", copy], check=True, capture_output=True)
    checked = subprocess.run([e2fsck, "-f", "-n", copy], check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
