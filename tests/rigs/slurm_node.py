"""Slurm, the real one, on loopback: munged, slurmctld, and slurmd as one node or several."""

import os
import re
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NODE = "node1"

_SETTINGS = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
HealthCheckProgram={program}
HealthCheckInterval={every_s}
HealthCheckNodeState=ANY
{nodes}
PartitionName=all Nodes={names} Default=YES State=UP
"""
_NODE_LINE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1 State=UNKNOWN"


@dataclass(frozen=True)
class Slurm:
    """A cluster that runs."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def node(self) -> tuple[str, str]:
        """Give its state and the reason of it, empty if there is none."""
        command = ["scontrol", "--oneliner", "show", "node", NODE]
        shown = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False).stdout
        state = re.search(r" State=(\S+)", shown)
        reason = re.search(r" Reason=(.*?) \[", shown)
        return state[1] if state else "", reason[1] if reason else ""

    def await_state(self, wanted: str, within_s: float) -> str:
        """Wait until the node is in this state; gives the reason, empty if there is none."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            state, reason = self.node()
            if state == wanted:
                return reason
            time.sleep(0.2)
        logs = "".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("slurm*.log"))
        raise TimeoutError(f"the node is {self.node()}, not {wanted}: {logs}")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def slurm(folder: Path, program: Path, every_s: int, nodes: Sequence[str] = (NODE,)) -> Iterator[Slurm]:
    """Run a cluster whose nodes run a health check each so many seconds."""
    for name in ("state", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    host = socket.gethostname().split(".")[0]
    lines = "\n".join(_NODE_LINE.format(name=node, host=host, port=_free_port()) for node in nodes)
    terms = {"host": host, "controller": _free_port(), "nodes": lines, "names": ",".join(nodes)}
    settings = _SETTINGS.format(folder=folder, program=program, every_s=every_s, **terms)
    (folder / "slurm.conf").write_text(settings)
    cluster = Slurm(folder)
    places = [f"--{name}={folder}/munge.{suffix}" for name, suffix in _MUNGE_FILES]
    commands = [
        ["munged", "--force", "--foreground", *places],
        ["slurmctld", "-i", "-c", "-D"],
        *(["slurmd", "-N", node, "-D"] for node in nodes),
    ]
    processes: list[subprocess.Popen[bytes]] = []
    with (folder / "output").open("wb") as output:
        try:
            for command in commands:
                processes.append(
                    subprocess.Popen(command, env=cluster.environment, stdout=output, stderr=subprocess.STDOUT)
                )
                _await_start(folder, command)
            yield cluster
        finally:
            for process in reversed(processes):
                process.terminate()
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


_MUNGE_FILES = (
    ("key-file", "key"),
    ("socket", "socket"),
    ("pid-file", "pid"),
    ("log-file", "log"),
    ("seed-file", "seed"),
)


def _await_start(folder: Path, command: Sequence[str]) -> None:
    name = command[0]
    sign = {"munged": "munge.socket", "slurmctld": "slurmctld.pid", "slurmd": f"slurmd-{command[2]}.pid"}[name]
    deadline = time.monotonic() + 20
    while not (folder / sign).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{name} does not start: {(folder / 'output').read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
