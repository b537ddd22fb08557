"""Guests that others started and reach: a domain of libvirt, and a guest's own view over a real ssh server."""

import asyncio
import json
import os
import pwd
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from libvirt_daemon import Libvirt, libvirt_session, require, wait_for
from machines import needs_root

from stealtime.capacity.collector import Collector
from stealtime.capacity.counters import monitor
from stealtime.capacity.counters.parsers import parse_cpu_rows
from stealtime.capacity.guest import Guest
from stealtime.capacity.guests.view import GuestViews
from stealtime.capacity.sample import GuestSample, GuestView
from stealtime.vocabulary.readings import Absent

pytestmark = [pytest.mark.guest, needs_root]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>64</memory>
  <vcpu>2</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <emulator>{qemu}</emulator>
    <controller type='usb' model='none'/>
  </devices>
</domain>
"""


@pytest.fixture
def libvirt() -> Iterator[Libvirt]:
    with libvirt_session() as session:
        yield session


def of_domain(collector: Collector, name: str) -> GuestSample | None:
    return next((one for one in collector.sample().guests.values() if one.guest.name == name), None)


def delays_ns(libvirt: Libvirt, domain: str) -> list[int]:
    told = dict(line.strip().split("=", 1) for line in libvirt.virsh("domstats", "--vcpu", domain).splitlines()[1:])
    return [int(told[f"vcpu.{number}.delay"]) for number in range(2)]


@pytest.mark.truth
def test_a_domain_of_libvirt_is_found_by_its_name_and_judged(libvirt: Libvirt, tell: Callable[[str], None]) -> None:
    name = f"stealtime-{os.getpid()}"
    description = DOMAIN.format(name=name, qemu=require("qemu-system-x86_64", "qemu-system-x86"))
    with libvirt.domain(name, description), Collector() as collector:
        wait_for(lambda: (one := of_domain(collector, name)) is not None and one.unreadable is None, "it is found")
        before = delays_ns(libvirt, name)
        found = of_domain(collector, name)
        after = delays_ns(libvirt, name)
        assert found is not None
        vcpus = {thread.vcpu: found.counts[thread.tid] for thread in found.threads if thread.vcpu is not None}
        assert sorted(vcpus) == [0, 1]
        # libvirt reads the same counter: `vcpu.N.delay`.
        for number in (0, 1):
            assert before[number] <= vcpus[number].wait_ns <= after[number], (before, vcpus, after)
        # libvirt holds its monitor, which is on no path.
        looked = asyncio.run(monitor.look(found.guest))
        assert isinstance(looked.balloon_bytes, Absent)
        argv = [STEALTIME, "advise", "--for", "10s", "--json"]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        (told,) = [one for one in json.loads(ended.stdout)["guests"] if one["name"] == name]
    tell(f"libvirt: {told['name']} ({told['kind']}) {told['verdict']}; {told['because']}")
    assert told["kind"] == "qemu"
    assert "value" in told["figures"]["vcpu_run_percent of vCPU 1"]


@dataclass
class Server:
    port: int
    process: subprocess.Popen[bytes]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Start OpenSSH's server on loopback, and let `ssh` know its key and ours, as settings of a user's own would."""
    sshd, ssh = require("sshd", "openssh-server"), require("ssh", "openssh-client")
    # It takes its rights away there; the package's service makes the folder.
    separation = Path("/run/sshd")
    is_ours = not separation.exists()
    separation.mkdir(mode=0o755, exist_ok=True)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path / 'host'}\nPidFile none\nUsePAM no\nStrictModes no\n"
        f"PermitRootLogin prohibit-password\nAuthorizedKeysFile {tmp_path / 'user.pub'}\n"
    )
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {(tmp_path / 'host.pub').read_text()}")
    (tmp_path / "ssh_config").write_text(
        f"IdentityFile {tmp_path / 'user'}\nIdentitiesOnly yes\nUserKnownHostsFile {tmp_path / 'known_hosts'}\n"
    )
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin/ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {ssh} -F {tmp_path / "ssh_config"} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    process = subprocess.Popen([sshd, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=subprocess.PIPE)
    try:
        wait_for(lambda: is_open(port), "sshd listens")
        yield Server(port, process)
    finally:
        process.terminate()
        process.communicate()
        if is_ours:
            separation.rmdir()


def is_open(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def idle_ticks(rows: dict[int, tuple[int, ...]]) -> dict[int, int]:
    return {cpu: row[3] for cpu, row in rows.items()}


def test_a_guests_own_view_comes_over_ssh(server: Server) -> None:
    # In truth this host, of which a second reader tells the same.
    way = f"ssh:{pwd.getpwuid(os.geteuid()).pw_name}@127.0.0.1:{server.port}"
    views = GuestViews({"web": way})
    try:
        ask = views.of(Guest("web", "qemu", 1, 1))
        answers: list[GuestView | Absent] = []

        def answered() -> bool:
            # The first answer may take longer than the collector's patience: it logs in.
            answers.append(ask())
            return isinstance(answers[-1], GuestView)

        wait_for(answered, "it answers")
        before = idle_ticks(parse_cpu_rows(Path("/proc/stat").read_bytes()))
        view = ask()
        after = idle_ticks(parse_cpu_rows(Path("/proc/stat").read_bytes()))
        assert isinstance(view, GuestView)
        assert view.vcpus == len(before) == len(view.ticks)
        assert view.running >= 1
        told = idle_ticks(dict(view.ticks))
        assert all(before[cpu] <= told[cpu] <= after[cpu] for cpu in before), (before, told, after)
        # The host stays what it is when the guest can no longer be asked.
        views.close()
        assert isinstance(ask(), Absent)
    finally:
        views.close()
