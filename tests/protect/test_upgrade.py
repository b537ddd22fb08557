"""Hosts whose program is replaced while their machines go on: they leave, and come back to the new one."""

import inspect
import os
import shutil
import stat
import sys
from pathlib import Path

import pytest
from counting_guest import CountingGuest
from protect_command import protect
from two_hosts import TIMING, assert_unharmed, laboratory_or_skip

from stealtime.hosts.counting import CountingClient
from stealtime.hosts.namespace_testbed import HOSTS, NamespaceTestbed
from stealtime.protect.programs import REPLICATOR_VARIABLE, find_replicator
from stealtime.protect.status import MemberStatus

pytestmark = [
    pytest.mark.protect,
    pytest.mark.skipif(os.geteuid() != 0, reason="TAPs and network namespaces need root"),
]

PREVIOUS_VARIABLE = "STEALTIME_PREVIOUS_REPLICATOR"
"""A replicator of the release before this one; docs/development.md says how one is built."""

_UNKNOWN_BEFORE = ("longest_hold_ns", "copy_order", "copies", "revoked")
"""What this Python side says to members and daemons, and one of the release before does not know."""


def without_unknown(value: object) -> object:
    """Give a document of ours as the release before would have written it."""
    if isinstance(value, dict):
        return {key: without_unknown(inner) for key, inner in value.items() if key not in _UNKNOWN_BEFORE}
    if isinstance(value, list):
        return [without_unknown(inner) for inner in value]
    return value


class Program:
    """The replicator of a host: a file of its own, that can be replaced.

    Args:
        path: Where it is.
        first: What it is a copy of at first; None: the one of this release.
    """

    def __init__(self, path: Path, first: Path | None) -> None:
        path.parent.mkdir()
        self.path = path
        self.new = find_replicator()
        if first is None:
            shutil.copy2(self.new, path)
            return
        path.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\n"
            f"_UNKNOWN_BEFORE = {_UNKNOWN_BEFORE!r}\n"
            f"{inspect.getsource(without_unknown)}\n"
            "file = sys.argv[3]\n"
            "told = without_unknown(json.load(open(file)))\n"
            "json.dump(told, open(file, 'w'))\n"
            f"os.execv({str(first)!r}, [{str(first)!r}, *sys.argv[1:]])\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def replacing_command(self) -> tuple[str, ...]:
        """Give what installs this release, as a package manager does it: under the running one."""
        return ("sh", "-c", f"cp {self.new} {self.path}.new && mv {self.path}.new {self.path}")

    def runs(self, member: MemberStatus) -> bool:
        """Tell whether a member is of what is installed now."""
        return os.path.samestat(Path(f"/proc/{member.pid}/exe").stat(), self.path.stat())


def previous() -> Path:
    chosen = os.environ.get(PREVIOUS_VARIABLE)
    if chosen is None:
        pytest.skip(f"{PREVIOUS_VARIABLE} names no replicator of the release before")
    return Path(chosen)


@pytest.mark.parametrize("first", ["this", "previous"])
@pytest.mark.truth
def test_hosts_are_upgraded_one_after_the_other_and_nothing_is_lost(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    was = previous() if first == "previous" else None
    programs = {name: Program(tmp_path / name / "stealtime-replicator", was) for name in HOSTS}

    def on(name: str) -> tuple[str, ...]:
        """Whatever is started next is of this host."""
        monkeypatch.setenv(REPLICATOR_VARIABLE, str(programs[name].path))
        return laboratory.host(name).prefix

    with laboratory_or_skip() as laboratory:
        on("a")
        testbed = NamespaceTestbed(laboratory)
        laboratory.power_off("b")
        on("b")
        testbed.start_daemon("b")
        on("a")
        guests = [CountingGuest(testbed, name, number=at, timing=TIMING) for at, name in enumerate(("one", "two"))]
        for guest in guests:
            guest.start()
        stays, goes = guests
        for guest in guests:
            guest.await_ready()
        moved = protect(testbed.state, "failover", "two", prefix=on("a"))
        assert moved.returncode == 0, moved.stderr
        assert goes.await_ready().host == "b"
        counting = CountingClient(stays, 3, "--check")
        stays.ask("status")
        for host, other in (HOSTS, HOSTS[::-1]):
            before = {guest.vm.name: guest.await_ready() for guest in guests}
            command = programs[host].replacing_command()
            # The first host cannot ask one of the release before for its machine; the second one can.
            knows = was is None or host == "b"
            done = protect(testbed.state, "upgrade", "--host", host, "--", *command, prefix=on(host))
            assert done.returncode == (0 if knows else 3), f"{done.stderr}\n{testbed.log_tail()}"
            for guest in guests:
                now = guest.await_ready()
                was_here = before[guest.vm.name].host == host
                assert now.host == (before[guest.vm.name].host if knows or not was_here else other), done.stderr
                here = guest.status(host)
                assert here is not None
                assert programs[host].runs(here), done.stderr
                if was_here:
                    assert f"{guest.vm.name} has left" in done.stderr
                    assert (f"{guest.vm.name} is back" in done.stderr) == knows, done.stderr
            assert f"the daemon of {host} is stealtime" in done.stderr
            if not knows:
                assert "its stealtime is older" in done.stderr
                assert protect(testbed.state, "failover", "one", prefix=on(other)).returncode == 0
                returned = stays.await_ready()
                assert returned.host == host
                older = f"{other} has an older stealtime"
                assert any(older in warning for warning in returned.warnings), returned.warnings
        for guest in guests:
            if guest.await_ready().host != "a":
                back = protect(testbed.state, "failover", guest.vm.name, prefix=on("a"))
                assert back.returncode == 0, back.stderr
        assert_unharmed(counting.end())
