"""``stealtime check`` of machines that are reached over ssh and by QEMU's guest agent, both as real programs here."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from guest_agent_daemon import guest_agent
from test_ssh import Server, server

from stealtime.check.bars import read_bar
from stealtime.check.checking import Order, check
from stealtime.check.document import CheckDocument
from stealtime.check.target import place_of
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [pytest.mark.guest, pytest.mark.beside]

__all__ = ["server"]

CPUS = sorted(os.sched_getaffinity(0))
BAR = "1h"
"""What is asked here is the way there and back."""


async def checked(target: str, duration_ns: int = 300_000_000) -> tuple[CheckDocument, list[str]]:
    progress: list[str] = []
    order = Order(target, read_bar(BAR), duration_ns)
    return await check(order, place_of(target), progress.append), progress


async def cancelled_while(target: str, is_under_way: Callable[[list[str]], bool]) -> None:
    progress: list[str] = []
    order = Order(target, read_bar(BAR), 60_000_000_000)
    task = asyncio.ensure_future(check(order, place_of(target), progress.append))
    async with asyncio.timeout(30):
        while not is_under_way(progress):  # noqa: ASYNC110 - the test looks on
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def agents_in(folder: Path) -> list[str]:
    """Give the processes that run what was copied there."""
    listed = subprocess.run(["pgrep", "-f", f"^{folder}/"], capture_output=True, text=True, check=False)
    return listed.stdout.split()


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def await_none_left(folder: Path) -> None:
    async with asyncio.timeout(10):
        while left_in(folder) or agents_in(folder):  # noqa: ASYNC110 - other processes remove them
            await asyncio.sleep(0.05)


def test_this_machine_is_checked_by_default() -> None:
    command = [str(Path(sys.executable).parent / "stealtime"), "check", "--bar", BAR, "--for", "300ms"]
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["target"], document["verdict"]) == ("here", "passed")
    assert [cpu["cpu"] for cpu in document["agent"]["cpus"]] == CPUS
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert told.stdout.startswith("PASSED: at most "), told.stdout


async def test_a_machine_over_ssh_is_checked_and_nothing_is_left_there(server: Server) -> None:
    target = f"ssh:someone@127.0.0.1:{server.port}"
    document, progress = await checked(target)
    assert (document.target, document.verdict) == (target, "passed")
    assert progress
    assert server.left_behind() == []


async def test_an_interrupted_check_over_ssh_leaves_nothing_there(server: Server) -> None:
    target = f"ssh:someone@127.0.0.1:{server.port}"
    await cancelled_while(target, lambda progress: any(" of 60 s" in line for line in progress))
    await await_none_left(server.remote_temporary)


async def test_a_guest_is_checked_by_its_guest_agent_and_nothing_is_left_there(tmp_path: Path) -> None:
    temporary = tmp_path / "guest"
    temporary.mkdir()
    async with guest_agent(tmp_path, temporary) as socket:
        document, progress = await checked(f"guest-agent:{socket}")
        assert document.verdict == "passed"
        assert [cpu["cpu"] for cpu in document.agent["cpus"]] == CPUS
        assert any("100%" in line for line in progress)
        assert left_in(temporary) == []
        # What is left in the channel of one check is not taken for an answer by the next.
        await cancelled_while(f"guest-agent:{socket}", lambda progress: "measuring" in "".join(progress))
        await await_none_left(temporary)
        again, _ = await checked(f"guest-agent:{socket}")
        assert again.verdict == "passed"


async def test_a_guest_agent_that_may_not_execute_is_told_in_a_sentence(tmp_path: Path) -> None:
    async with guest_agent(tmp_path, tmp_path, "--blacklist", "guest-exec") as socket:
        with pytest.raises(StealtimeError, match=r"does not allow guest-exec$") as caught:
            await checked(f"guest-agent:{socket}")
    assert "--block-rpcs" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("libvirt", "domain", "why", "hint"),
    [
        ("test:///default", "nobody", "failed to get domain 'nobody'", "virsh list --all"),
        ("test:///default", "test", "not supported by the connection driver", "only domains of QEMU"),
        ("qemu+unix:///system?socket=/nowhere", "vm", "failed to connect to the hypervisor", "is libvirtd running"),
    ],
)
async def test_what_libvirt_refuses_is_told_in_its_words(
    libvirt: str, domain: str, why: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", libvirt)
    with pytest.raises(StealtimeError, match=f"the domain {domain} cannot be asked: .*{why}") as caught:
        await checked(f"libvirt:{domain}")
    assert hint in (caught.value.hint or "")


async def test_a_guest_without_an_agent_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StealtimeError, match="cannot be reached: No such file") as caught:
        await checked(f"guest-agent:{tmp_path / 'none.sock'}")
    assert "qemu-guest-agent" in (caught.value.hint or "")
