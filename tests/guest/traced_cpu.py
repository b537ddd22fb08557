"""A CPU of which the kernel tells who comes after idleness.

A kernel that had run for 14 hours (6.18, itself a guest, 2026-11-27) told every switch but those out of idleness on one
of its two CPUs, to `cat trace` too: who held that CPU is then in no trace, and no test can ask for it.
"""

import functools
import os
import subprocess

# The mount is the shell's own; the folder of the instance goes with it.
_LOOK = """
set -eu
mount -t tracefs none /mnt
instance="/mnt/instances/$1"
mkdir "$instance"
trap 'cd / && rmdir "$instance"' EXIT
cd "$instance"
echo 1 >events/sched/sched_switch/enable
shift
for cpu; do
    for _ in 1 2 3 4 5; do taskset -c "$cpu" sleep 0.01; done
done
echo 0 >tracing_on
for cpu; do
    if grep -q 'prev_comm=swapper' "per_cpu/cpu$cpu/trace"; then
        echo "told $cpu"
    elif ! grep -q 'next_comm=swapper' "per_cpu/cpu$cpu/trace"; then
        echo "busy $cpu"
    fi
done
"""


@functools.cache
def traced_cpu() -> int:
    """Give the last such CPU that is ours, else the last that was never idle: there nothing is left out either.

    Where nothing can be traced it is the last of all.
    """
    ours = sorted(os.sched_getaffinity(0))
    argv = ["unshare", "--mount", "sh", "-c", _LOOK, "sh", f"test-idle-{os.getpid()}", *map(str, ours)]
    told = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.splitlines()
    seen = [(kind == "told", int(cpu)) for kind, cpu in map(str.split, told)]
    return max(seen, default=(False, ours[-1]))[1]
