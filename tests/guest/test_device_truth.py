"""The probes ``disk`` and ``net`` against devices that are known: a disk that holds each transfer, fio, an echo.

The disk is a file of a file system in user space (``slow_disk``), in a mount namespace of its own. Its own cost is
measured with a short delay and taken off, as it is Python. Networks are namespaces that go with their processes.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from machines import MEASURED_CPU, needs_root

from stealtime.lab.platforms.agent_binary import find_agent

pytestmark = [pytest.mark.guest, needs_root]

RIG = Path(__file__).parents[1] / "rigs" / "slow_disk.py"
TOLERANCE = 0.05
WAKING_MS = 0.03
"""What being woken takes more after a longer sleep, whose caches others have filled: seen, 10 to 50 us."""
PEER_TOLERANCE = 0.10
ROUNDS = 25
RANKS = (7, 17)
"""From 0: between these of 25 ratios in order the median lies with 95.7 % (binomial)."""
PRIORITY = 80
INTERVAL_S = 0.005
STALL_FROM_S, STALL_S = 1.0, 0.4


def agent(*arguments: str | Path) -> list[str]:
    return [str(find_agent()), *map(str, arguments)]


def run(argv: list[str]) -> tuple[dict[str, Any], str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, (argv, done.stdout[-2000:], done.stderr)
    return json.loads(done.stdout), done.stderr


def on_slow_disk(
    delay_s: float, *arguments: str | Path, rig: tuple[str, ...] = ()
) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Measure, and give with it what the disk says of itself."""
    command = agent("disk", "--target", "{}", "-p", str(PRIORITY), "--json", *arguments)
    document, said = run([sys.executable, str(RIG), str(delay_s), *rig, "--", *command])
    lines = [line.split() for line in said.splitlines()]
    return document, {
        line[0]: [int(one) for one in line[1:]] for line in lines if line and line[0] in ("held", "stall")
    }


def median_ms(document: dict[str, Any]) -> float:
    return float(document["response"]["p50_ns"]) / 1e6


@pytest.mark.truth
@pytest.mark.parametrize("write", [False, True], ids=["reads", "writes"])
@pytest.mark.parametrize("depth", [1, 8])
def test_a_known_delay_of_a_disk_is_found(depth: int, write: bool, tell: Callable[[str], None]) -> None:
    way = ("--write", "--overwrite") if write else ()
    options = ("--depth", str(depth), "-D", "1s", *way)

    def beyond_ms(delay_s: float) -> tuple[float, float]:
        """Give how long a transfer took that the disk did not hold, and how long it was held."""
        document, said = on_slow_disk(delay_s, *options)
        held_ms = said["held"][0] / 1e6
        return median_ms(document) - held_ms, held_ms

    # So long that whoever waits sleeps, as it does for longer ones: to be woken is part of the way.
    own_ms, _ = beyond_ms(0.0002)
    # One thread of Python answers one after the other, which is seen in some milliseconds of eight transfers.
    delays_ms = (1, 5, 20) if depth == 1 else (20,)
    found = {}
    for delay_ms in delays_ms:
        more_ms, held_ms = beyond_ms(delay_ms / 1e3)
        found[delay_ms] = (held_ms + more_ms - own_ms, held_ms)
    told = ", ".join(f"{ms:.3f} ms of {held:.3f}" for ms, held in found.values())
    tell(f"disk, {'writes' if write else 'reads'} at depth {depth}: found {told} (the way itself: {own_ms:.3f} ms)")
    for found_ms, held_ms in found.values():
        assert abs(found_ms - held_ms) <= TOLERANCE * held_ms + WAKING_MS, (found, own_ms)


def test_all_that_was_due_while_a_disk_stalled_waited_until_it_went_on(
    tmp_path: Path, tell: Callable[[str], None]
) -> None:
    samples = tmp_path / "samples.arrows"
    document, said = on_slow_disk(
        0.001, "-i", "5ms", "--depth", "4", "-D", "2s", "--samples", samples,
        rig=("--stall", str(STALL_FROM_S), str(STALL_S)),
    )  # fmt: skip
    begin_ns, end_ns = said["stall"]
    clock = document["outcome"]["clock"]
    with pa.OSFile(str(samples)) as file:
        rows = {name: column.to_numpy() for name, column in pa.ipc.open_stream(file).read_pandas().items()}
    ended = np.cumsum(rows["gap"].astype(np.int64)) + clock["origin_units"]
    due = ended - rows["duration"]
    ns_a_unit = 1e9 / clock["units_per_s"]
    due_ns = clock["start"]["monotonic_ns"] + (due - clock["start"]["tsc"]) * ns_a_unit
    response_ns = rows["duration"] * ns_a_unit
    # None is missing: each number of intervals is due once.
    numbers = np.sort(np.rint((due - clock["origin_units"]) * ns_a_unit / (INTERVAL_S * 1e9)).astype(int))
    assert list(numbers) == list(range(400))
    held = (due_ns > begin_ns) & (due_ns < end_ns - 1e6)
    assert held.sum() >= STALL_S / INTERVAL_S - 2, (held.sum(), begin_ns, end_ns)
    # Nothing that was due then ended before the stall did, by its own account.
    missing_ms = (end_ns - due_ns[held] - response_ns[held]) / 1e6
    assert missing_ms.max() < 0.5, missing_ms.max()
    late = float(np.median(response_ns[~held])) / 1e6
    tell(
        f"disk, open loop: {held.sum()} transfers were due in a stall of {STALL_S} s, each waited for its end "
        f"(longest {response_ns.max() / 1e6:.1f} ms, {rows['wait'].max() * ns_a_unit / 1e6:.1f} ms of it before it was "
        f"handed over); the others' median {late:.2f} ms"
    )


