"""Whether a host over ssh is asked if it is still there, while it is measured."""

from dataclasses import replace
from pathlib import Path

import pytest

from stealtime.lab.platforms.model import MachineRequest
from stealtime.lab.platforms.ssh import can_answer
from stealtime.lab.processors import CpuSets

FOUR = CpuSets(inherited=(0, 1, 2, 3), granted=(0, 1, 2, 3))
ONE = CpuSets(inherited=(0,), granted=(0,))


@pytest.mark.parametrize(
    ("measured", "cpus", "is_realtime", "expected"),
    [
        ((3,), FOUR, True, True),
        ((0, 1, 2, 3), FOUR, True, True),
        ((0, 1, 2, 3), FOUR, False, True),
        ((0, 1), None, True, True),
        ((0,), ONE, True, False),
        ((0,), ONE, False, True),
        ((0,), None, True, False),
    ],
    ids=[
        "another CPU answers", "a probe that roams", "contend on all CPUs", "a host that does not tell",
        "the only CPU is taken", "the only CPU is shared", "perhaps the only CPU",
    ],
)  # fmt: skip
def test_a_host_is_asked_unless_a_busy_probe_has_its_only_cpu(
    tmp_path: Path, measured: tuple[int, ...], cpus: CpuSets | None, is_realtime: bool, expected: bool
) -> None:
    request = MachineRequest(vcpu_cpus=(measured,), housekeeping_cpus=(0,), folder=tmp_path)
    assert can_answer(replace(request, realtime=is_realtime), cpus) == expected
