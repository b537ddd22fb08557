"""A guest that runs rt-app, as somebody's control software, and is reached over ssh."""

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
from debian_guest import COMMAND_LINE, Content, DebianGuest, debian_guest

_UP_WITHIN_S = 120.0
_SSH_SERVER = "usr/sbin/dropbear"
_RT_APP = "usr/bin/rt-app"
_KEY = "id_ed25519"


@dataclass(frozen=True)
class Reached:
    """A guest that is up."""

    machine: str
    """As ``--machine`` takes it."""
    process: int
    """Of rt-app, there."""
    home: Path
    """With the key that opens it, and the one that it shows."""


def guest_with_rt_app(folder: Path, file: Mapping[str, Any], public_key: str) -> DebianGuest:
    """Make one in an empty folder.

    Args:
        folder: The folder.
        file: What rt-app does, as its own file has it.
        public_key: Who may log in as root.

    Raises:
        StealtimeError: Debian's packages cannot be had.
    """
    files = {
        "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
        "etc/group": "root:x:0:\n",
        "etc/shells": "/bin/sh\n",
        "root/.ssh/authorized_keys": public_key,
        "etc/rt-app.json": json.dumps(file),
    }
    then = f"""
mkdir -p /etc/dropbear /var/run /var/log
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
/{_SSH_SERVER} -R -s -E
/{_RT_APP} /etc/rt-app.json
poweroff -f
"""
    return debian_guest(
        folder,
        Content(
            what="the guest that runs rt-app",
            kernel="rt",
            modules=("virtio_pci", "virtio_net"),
            packages=("dropbear-bin", "rt-app"),
            programs=(_SSH_SERVER, _RT_APP),
            files=files,
            then=then,
        ),
    )


@asynccontextmanager
async def booted_with_rt_app(folder: Path, file: Mapping[str, Any]) -> AsyncIterator[Reached]:
    """Boot one under TCG with two virtual CPUs, and end it; rt-app runs when it is given."""
    home = folder / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(home / ".ssh" / _KEY)
    made = folder / "guest"
    made.mkdir()
    guest = guest_with_rt_app(made, file, key.export_public_key().decode())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-accel", "tcg"]
    argv += ["-cpu", "max", "-smp", "2", "-m", "512", "-kernel", str(guest.kernel), "-initrd", str(guest.initramfs)]
    argv += ["-append", COMMAND_LINE, "-serial", f"file:{folder / 'console.log'}"]
    argv += ["-netdev", f"user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
    argv += ["-device", "virtio-net-pci,netdev=n,romfile="]
    qemu = await asyncio.create_subprocess_exec(*argv)
    try:
        shown = await _key_of(port, qemu)
        assert shown is not None, f"the guest is not reached over ssh: {_end_of(folder / 'console.log')}"
        known_hosts = home / ".ssh" / "known_hosts"
        known_hosts.write_bytes(f"[127.0.0.1]:{port} ".encode() + shown.export_public_key())
        async with asyncssh.connect(
            "127.0.0.1", port, username="root", client_keys=[key], known_hosts=str(known_hosts), config=None
        ) as connection:
            said = await connection.run("pidof rt-app", check=True)
        yield Reached(f"ssh:root@127.0.0.1:{port}", int(str(said.stdout)), home)
    finally:
        with contextlib.suppress(ProcessLookupError):
            qemu.kill()
        await qemu.wait()


async def _key_of(port: int, qemu: asyncio.subprocess.Process) -> asyncssh.SSHKey | None:
    """Give the key that the guest shows, as soon as it does; None where it does not."""
    deadline = time.monotonic() + _UP_WITHIN_S
    while time.monotonic() < deadline and qemu.returncode is None:
        with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
            async with asyncio.timeout(10):
                shown = await asyncssh.get_server_host_key("127.0.0.1", port, config=None)
            if shown is not None:
                return shown
        await asyncio.sleep(0.5)
    return None


def _end_of(console: Path) -> str:
    return console.read_text("utf-8", "replace")[-2000:]
