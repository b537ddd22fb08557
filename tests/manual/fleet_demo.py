"""``make fleet-demo``: three hosts on this machine, one of which is slowed down; a fleet run finds and names it.

First by a Dask scheduler and workers, then as a job array of Slurm. Root; some four minutes. The hosts are network
namespaces and share the CPUs: a claim on the measured CPU keeps two from measuring at a time. The slowed one is slowed
only while it measures.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fleet_hog import NAME, hog_while_measuring
from fleet_site import HOSTS, fleet_site
from slurm_node import slurm

from stealtime.lab.processors import read_cpu_sets

ROOT = Path(__file__).parents[2]
SLOWED = "b"
NODES = ("n1", "n2", "n3")
_MAIN = "from stealtime.start import main; main()"


def main() -> int:
    cpu = read_cpu_sets().preferred[-1]
    options = ["-P", "native", "--probe", "tick", "-D", "1s", "-n", "4", "-a", str(cpu)]
    with tempfile.TemporaryDirectory(prefix="fleet-demo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        found = [on_dask(folder, cpu, options)]
        missing = [program for program in ("slurmd", "slurmctld", "munged") if shutil.which(program) is None]
        if missing:
            print(f"\nnot shown: Slurm, because {', '.join(missing)} is not installed")
        else:
            found.append(on_slurm(folder, cpu, options))
    return 0 if all(found) else 1


def on_dask(folder: Path, cpu: int, options: list[str]) -> bool:
    print(f"== Dask: hosts {', '.join(HOSTS)}; a program called {NAME} slows {SLOWED} while it measures", flush=True)
    place = folder / "dask"
    place.mkdir()
    fleet = place / "fleet"
    with fleet_site(place) as site:
        runs = site.data_of(SLOWED) / "stealtime/runs"
        with hog_while_measuring(runs, cpu, site.laboratory.nodes[SLOWED].prefix):
            command = site.command("quick", *options, "-o", str(fleet))
            subprocess.run(command, env=site.environment("client"), check=False)
    return is_named(sorted((fleet / "runs").iterdir()), place, SLOWED)


def on_slurm(folder: Path, cpu: int, options: list[str]) -> bool:
    slowed = NODES[1]
    print(f"\n== Slurm: nodes {', '.join(NODES)}; {NAME} slows {slowed} while it measures", flush=True)
    place = folder / "slurm"
    place.mkdir()
    program = place / "stealtime"
    program.write_text(f"""#!/bin/sh
# The nodes are one machine here; each keeps its runs by itself.
export STEALTIME_HOST="$SLURMD_NODENAME" PYTHONPATH={ROOT / "src"}
exec {sys.executable} -c '{_MAIN}' "$@" --runs {place}/runs-"$SLURMD_NODENAME"
""")
    program.chmod(0o755)
    script = ROOT / "contrib/slurm/stealtime-array.sh"
    with slurm(place / "cluster", Path("/bin/true"), every_s=3600, nodes=NODES) as cluster:
        environment = {**cluster.environment, "STEALTIME": str(program), "STEALTIME_RUNS": str(place / "unused")}
        # One job a node: an array alone may put two of its tasks on one node, one after the other.
        with hog_while_measuring(place / f"runs-{slowed}", cpu):
            for node in NODES:
                submit = ["sbatch", "--parsable", "--array=1", f"--nodelist={node}", str(script), "--each-host"]
                subprocess.run([*submit, "quick", *options, "--wait"], env=environment, cwd=place, check=True)
            while subprocess.run(["squeue", "-h"], env=environment, capture_output=True, check=True).stdout.strip():
                time.sleep(0.5)
    return is_named(sorted(place.glob("runs-*/*")), place, slowed)


def is_named(runs: list[Path], place: Path, slowed: str) -> bool:
    """Merge, show, and tell whether the longest is on the slowed host, with its cause."""
    stealtime = [sys.executable, "-c", _MAIN]
    print(f"\n$ stealtime merge {' '.join(run.name for run in runs)} -o merged", flush=True)
    subprocess.run([*stealtime, "merge", *map(str, runs), "-o", str(place / "merged")], check=False)
    print("\n$ stealtime show merged", flush=True)
    command = [*stealtime, "show", str(place / "merged")]
    shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    print(shown)
    longest = [line for line in shown.splitlines() if ": the longest, " in line]
    named = bool(longest) and all(f", on {slowed} at " in line and NAME in line for line in longest)
    print(f"{slowed} is {'named, with its cause' if named else 'NOT named'}")
    return named


if __name__ == "__main__":
    sys.exit(main())
