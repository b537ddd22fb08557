"""The Indexed Job of ``contrib``: its container's command, with the variables that Kubernetes would set."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from traced_cpu import traced_cpu

from stealtime.store.run import Run
from stealtime.store.spread import Shard
from stealtime.vocabulary.readings import Value

pytestmark = [pytest.mark.guest, pytest.mark.beside, pytest.mark.truth]

ROOT = Path(__file__).parents[2]
JOB: dict[str, Any] = yaml.safe_load((ROOT / "contrib/kubernetes/fleet.yaml").read_text())
NODES = ("node-a", "node-b", "node-c")
STEALTIME = [sys.executable, "-c", "from stealtime.start import main; main()"]


def values_of(container: dict[str, Any], node: str) -> dict[str, str]:
    """Resolve what the manifest takes from elsewhere, as the kubelet does (CPU in whole units, memory in bytes)."""
    resources = {"cpu": "2", "memory": str(2 << 30)}
    values = {}
    for variable in container["env"]:
        source = variable.get("valueFrom", {})
        if "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "spec.nodeName"
            values[variable["name"]] = node
        elif "resourceFieldRef" in source:
            values[variable["name"]] = resources[source["resourceFieldRef"]["resource"].partition(".")[2]]
        else:
            values[variable["name"]] = variable["value"]
    return values


def test_the_pods_of_the_job_measure_the_whole(tmp_path: Path) -> None:
    spec = JOB["spec"]
    [container] = spec["template"]["spec"]["containers"]
    assert container["command"] == ["stealtime"]
    runs = tmp_path / "runs"
    arguments = [str(runs) if one == "/runs" else one for one in container["args"]]
    arguments += ["-D", "200ms", "-n", "2", "-a", str(traced_cpu()), "--wait"]
    assert spec["completions"] == len(NODES)
    for index, node in enumerate(NODES):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "CI_NODE"))}
        environment = {**kept, **values_of(container, node), "JOB_COMPLETION_INDEX": str(index)}
        # Every pod has this one.
        environment["KUBERNETES_SERVICE_HOST"] = "192.0.2.1"
        done = subprocess.run([*STEALTIME, *arguments], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 4), done
    found = [Run.open(run) for run in sorted(runs.iterdir())]
    spreads = [run.manifest.spread for run in found]
    assert sorted(one.index for one in spreads if isinstance(one, Shard)) == [1, 2, 3], spreads
    assert {run.manifest.identity.name for run in found if run.manifest.identity} == set(NODES)
    exclusive = [run.manifest.hosts["local"]["exclusivity"] for run in found]
    assert all(isinstance(one, Value) and "Guaranteed" in str(one.value) for one in exclusive), exclusive
    merging = [*STEALTIME, "merge", *(str(run.folder) for run in found), "-o", str(tmp_path / "merged")]
    done = subprocess.run(merging, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 4), done
    merged = Run.open(tmp_path / "merged")
    assert len(merged.trials) == 2 * len(merged.manifest.planned or []), done.stderr
