"""A server of the appliance as processes of this machine: the same tree as in a guest, below ``chroot``.

A PID namespace ends all of it with its first process; a mount namespace of its own holds what is mounted into the
read-only tree.
"""

import contextlib
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from stealtime.studies.telephony.appliance.configuration import CONFIGURATION_FOLDER, SERVE
from stealtime.studies.telephony.appliance.image import Configuration, configuration_folder
from stealtime.studies.telephony.appliance.root import BUSYBOX, obtain_root

_LAST_LINES = 25
_ENDS_WITHIN_S = 10.0
_LOOKED_EVERY_S = 0.01


class NativeServer:
    """A server of this machine, whose address is there already.

    Args:
        start: Starts a program where it shall run.
        name: Its own, for its log.
        folder: For the log.
        configuration: What it is told.
        run: A folder for what it has in ``/run``, to be seen from outside; None: nobody sees it.
    """

    def __init__(
        self,
        start: Callable[..., psutil.Popen],
        name: str,
        folder: Path,
        configuration: Configuration,
        *,
        run: Path | None = None,
    ) -> None:
        self._start = start
        self.name = name
        self._configuration = configuration
        self._run = run
        self._log = folder / f"server-{name}.log"
        self._process: psutil.Popen | None = None

    def prepare(self) -> tuple[Path, Path]:
        """Give its file tree and the folder of what it is told, made first if they are not in the cache.

        Raises:
            StealtimeError: Packages cannot be had.
        """
        return obtain_root(self._configuration.role).tree, configuration_folder(self._configuration)

    def start(self) -> None:
        tree, told = self.prepare()
        run = ("-t", "tmpfs", "tmpfs") if self._run is None else ("--bind", str(self._run))
        mounts = (
            ("--bind", str(told), str(tree / CONFIGURATION_FOLDER)),
            ("-t", "proc", "proc", str(tree / "proc")),
            ("--rbind", "/dev", str(tree / "dev")),
            ("-t", "tmpfs", "tmpfs", str(tree / "tmp")),
            (*run, str(tree / "run")),
        )
        lines = [f"mount {shlex.join(mount)}" for mount in mounts]
        inside = shlex.join(["chroot", str(tree), f"/{BUSYBOX}", "sh", f"/{CONFIGURATION_FOLDER}/{SERVE}"])
        script = " && ".join([*lines, f"exec {inside}"])
        argv = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", script]
        with self._log.open("wb") as log:
            self._process = self._start(argv, stdout=log, stderr=subprocess.STDOUT)

    def freeze(self) -> None:
        """Have all its processes stand still: its sockets stay open, and nobody reads what comes there."""
        for process in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()

    def stop(self) -> bool:
        """End all its processes, if it was started; tell whether it was."""
        family = self._family()
        process, self._process = self._process, None
        if process is None:
            return False
        process.kill()
        process.wait()
        # The first of them ends with it, and all others with that one: whoever is next finds its ports free.
        deadline = time.monotonic() + _ENDS_WITHIN_S
        while not all(map(_has_ended, family)) and time.monotonic() < deadline:
            time.sleep(_LOOKED_EVERY_S)
        return True

    def _family(self) -> list[psutil.Process]:
        """Give what its first process has started."""
        if self._process is None:
            return []
        try:
            return list(self._process.children(recursive=True))
        except psutil.NoSuchProcess:
            return []

    def log_tail(self) -> str:
        try:
            return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
        except OSError:
            return ""


def _has_ended(process: psutil.Process) -> bool:
    """Tell whether a process keeps no port any more: whoever adopted it may take seconds to collect what is left."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
