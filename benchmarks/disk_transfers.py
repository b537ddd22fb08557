"""What a transfer of the probe ``disk`` costs at depth 32, against fio's, on a file in memory.

The file is on a tmpfs, where a transfer takes a microsecond or two, so that what is measured is the program that hands
transfers to the kernel. Both read 4 KiB blocks at random past the cache through io_uring, from the same file, on one
CPU and under ordinary scheduling, one after the other in turn. Target: at least 0.9 of fio's transfers a second, which
is at most 1.11 times the time of each.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pairs import Ratio, arguments, take_turns

AGENT = Path(os.environ.get("STEALTIME_AGENT", Path(sys.executable).with_name("stealtime-agent")))
FOLDER = Path("/dev/shm")  # noqa: S108 - a file of our own, without a name that others could know
SIZE_BYTES = 256 << 20
DEPTH = 32


def ours_ns(file: Path, cpu: int, duration_s: int) -> float:
    argv = [str(AGENT), "disk", "--target", str(file), "--depth", str(DEPTH), "-D", f"{duration_s}s", "-p", "0"]
    argv += ["--cpu", str(cpu), "--engine", "io-uring", "--json"]
    done = subprocess.run(argv, capture_output=True, check=False, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}:\n{done.stderr}")
    return float(1e9 / json.loads(done.stdout)["requests_per_s"])


def fio_ns(file: Path, cpu: int, duration_s: int) -> float:
    argv = ["fio", "--name=peer", f"--filename={file}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring"]
    argv += [f"--iodepth={DEPTH}", "--time_based", f"--runtime={duration_s}", f"--cpus_allowed={cpu}", "--norandommap"]
    done = subprocess.run([*argv, "--output-format=json"], stdout=subprocess.PIPE, check=True, text=True)
    return float(1e9 / json.loads(done.stdout)["jobs"][0]["read"]["iops"])


def main() -> None:
    parser = arguments(__doc__, pairs=7)
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--duration", type=int, default=2, metavar="SECONDS")
    options = parser.parse_args()
    with tempfile.NamedTemporaryFile(dir=FOLDER, prefix="stealtime-bench-") as file:
        file.write(os.urandom(1 << 20) * (SIZE_BYTES >> 20))
        file.flush()
        path = Path(file.name)
        sides = {
            "stealtime-agent disk": lambda: ours_ns(path, options.cpu, options.duration),
            "fio": lambda: fio_ns(path, options.cpu, options.duration),
        }
        pairs = tuple(take_turns(options.pairs, sides))
    Ratio("transfer of 4 KiB at depth 32", "ns a transfer", 1.11, pairs).print(as_json=options.json)


if __name__ == "__main__":
    main()
