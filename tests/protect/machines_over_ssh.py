"""Two machines that a user has prepared as docs/protect.md says: here namespaces, reached over real ssh and real TCP.

Each has a mount namespace of its own: what one of them keeps (its members' folders, its images) the other has not.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import asyncssh
import psutil
import ssh_server
from fetch_guests import fetch_telephony
from protect_command import STEALTIME

from stealtime.hosts import network
from stealtime.hosts.laboratory import GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.lab.image.cache import cache_folder
from stealtime.protect.endpoint import DEFAULT_PORT
from stealtime.protect.identity import make_identity
from stealtime.protect.state import STATE_VARIABLE

ADDRESSES = {"a": "10.77.1.1", "b": "10.77.1.2"}
"""Where ssh reaches them, on the network of the guests."""
FORCED = "b"
"""Where the user's key has the one command ``stealtime protect serve``."""
_UP_WITHIN_S = 30.0


def campaign_on_both(name: str, *lines: str) -> str:
    """Begin a campaign on ``a`` and ``b``, with further lines of its ``[define.hosts]``."""
    further = "\n".join(lines)
    return f"""
name = "{name}"
platforms = ["ssh:root@{ADDRESSES["a"]}"]
scenarios = ["our-hosts"]

[[define]]
name = "our-hosts"
[define.hosts]
standby = "ssh:root@{ADDRESSES["b"]}"
guest = "{GUEST_INTERFACE}"
stealtime = "{STEALTIME}"
{further}
"""


def registrations_on_both(name: str) -> str:
    """Begin a campaign whose server is measured on both, with a probe that takes little time."""
    return f"""{campaign_on_both(name, 'media_guest = "10.77.1.101"')}
[[probes]]
probe = "register"
duration = "2s"
mode = ["net"]
rate = [50]
"""


class MachinesOverSsh:
    """Machines ``a`` and ``b``, perhaps others, and one more whose user may log in there.

    Args:
        laboratory: Their networks; it stands.
        others: Further machines, with their addresses.
        without_daemon: Those where no daemon was started.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        *,
        others: Mapping[str, str] = MappingProxyType({}),
        without_daemon: Sequence[str] = (),
    ) -> None:
        # The user's network has no mirror of Debian: what a campaign fetches must be in the cache.
        fetch_telephony()
        self.laboratory = laboratory
        self.folder = laboratory.folder
        self.images = self.folder / "images"
        self.state = self.folder / "state"
        self._home = self.folder / "home"
        self._without_daemon = without_daemon
        for folder in (self.images, self.state, self.folder / "register"):
            folder.mkdir()
        (self._home / ".ssh").mkdir(parents=True, mode=0o700)
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(self._home / ".ssh/id_ed25519")
        (self.folder / "authorized").write_bytes(key.export_public_key())
        self.addresses = {**ADDRESSES, **others}
        known = [self._start(name, address) for name, address in self.addresses.items()]
        (self._home / ".ssh/known_hosts").write_text("".join(known))
        for name in self.addresses:
            self._await_up(name)

    def run(self, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
        """Start ``stealtime run`` on the third machine; its run is stored in a folder of its own."""
        environment = {**os.environ, "HOME": str(self._home), "XDG_CACHE_HOME": str(cache_folder().parent)}
        return subprocess.Popen(
            [*self.laboratory.client.prefix, str(STEALTIME), "run", *arguments],
            env={**environment, "XDG_DATA_HOME": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def left_on(self, name: str) -> list[str]:
        """Give what is on a machine that a campaign could have left: images, members' folders, processes of guests."""
        root = Path(f"/proc/{self._servers[name].pid}/root")
        inside = [root / str(folder).lstrip("/") for folder in (self.images, self.state / name)]
        files = [str(entry) for folder in inside if folder.is_dir() for entry in folder.iterdir() if _is_lent(entry)]
        processes = [_command(pid) for pid in self.laboratory.processes(name)]
        return files + [shlex.join(words) for words in processes if any("lent-" in word for word in words)]

    def log(self, name: str) -> str:
        """Give what a machine's daemon and ssh server said."""
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    _servers: dict[str, psutil.Popen]

    def _start(self, name: str, address: str) -> str:
        """Start a machine's servers; give its line in ``known_hosts``."""
        node = self.laboratory.host(name)
        _, _, prefix = GUEST_INTERFACE.rpartition("/")
        network.batch(node.namespace, [f"address add {address}/{prefix} dev {GUEST_BRIDGE}"])
        host_key = asyncssh.generate_private_key("ssh-ed25519")
        host_key.write_private_key(self.folder / f"{name}.host-key")
        self._describe(name, node.address("replication"))
        ssh = shlex.join(
            [
                sys.executable,
                ssh_server.__file__,
                address,
                f"{self.folder}/{name}.host-key",
                f"{self.folder}/authorized",
                # The key that opens it opens nothing else.
                *([shlex.join([str(STEALTIME), "protect", "serve"])] if name == FORCED else []),
            ]
        )
        daemon = shlex.join([str(STEALTIME), "protect", "host", f"{self.folder}/{name}.toml"])
        lines = [f"mount -t tmpfs tmpfs {folder}" for folder in (self.images, self.state)]
        lines += [f"exec {ssh}"] if name in self._without_daemon else [f"{ssh} &", f"exec {daemon}"]
        with (self.folder / f"{name}.log").open("wb") as log:
            self._servers = {
                **getattr(self, "_servers", {}),
                name: self.laboratory.start(
                    name,
                    ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(lines)],
                    stdout=log,
                    stderr=log,
                    environment={STATE_VARIABLE: str(self.state)},
                ),
            }
        return f"{address} {host_key.export_public_key().decode().strip()}\n"

    def _describe(self, name: str, address: str) -> None:
        """Write ``host.toml``."""
        identity = make_identity(self.folder / "identity", name, [address])
        files = ", ".join(f'{key} = "{path}"' for key, path in identity.model_dump(exclude_none=True).items())
        (self.folder / f"{name}.toml").write_text(
            f'name = "{name}"\nlisten = "tcp:{address}:{DEFAULT_PORT}"\nbridge = "{GUEST_BRIDGE}"\n'
            f'images = ["{self.images}"]\nidentity = {{ {files} }}\n'
            f'[register]\nfolder = "{self.folder}/register"\n'
        )

    def _await_up(self, name: str) -> None:
        deadline = time.monotonic() + _UP_WITHIN_S
        wanted = [(self.addresses[name], ssh_server.SSH_PORT)]
        if name not in self._without_daemon:
            wanted.append((self.laboratory.host(name).address("replication"), DEFAULT_PORT))
        while not all(self._is_heard(name, *where) for where in wanted):
            assert time.monotonic() < deadline, self.log(name)
            time.sleep(0.1)

    def _is_heard(self, name: str, address: str, port: int) -> bool:
        asked = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()"
        asking = self.laboratory.start(name, [sys.executable, "-c", asked, address, str(port)])
        return int(asking.wait(timeout=_UP_WITHIN_S)) == 0


def _command(pid: int) -> list[str]:
    try:
        return list(psutil.Process(pid).cmdline())
    except psutil.Error:
        return []  # it has just ended


def _is_lent(entry: Path) -> bool:
    return entry.name.startswith(("lent-", "stealtime-lent-"))
