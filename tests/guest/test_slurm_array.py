"""A campaign as a job array of Slurm, the real one: a controller and two nodes, with the script of ``contrib``."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_node import Slurm, slurm
from traced_cpu import traced_cpu

pytestmark = [pytest.mark.guest, pytest.mark.truth]

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "contrib/slurm/stealtime-array.sh"
CAMPAIGN = ("quick", "-P", "native", "-D", "300ms", "-n", "2", "-a", str(traced_cpu()), "--wait")
NODES = ("n1", "n2")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    assert shutil.which("slurmd")
    healthy = Path("/bin/true")
    with slurm(tmp_path_factory.mktemp("slurm") / "cluster", healthy, every_s=3600, nodes=NODES) as one:
        yield one


def test_an_array_of_three_measures_the_whole_on_two_nodes(cluster: Slurm, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    array(cluster, tmp_path, runs, "--array=1-3", *CAMPAIGN)
    logs = "".join(path.read_text() for path in tmp_path.glob("stealtime-*.log"))
    found = sorted(runs.iterdir())
    assert len(found) == 3, logs
    manifests = [json.loads((run / "manifest.json").read_text()) for run in found]
    assert sorted(one["spread"]["index"] for one in manifests) == [1, 2, 3], logs
    assert {one["spread"]["count"] for one in manifests} == {3}
    assert {one["identity"]["name"] for one in manifests} == set(NODES), "both nodes have measured"
    exclusivity = [one["hosts"]["local"]["exclusivity"] for one in manifests]
    assert exclusivity == [{"value": "Slurm, exclusive"}] * 3
    whole = subprocess.run(
        [*stealtime(), "merge", *map(str, found), "-o", str(tmp_path / "merged")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert whole.returncode in (0, 4), whole
    assert "missing" not in whole.stderr, whole.stderr
    planned = {cell["probe"] for one in manifests for cell in one["planned"]}
    merged = json.loads((tmp_path / "merged/manifest.json").read_text())
    assert {cell["probe"] for cell in merged["planned"]} == planned
    assert len(list((tmp_path / "merged/cells").iterdir())) == 2 * len(merged["planned"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--exclusive"], "Slurm, exclusive"),
        ([], "Slurm, not exclusive (OverSubscribe=OK)"),
        (["--oversubscribe"], "Slurm, not exclusive (OverSubscribe=YES)"),
    ],
)
def test_what_a_job_was_given_is_told(cluster: Slurm, options: list[str], told: str) -> None:
    script = (
        "import os; from stealtime.lab.exclusivity import read_exclusivity; print(read_exclusivity(os.environ).value)"
    )
    command = ["srun", *options, sys.executable, "-c", script]
    environment = {**cluster.environment, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == told


def stealtime() -> list[str]:
    return [sys.executable, "-c", "from stealtime.start import main; main()"]


def array(cluster: Slurm, folder: Path, runs: Path, *arguments: str) -> None:
    """Submit the script and wait until all of its tasks have ended."""
    program = folder / "stealtime"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from stealtime.start import main; main()' \"$@\"\n")
    program.chmod(0o755)
    option, *rest = arguments
    environment = {**cluster.environment, "STEALTIME": str(program), "STEALTIME_RUNS": str(runs)}
    environment["PYTHONPATH"] = str(ROOT / "src")
    # Slurm's nodes are one machine here: told apart by what slurmd calls them, not by the machine's identity.
    program.write_text(program.read_text().replace("exec ", 'STEALTIME_HOST="$SLURMD_NODENAME" exec '))
    submitted = subprocess.run(
        ["sbatch", "--parsable", option, str(SCRIPT), *rest],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert submitted.stdout.strip().isdecimal(), submitted
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        queue = subprocess.run(["squeue", "-h"], env=environment, capture_output=True, text=True, check=True)
        if not queue.stdout.strip():
            return
        time.sleep(0.5)
    raise TimeoutError(f"the array does not end: {queue.stdout}")