def fio_reads(file: Path, depth: int) -> tuple[float, float]:
    """Give the median in us, and how many were in flight."""
    argv = [
        "fio", "--name=peer", f"--filename={file}", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring",
        f"--iodepth={depth}", "--time_based", "--runtime=500ms", f"--cpus_allowed={MEASURED_CPU}", "--norandommap",
        "--lat_percentiles=1", "--percentile_list=50", "--output-format=json",
    ]  # fmt: skip
    read = run(argv)[0]["jobs"][0]["read"]
    in_flight = read["iops"] * read["lat_ns"]["mean"] / 1e9
    return float(read["lat_ns"]["percentile"]["50.000000"]) / 1e3, in_flight


@pytest.mark.truth
@pytest.mark.parametrize("depth", [1, 32])
def test_the_median_of_a_file_is_that_of_fio(depth: int, tell: Callable[[str], None]) -> None:
    # /tmp may be in memory; what is measured is a disk.
    path = Path("/var/tmp") / f"stealtime-truth-{os.getpid()}"
    try:
        with path.open("wb") as file:
            file.write(os.urandom(1 << 20) * 256)
            os.fsync(file.fileno())
        ours = agent("disk", "--target", path, "--depth", str(depth), "-D", "500ms", "-p", "0", "--json")
        ours += ["--cpu", str(MEASURED_CPU)]
        pairs = []
        for number in range(ROUNDS):
            # Which one is first alternates.
            before = fio_reads(path, depth) if number % 2 else None
            document = run(ours)[0]
            in_flight = document["requests_per_s"] * document["response"]["mean_ns"] / 1e9
            pairs.append(((1e3 * median_ms(document), in_flight), before or fio_reads(path, depth)))
    finally:
        path.unlink(missing_ok=True)
    # Who hands a request over a little later has fewer in flight than the depth, and each of them waits for fewer
    # others: by Little's law their number is the rate times the mean response.
    for _, in_flight in (one for pair in pairs for one in pair):
        assert 0.8 * depth <= in_flight <= 1.02 * depth, pairs
    ratios = sorted(ours_us / mine / (fio_us / its) for (ours_us, mine), (fio_us, its) in pairs)
    low, high = (ratios[rank] for rank in RANKS)
    told = [np.median([pair[side] for pair in pairs], axis=0) for side in (0, 1)]
    tell(
        f"disk and fio in turn, depth {depth}: medians {told[0][0]:.1f} and {told[1][0]:.1f} us with {told[0][1]:.1f} "
        f"and {told[1][1]:.1f} in flight, ratio by request in flight {np.median(ratios):.3f} ({low:.3f} to {high:.3f}; "
        f"{ratios[0]:.3f} to {ratios[-1]:.3f} of single ones of {ROUNDS})"
    )
    assert is_the_same(low, high), ratios
    # What is twice the tolerance off would have been found.
    for factor in (1 + 2 * PEER_TOLERANCE, 1 / (1 + 2 * PEER_TOLERANCE)):
        assert not is_the_same(factor * low / np.median(ratios), factor * high / np.median(ratios)), ratios


def is_the_same(low: float, high: float) -> bool:
    """Tell whether a ratio that lies between the two need not be off by more than is allowed."""
    return low <= 1 + PEER_TOLERANCE and high >= 1 - PEER_TOLERANCE


NAMESPACES = """
set -e
ip link set lo up
ip link add veth-a type veth peer name veth-b
unshare --net sleep 60 &
other=$!
until [ "$(readlink /proc/$other/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
ip link set veth-b netns $other
ip addr add 192.0.2.1/24 dev veth-a
ip link set veth-a up
nsenter --net=/proc/$other/ns/net sh -c 'ip addr add 192.0.2.2/24 dev veth-b; ip link set veth-b up'
nsenter --net=/proc/$other/ns/net {agent} echo --listen 192.0.2.2:7007 >/dev/null &
echo=$!
trap 'kill $echo $other' EXIT
sleep 0.3
{agent} net 192.0.2.2:7007 {options} --json
"""


def through_a_veth(*options: str) -> dict[str, Any]:
    """Measure between two network namespaces, which go with their processes, these with this one."""
    script = NAMESPACES.format(agent=find_agent(), options=" ".join(options))
    line = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    document, _ = run(line)
    return document


@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_messages_through_a_veth_come_back_and_none_is_lost(transport: str, tell: Callable[[str], None]) -> None:
    document = through_a_veth("--transport", transport, "-i", "1ms", "-D", "1s")
    counters, response = document["outcome"]["counters"], document["response"]
    tell(f"net, {transport} through a veth: p50 {response['p50_ns'] / 1e3:.1f}, p99 {response['p99_ns'] / 1e3:.1f} us")
    assert counters["sent_messages"] == response["count"] == 1000
    for nothing in ("lost_messages", "late_answers", "duplicates"):
        assert not counters[nothing], nothing
