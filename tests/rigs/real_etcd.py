"""A real etcd as the arbiter of a laboratory, in a namespace of its own."""

import shutil
import subprocess
import sys

import psutil

from stealtime.hosts.laboratory import ARBITER, Laboratory
from stealtime.lab.platforms.failure import log_tail
from stealtime.vocabulary.errors import StealtimeError

_PORT = 2379
_PEER = "http://127.0.0.1:2380"
_READY_WITHIN_S = 60
"""It elects itself first, which takes about 2 s on an idle host."""

# Runs on the host that asks, since only namespaces on the network `register` reach it.
_AWAIT_HEALTH = """
import sys, time, urllib.request
deadline = time.monotonic() + float(sys.argv[2])
while True:
    try:
        with urllib.request.urlopen(sys.argv[1] + "/health", timeout=1) as answer:
            if b'"true"' in answer.read():
                sys.exit(0)
    except OSError:
        pass
    if time.monotonic() > deadline:
        sys.exit(1)
    time.sleep(0.05)
"""


class Etcd:
    """A cluster of one member on the arbiter; it ends with the laboratory.

    Args:
        laboratory: Where it runs.

    Raises:
        StealtimeError: It is not installed, or does not come up.
    """

    def __init__(self, laboratory: Laboratory) -> None:
        if shutil.which("etcd") is None:
            raise StealtimeError("the program etcd is not installed", hint="install the package etcd-server")
        self._laboratory = laboratory
        self.url = f"http://{laboratory.arbiter.address('register')}:{_PORT}"
        self._log = laboratory.folder / "etcd.log"
        self._process = self._start()

    @property
    def pid(self) -> int:
        """Of its process."""
        return int(self._process.pid)

    def kill(self) -> None:
        """End it as a power cut does; what it has acknowledged is on its disk."""
        self._process.kill()
        self._process.wait(timeout=30)

    def restart(self) -> None:
        """Start it again with what it had."""
        self._process = self._start()

    def _start(self) -> psutil.Popen:
        argv = [
            "etcd",
            *("--name", ARBITER, "--data-dir", str(self._laboratory.folder / "etcd")),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", _PEER, "--initial-advertise-peer-urls", _PEER),
            *("--initial-cluster", f"{ARBITER}={_PEER}", "--logger", "zap"),
        ]
        with self._log.open("ab") as log:
            process = self._laboratory.start(ARBITER, argv, stdout=subprocess.DEVNULL, stderr=log)
        asking = self._laboratory.start(ARBITER, [sys.executable, "-c", _AWAIT_HEALTH, self.url, str(_READY_WITHIN_S)])
        if asking.wait(timeout=2 * _READY_WITHIN_S) != 0:
            raise StealtimeError(f"etcd does not come up; {log_tail(self._log)}")
        return process
