"""A register whose file system is frozen (`fsfreeze`): it can be read, and each change waits until it thaws."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from two_hosts import TIMING, Counting, TwoHosts, assert_unharmed, await_that, laboratory_or_skip, lives, other

from stealtime.hosts.namespace_testbed import NamespaceTestbed
from stealtime.protect.status import MemberStatus
from stealtime.protect.vm_file import Register

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

_TIMING = {**TIMING, "register_deadline": "2500ms"}
_SIZE = 16 << 20
_FROZEN_S = 6.0
"""More than two `register_deadline`s: after that a member without an answer would have stopped the guest."""


class Volume:
    """A file system of its own that can be frozen."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "register"
        self._image = folder / "register.img"

    def mount(self) -> None:
        """Make and mount it; where that is not possible the test is skipped with the reason."""
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(_SIZE)
        image_path, mounted_at = str(self._image), str(self.path)
        for argv in (["mkfs.ext4", "-q", image_path], ["mount", "-o", "loop", image_path, mounted_at]):
            try:
                made = subprocess.run(argv, capture_output=True, text=True, check=False)
            except OSError as error:
                pytest.skip(f"no loop mounts here: {error}")
            if made.returncode != 0:
                pytest.skip(f"no loop mounts here: {made.stderr.strip()}")

    def unmount(self) -> None:
        """Take it away. Members that were killed may still hold it for a moment."""
        subprocess.run(["umount", "--lazy", self.path], check=True)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let nothing change; it thaws at the end, whatever happens: what waits for it cannot even be killed."""
        subprocess.run(["fsfreeze", "--freeze", self.path], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "--unfreeze", self.path], check=True)


@pytest.fixture
def hosts_and_volume(tmp_path: Path) -> Iterator[tuple[TwoHosts, Volume]]:
    volume = Volume(tmp_path)
    with ExitStack() as stack:
        volume.mount()
        stack.callback(volume.unmount)
        laboratory = stack.enter_context(laboratory_or_skip())
        testbed = NamespaceTestbed(laboratory, register=Register(folder=volume.path), allow_faults=True)
        hosts = TwoHosts(laboratory, testbed=testbed, interval="50ms", timing=_TIMING)
        hosts.boot()
        yield hosts, volume


def counted_with(hosts: TwoHosts) -> tuple[MemberStatus, Counting]:
    """Give who is active, and a client that it answers."""
    before = hosts.settled()
    counting = Counting(hosts)
    counting.await_answers()
    return before, counting


def test_a_guest_whose_standby_dies_while_the_register_is_frozen_goes_on_with_an_alarm(
    hosts_and_volume: tuple[TwoHosts, Volume],
) -> None:
    hosts, volume = hosts_and_volume
    before, counting = counted_with(hosts)
    standby_pid = hosts.pid(other(before.host))
    with volume.frozen():
        hosts.kill(standby_pid)

        def is_told() -> bool:
            status = hosts.status(before.host)
            assert status is not None
            assert status.pid == before.pid
            return any(alarm.kind == "register" and "has not answered for" in alarm.text for alarm in status.alarms)

        await_that(is_told, lambda: f"no alarm\n{hosts.log_tail()}")
    after = hosts.settled(unlike=frozenset({standby_pid}))
    assert after.pid == before.pid
    assert_unharmed(counting.end())


@pytest.mark.truth
def test_a_standby_that_claims_while_the_register_is_frozen_wins_when_it_thaws(
    hosts_and_volume: tuple[TwoHosts, Volume],
) -> None:
    hosts, volume = hosts_and_volume
    before, counting = counted_with(hosts)
    standby = other(before.host)
    standby_pid = hosts.pid(standby)
    with volume.frozen():
        # Without waiting for its end: a member that has just begun to write cannot be killed now.
        pid = hosts.strike("kill").pid
        assert pid is not None
        time.sleep(_FROZEN_S)
        # Its claim hangs, and it can be asked all the same.
        status = hosts.status(standby)
        assert status is not None
        assert (status.pid, status.role) == (standby_pid, "standby")
    await_that(lambda: not lives(pid), lambda: f"{pid} lives")
    after = hosts.settled(unlike=frozenset({pid}))
    assert (after.host, after.pid) == (standby, standby_pid)
    assert_unharmed(counting.end())
