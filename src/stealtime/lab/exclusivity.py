"""Whether this host, or these CPUs, were ours alone: what the engine that gave them says.

Slurm tells of a job by ``scontrol show job``: ``OverSubscribe=NO`` stands for ``--exclusive``, as its documentation of
that command says. Kubernetes does not tell a pod its class of quality of service, but names the memory groups after it
(``kubepods-besteffort.slice``, ``kubepods-burstable.slice``; a guaranteed pod stands in neither).
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from stealtime.vocabulary.readings import Absent, Reading, Value

_TIMEOUT_S = 5.0
_OVERSUBSCRIBE = re.compile(r"\bOverSubscribe=(\S+)")
_QOS = re.compile(r"kubepods[-/](besteffort|burstable)")


def read_exclusivity(environment: Mapping[str, str], cgroup: Path = Path("/proc/self/cgroup")) -> Reading:
    """Say what an engine promised; absent, with the reason, where none says anything.

    Args:
        environment: Of this process.
        cgroup: The file in which the kernel tells the groups of this process.
    """
    if "SLURM_JOB_ID" in environment:
        return _of_slurm(environment["SLURM_JOB_ID"])
    if "KUBERNETES_SERVICE_HOST" in environment:
        return _of_kubernetes(environment, cgroup)
    return Absent(absent="no engine gave this host: neither SLURM_JOB_ID nor KUBERNETES_SERVICE_HOST is set")


def _of_slurm(job: str) -> Reading:
    try:
        told = subprocess.run(
            ("scontrol", "show", "job", job), capture_output=True, text=True, timeout=_TIMEOUT_S, check=True
        ).stdout
    except FileNotFoundError:
        return Absent(absent="scontrol is not installed, so that nobody tells whether the Slurm job is exclusive")
    except (OSError, subprocess.SubprocessError) as error:
        return Absent(absent=f"scontrol show job {job}: {error}")
    match = _OVERSUBSCRIBE.search(told)
    if match is None:
        return Absent(absent=f"scontrol show job {job} says nothing of OverSubscribe")
    return Value(value="Slurm, exclusive" if match[1] == "NO" else f"Slurm, not exclusive (OverSubscribe={match[1]})")


def _of_kubernetes(environment: Mapping[str, str], cgroup: Path) -> Reading:
    try:
        text = cgroup.read_text()
    except OSError as error:
        return Absent(absent=f"{cgroup}: {error.strerror}")
    match = _QOS.search(text)
    if match is not None:
        return Value(value=f"Kubernetes, QoS {'BestEffort' if match[1] == 'besteffort' else 'Burstable'}")
    if "kubepods" in text:
        return Value(value="Kubernetes, QoS Guaranteed")
    # A pod with a cgroup namespace of its own sees only "/": then the Job says what it asked for and may have.
    asked = [
        (environment.get(f"STEALTIME_{what}_REQUEST"), environment.get(f"STEALTIME_{what}_LIMIT"))
        for what in ("CPU", "MEMORY")
    ]
    if any(one is None for pair in asked for one in pair):
        return Absent(
            absent="the pod does not see its group; give it STEALTIME_CPU_REQUEST, STEALTIME_CPU_LIMIT, "
            "STEALTIME_MEMORY_REQUEST and STEALTIME_MEMORY_LIMIT by resourceFieldRef"
        )
    is_equal = all(request == limit for request, limit in asked)
    return Value(value=f"Kubernetes, QoS {'Guaranteed' if is_equal else 'Burstable'} (as the Job asked)")
