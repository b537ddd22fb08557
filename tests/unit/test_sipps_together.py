"""Several SIPps of one client have a port each, and one without is no generator that had nothing to say."""

import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stealtime.hosts.client import LocalClient
from stealtime.hosts.waiting import poll
from stealtime.studies.telephony.appliance.configuration import SIP_PORT
from stealtime.studies.telephony.sipp.program import SippOrder, scenario_path, start_sipp
from stealtime.studies.telephony.sipp.together import started_together
from stealtime.vocabulary.errors import StealtimeError

pytestmark = pytest.mark.skipif(shutil.which("sipp") is None, reason="the package sip-tester is not installed")

ADDRESS = "127.0.9.6"
SERVER = "127.0.9.7"
SLOW_TO_LISTEN = b"""
#include <sys/syscall.h>
#include <unistd.h>
int listen(int socket, int backlog) { usleep(300000); return syscall(SYS_listen, socket, backlog); }
"""


def order(**changes: Any) -> SippOrder:
    """Give a phone that registers over a connection of its own."""
    plain = SippOrder(
        scenario=scenario_path("register"),
        target=SERVER,
        transport="tcp-each",
        calls=1,
        rate_per_s=20.0,
        users=["phone"],
        limit_s=5.0,
        answered_within_s=0.2,
    )
    return replace(plain, **changes)


@pytest.fixture
def slow_to_listen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have SIPp wait between the choice of its port and the moment at which it listens there."""
    library = tmp_path / "slow_to_listen.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=SLOW_TO_LISTEN, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))


@pytest.mark.usefixtures("slow_to_listen")
def test_each_of_several_gets_a_port_and_offers_its_share(tmp_path: Path) -> None:
    # The kernel takes their connections, and nobody answers.
    with (
        socket.create_server((SERVER, SIP_PORT)),
        started_together(LocalClient(ADDRESS), [order()] * 3, tmp_path) as running,
    ):
        assert [sipp.wait().counts.created for sipp in running] == [1] * 3


def test_one_that_gets_no_port_is_told(tmp_path: Path) -> None:
    with socket.create_server((ADDRESS, 0)) as server:
        options = ("-p", str(server.getsockname()[1]))
        sipp = start_sipp(LocalClient(ADDRESS), order(options=options), tmp_path / "refused")
        with pytest.raises(StealtimeError, match=r"SIPp did not get its port: .*Address already in use"):
            sipp.wait()


def test_one_that_is_killed_is_told_and_its_share_is_no_load(tmp_path: Path) -> None:
    with (
        socket.create_server((SERVER, SIP_PORT)),
        started_together(LocalClient(ADDRESS), [order(answered_within_s=5.0)] * 2, tmp_path) as running,
    ):
        first, second = running
        # Once a second it writes what it has counted so far.
        counts = tmp_path / "generator-1" / "statistics.csv"
        assert poll(lambda: counts.exists() and counts.read_text().count("\n") > 1, 20.0)
        second.process.kill()
        with pytest.raises(StealtimeError, match="SIPp was ended by SIGKILL"):
            second.wait()
        first.begin_no_more()
