"""``stealtime check`` of a real guest by the guest agent in it: a domain of libvirt, and one of QEMU alone."""

import asyncio
import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from debian_guest import COMMAND_LINE, DebianGuest
from guest_with_agent import PORT, guest_with_agent
from libvirt_daemon import libvirt_session, require, wait_for
from machines import needs_root

from stealtime.check.channels import SocketOfGuest, Virsh
from stealtime.check.guest_agent import Channel
from stealtime.vocabulary.errors import StealtimeError

pytestmark = [pytest.mark.guest, pytest.mark.truth, needs_root]

STEALTIME = str(Path(sys.executable).parent / "stealtime")
UP_WITHIN_S = 60.0
STALL_S = 1.5
"""Longer than anything that a translated guest does by itself."""
BAR = "1s"

DOMAIN = f"""
<domain type='qemu'>
  <name>{{name}}</name>
  <memory unit='MiB'>256</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{{kernel}}</kernel>
    <initrd>{{initramfs}}</initrd>
    <cmdline>{COMMAND_LINE}</cmdline>
  </os>
  <cpu mode='maximum'/>
  <devices>
    <emulator>{{qemu}}</emulator>
    <serial type='file'><source path='{{log}}'/></serial>
    <channel type='unix'>
      <source mode='bind' path='{{socket}}'/>
      <target type='virtio' name='{PORT}'/>
    </channel>
    <controller type='usb' model='none'/>
  </devices>
</domain>
"""


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> DebianGuest:
    return guest_with_agent(tmp_path_factory.mktemp("guest"))


async def asked(channel: Channel, command: str, arguments: dict[str, Any]) -> Any:
    async with channel.open() as asking:
        return await asking.ask(command, arguments)


def answers(channel: Channel) -> bool:
    try:
        asyncio.run(asked(channel, "guest-ping", {}))
    except StealtimeError:
        return False
    return True


def check(target: str, uri: str = "", for_s: float = 4.0) -> "subprocess.Popen[str]":
    argv = [STEALTIME, "check", target, "--bar", BAR, "--for", f"{for_s:g}s", "--json"]
    surroundings = {**os.environ, "LIBVIRT_DEFAULT_URI": uri} if uri else None
    return subprocess.Popen(argv, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def verdict_of(process: "subprocess.Popen[str]") -> tuple[int, dict[str, Any]]:
    output, said = process.communicate(timeout=90)
    assert output, said
    document: dict[str, Any] = json.loads(output)
    return process.returncode, document


def assert_it_judges_the_guest(target: str, channel: Channel, uri: str = "") -> None:
    code, document = verdict_of(check(target, uri))
    assert (code, document["verdict"]) == (0, "passed"), document
    assert document["target"] == target
    # It is the guest that was watched: this host has more CPUs.
    assert [cpu["cpu"] for cpu in document["agent"]["cpus"]] == [0]
    assert document["agent"]["cpus"][0]["samples"] > 100
    assert_nothing_is_left(channel)


def assert_a_stall_is_judged(target: str, channel: Channel, qemu: psutil.Process, uri: str) -> None:
    process = check(target, uri, for_s=10)
    wait_for(lambda: measures(channel) or process.poll() is not None, "the agent measures", UP_WITHIN_S)
    time.sleep(2)
    qemu.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    time.sleep(STALL_S)
    qemu.send_signal(signal.SIGCONT)
    stalled_ns = (time.monotonic() - begun) * 1e9
    code, document = verdict_of(process)
    assert (code, document["verdict"]) == (3, "failed"), document
    late_ns = document["agent"]["worst"]["late_ns"]
    assert 0.9 * stalled_ns < late_ns < stalled_ns + 0.5e9, (document["agent"]["summary"], stalled_ns)
    # Nobody in the guest is blamed for what its host did.
    assert "hypervisor" in document["agent"]["cause"]["text"], document["agent"]["cause"]
    assert_nothing_is_left(channel)


def measures(channel: Channel) -> bool:
    """Whether the agent is at it in the guest: its buffers of the kernel's trace are there then."""
    return listed(channel, "/sys/kernel/tracing/instances") != []


def assert_nothing_is_left(channel: Channel) -> None:
    assert not measures(channel)
    assert listed(channel, "/tmp") == []


def listed(channel: Channel, folder: str) -> list[str]:
    """Give what a folder in the guest has of ours."""
    request = {"path": "/bin/sh", "arg": ["-c", f"ls -d {folder}/stealtime-*"], "capture-output": True}
    started = asyncio.run(asked(channel, "guest-exec", request))
    while not (status := asyncio.run(asked(channel, "guest-exec-status", {"pid": started["pid"]})))["exited"]:
        time.sleep(0.1)
    return base64.b64decode(status.get("out-data", "")).decode().split()


def test_a_domain_of_libvirt_is_judged_from_inside(guest: DebianGuest) -> None:
    with libvirt_session() as libvirt:
        name = f"stealtime-{os.getpid()}"
        places = {}
        for what, source in (("kernel", guest.kernel), ("initramfs", guest.initramfs)):
            places[what] = libvirt.home / what
            shutil.copyfile(source, places[what])
            places[what].chmod(0o644)
        description = DOMAIN.format(
            name=name,
            qemu=require("qemu-system-x86_64", "qemu-system-x86"),
            log=libvirt.home / "serial.log",
            socket=libvirt.home / "agent.sock",
            **places,
        )
        with libvirt.domain(name, description), pytest.MonkeyPatch.context() as patch:
            patch.setenv("LIBVIRT_DEFAULT_URI", libvirt.uri)
            channel = Virsh(name)
            wait_for(lambda: answers(channel), "the guest agent answers", UP_WITHIN_S)
            [qemu] = [one for one in psutil.process_iter(["cmdline"]) if f"guest={name}" in " ".join(one.cmdline())]
            assert_it_judges_the_guest(f"libvirt:{name}", channel, libvirt.uri)
            assert_a_stall_is_judged(f"libvirt:{name}", channel, qemu, libvirt.uri)


@contextmanager
def booted(guest: DebianGuest, folder: Path) -> Iterator[Path]:
    path = folder / "agent.sock"
    argv = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "256M", "-nodefaults", "-display", "none"]
    argv += ["-kernel", str(guest.kernel), "-initrd", str(guest.initramfs), "-append", COMMAND_LINE, "-no-reboot"]
    argv += ["-serial", f"file:{folder / 'serial.log'}", "-device", "virtio-serial"]
    argv += ["-chardev", f"socket,path={path},server=on,wait=off,id=agent"]
    argv += ["-device", f"virtserialport,chardev=agent,name={PORT}"]
    process = psutil.Popen(argv)
    try:
        yield path
    finally:
        process.kill()
        process.wait()


def test_a_guest_of_qemu_alone_is_judged_from_inside(guest: DebianGuest, tmp_path: Path) -> None:
    with booted(guest, tmp_path) as path:
        channel = SocketOfGuest(path)
        wait_for(lambda: answers(channel), "the guest agent answers", UP_WITHIN_S)
        # QEMU's socket serves one at a time, so nobody can look on from here while the check goes on.
        assert_it_judges_the_guest(f"guest-agent:{path}", channel)
