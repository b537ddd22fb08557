"""A real libvirt of our own, for the session of a user without rights."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

USER = "nobody"
_WITHIN_S = 20.0


def require(program: str, package: str) -> str:
    """Give a program's path, or leave the test out; servers are not on everybody's PATH."""
    found = shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin")
    if found is None:
        pytest.skip(f"the program {program} is not installed (package {package})")
    return found


def wait_for(condition: Callable[[], bool], what: str, within_s: float = _WITHIN_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} within {within_s:g} s"
        time.sleep(0.05)


@dataclass
class Libvirt:
    """The daemon, while it runs."""

    home: Path
    """A folder that its user may read: for what a domain is made of."""
    as_user: list[str]
    """Runs a program as that user, in the daemon's session."""

    @property
    def uri(self) -> str:
        """Give what root sets ``$LIBVIRT_DEFAULT_URI`` to."""
        return f"qemu+unix:///session?socket={self.home}/run/libvirt/libvirt-sock"

    def virsh(self, *words: str) -> str:
        argv = [*self.as_user, "virsh", "--quiet", "--connect", "qemu:///session", *words]
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    @contextmanager
    def domain(self, name: str, description: str) -> Iterator[None]:
        """Run a domain while the block runs.

        Args:
            name: As the description has it.
            description: In libvirt's XML.
        """
        file = self.home / "domain.xml"
        file.write_text(description)
        self.virsh("create", str(file))
        try:
            yield
        finally:
            self.virsh("destroy", name)


@contextmanager
def libvirt_session() -> Iterator[Libvirt]:
    """Run ``libvirtd`` for the sessions of ``nobody``; leaves the test out where it is not installed."""
    setpriv, daemon = require("setpriv", "util-linux"), require("libvirtd", "libvirt-daemon")
    require("virsh", "libvirt-clients")
    user = pwd.getpwnam(USER)
    # Not below pytest's folder, into which only root may look.
    with tempfile.TemporaryDirectory(prefix="stealtime-libvirt-") as name:
        home = Path(name)
        (home / "run").mkdir(mode=0o700)
        for folder in (home, home / "run"):
            os.chown(folder, user.pw_uid, user.pw_gid)
        rights = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        surroundings = [f"PATH={os.environ['PATH']}", f"HOME={home}", f"XDG_RUNTIME_DIR={home / 'run'}"]
        as_user = [setpriv, *rights, "env", "--ignore-environment", *surroundings]
        process = subprocess.Popen([*as_user, daemon], stderr=subprocess.PIPE)
        try:
            wait_for((home / "run/libvirt/libvirt-sock").exists, "libvirtd listens")
            yield Libvirt(home, as_user)
        finally:
            process.terminate()
            process.communicate(timeout=30)
