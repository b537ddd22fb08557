"""The server as processes of this machine: the same tree as in a guest, below ``chroot`` in a host's namespace.

It has the address that the guest would have, so that the client cannot tell the difference. A PID namespace ends all
of it with its first process; a mount namespace of its own holds what is mounted into the read-only tree.
"""

import shlex
import subprocess
from collections.abc import Sequence

import psutil

from stealtime.protect import laboratory_network as network
from stealtime.protect.laboratory import GUEST_ADDRESS, GUEST_BRIDGE, GUEST_INTERFACE, Laboratory
from stealtime.protect.process_times import thread_times_ns
from stealtime.protect.status import MemberStatus
from stealtime.studies.telephony.appliance.configuration import CONFIGURATION_FOLDER, SERVE, ServerConfiguration
from stealtime.studies.telephony.appliance.image import configuration_folder
from stealtime.studies.telephony.appliance.root import BUSYBOX, obtain_root
from stealtime.studies.telephony.client import Client, LaboratoryClient
from stealtime.studies.telephony.place.answering import await_answer
from stealtime.studies.telephony.place.model import Blow, CpuTimes, Mode
from stealtime.vocabulary.errors import StealtimeError

_HOST = "a"
_UP_WITHIN_S = 20.0
_LAST_LINES = 25


class NativePlace:
    """A server without a guest.

    Args:
        laboratory: Where.
        configuration: What it is told; None: both roles at the guest's address.
        up_within_s: How long it may take to answer.
    """

    def __init__(
        self,
        laboratory: Laboratory,
        configuration: ServerConfiguration | None = None,
        *,
        up_within_s: float = _UP_WITHIN_S,
    ) -> None:
        self._up_within_s = up_within_s
        self.laboratory = laboratory
        self.mode: Mode = "off"
        self.client: Client = LaboratoryClient(laboratory)
        self.address = self.media_address = GUEST_ADDRESS
        self._configuration = configuration or ServerConfiguration(role="both", address=GUEST_ADDRESS)
        self._log = laboratory.folder / "server.log"
        self._process: psutil.Popen | None = None

    def start(self) -> None:
        """Start it; see :class:`stealtime.studies.telephony.place.model.Place`."""
        tree = obtain_root(self._configuration.role).tree
        told = configuration_folder(self._configuration)
        network.batch(self.laboratory.host(_HOST).namespace, [f"address add {GUEST_INTERFACE} dev {GUEST_BRIDGE}"])
        mounts = (
            ("--bind", str(told), str(tree / CONFIGURATION_FOLDER)),
            ("-t", "proc", "proc", str(tree / "proc")),
            ("--rbind", "/dev", str(tree / "dev")),
            ("-t", "tmpfs", "tmpfs", str(tree / "tmp")),
            ("-t", "tmpfs", "tmpfs", str(tree / "run")),
        )
        lines = [f"mount {shlex.join(mount)}" for mount in mounts]
        inside = shlex.join(["chroot", str(tree), f"/{BUSYBOX}", "sh", f"/{CONFIGURATION_FOLDER}/{SERVE}"])
        script = " && ".join([*lines, f"exec {inside}"])
        argv = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "sh", "-c", script]
        with self._log.open("wb") as log:
            self._process = self.laboratory.start(_HOST, argv, stdout=log, stderr=subprocess.STDOUT)

    def await_ready(self) -> None:
        """Wait until it answers."""
        await_answer(self.client, self.address, self._up_within_s, self.last_words)

    def await_protected(self, unlike: frozenset[int] = frozenset()) -> Sequence[MemberStatus]:
        """Wait until it answers: nothing protects it."""
        self.await_ready()
        return ()

    def members(self) -> Sequence[MemberStatus]:
        """Give none."""
        return ()

    def refuse_lapse(self, members: Sequence[MemberStatus], from_ns: int) -> None:
        """Do nothing: it has no protection to lose."""

    def cpu_times(self) -> CpuTimes:
        """Read what its processes have used."""
        pids = self.laboratory.processes(_HOST)
        return CpuTimes(sum(time_ns for pid in pids for time_ns in thread_times_ns(pid)), None)

    def kill_host(self) -> Blow:
        """Refuse: nobody would take it over."""
        raise StealtimeError(
            "a server without protection does not survive its host", hint="choose the mode net, net+bypass or no-net"
        )

    def stop(self) -> None:
        """End its processes; the address goes, too."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self.laboratory.power_off(_HOST)
            network.batch(self.laboratory.host(_HOST).namespace, [f"address del {GUEST_INTERFACE} dev {GUEST_BRIDGE}"])

    def last_words(self) -> str:
        """Give the end of what it wrote."""
        try:
            return "\n".join(self._log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:])
        except OSError:
            return ""
