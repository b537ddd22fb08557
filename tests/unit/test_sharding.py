"""Which part of a campaign a host measures, and which host it is."""

from pathlib import Path

import pytest

from stealtime.campaigns.sharding import parse_shard, shard_number
from stealtime.lab.exclusivity import read_exclusivity
from stealtime.store.identity import read_identity
from stealtime.store.model import Cell
from stealtime.store.spread import Shard
from stealtime.vocabulary.errors import UsageError
from stealtime.vocabulary.readings import Absent, Value


def _cell(platform: str = "native", threads: int = 2, *, traced: bool = False) -> Cell:
    return Cell(platform=platform, scenario="alone", probe="switch", parameters={"threads": threads}, traced=traced)


def test_a_part_is_a_hash_that_stays() -> None:
    assert [shard_number(_cell(threads=threads), 3) for threads in (2, 10, 100, 1000)] == [1, 3, 2, 2]


def test_what_is_compared_stays_on_one_host() -> None:
    for count in (2, 3, 7, 100):
        together = {
            shard_number(_cell(platform, traced=traced), count)
            for platform in ("native", "uml")
            for traced in (False, True)
        }
        assert len(together) == 1


def _slurm(number: int, count: int, first: int, last: int, step: int = 1) -> dict[str, str]:
    told = {"ID": number, "COUNT": count, "MIN": first, "MAX": last, "STEP": step}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in told.items()}


@pytest.mark.parametrize(
    ("environment", "shard"),
    [
        (_slurm(7, 3, 5, 9, 2), "2/3"),
        (_slurm(1, 3, 1, 3), "1/3"),
        (_slurm(0, 3, 0, 2), "1/3"),
        ({"JOB_COMPLETION_INDEX": "0", "JOB_COMPLETIONS": "4"}, "1/4"),
        ({"CI_NODE_INDEX": "4", "CI_NODE_TOTAL": "4"}, "4/4"),
        ({"CIRCLE_NODE_INDEX": "0", "CIRCLE_NODE_TOTAL": "2"}, "1/2"),
    ],
)
def test_each_engine_has_its_own_base_and_count(environment: dict[str, str], shard: str) -> None:
    assert str(parse_shard("auto", environment)) == shard


@pytest.mark.parametrize(
    ("text", "environment", "told"),
    [
        ("auto", {}, "none of"),
        ("auto", {"CI_NODE_INDEX": "1"}, "CI_NODE_TOTAL is not set"),
        ("auto", {"JOB_COMPLETION_INDEX": "0"}, "JOB_COMPLETIONS is not set"),
        ("auto", {"SLURM_ARRAY_TASK_ID": "1"}, "SLURM_ARRAY_TASK_COUNT is not set"),
        ("auto", {"CI_NODE_INDEX": "1", "CI_NODE_TOTAL": "3", "JOB_COMPLETION_INDEX": "1"}, "may differ"),
        ("auto", {"CI_NODE_INDEX": "0", "CI_NODE_TOTAL": "3"}, "is no part"),
        ("auto", {"CI_NODE_INDEX": "x", "CI_NODE_TOTAL": "3"}, "is 'x'"),
        ("auto", _slurm(1, 2, 1, 9), "not numbered evenly"),
        ("4/3", {}, "is no part"),
        ("0/3", {}, "is no part"),
        ("1", {}, "is no part"),
    ],
)  # fmt: skip
def test_a_part_that_is_none_is_refused(text: str, environment: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse_shard(text, environment)


def test_a_host_is_who_it_is_said_to_be_or_its_machine(tmp_path: Path) -> None:
    machine_id = tmp_path / "machine-id"
    given = read_identity({"STEALTIME_HOST": "alpha"}, machine_id, "box")
    assert (given.name, given.id, given.source) == ("alpha", "given:alpha", "given")
    by_name = read_identity({}, machine_id, "box")
    assert (by_name.id, by_name.source) == ("name:box", "host name")
    machine_id.write_text("0123456789abcdef0123456789abcdef\n")
    by_machine = read_identity({"SLURMD_NODENAME": "n7"}, machine_id, "box")
    assert (by_machine.name, by_machine.source) == ("n7", "machine-id")
    assert "0123456789abcdef" not in by_machine.id
    with pytest.raises(UsageError, match="no name of a host"):
        read_identity({"STEALTIME_HOST": "../x"}, machine_id, "box")


def test_exclusivity_is_what_an_engine_says(tmp_path: Path) -> None:
    cgroup = tmp_path / "cgroup"
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert isinstance(read_exclusivity({}, cgroup), Absent)
    cgroup.write_text("0::/kubepods.slice/kubepods-burstable.slice/pod1\n")
    assert read_exclusivity(pod, cgroup) == Value(value="Kubernetes, QoS Burstable")
    cgroup.write_text("0::/kubepods.slice/kubepods-pod1.slice/x\n")
    assert read_exclusivity(pod, cgroup) == Value(value="Kubernetes, QoS Guaranteed")
    cgroup.write_text("0::/\n")
    assert isinstance(read_exclusivity(pod, cgroup), Absent)
    asked = {f"STEALTIME_{what}_{kind}": "2" for what in ("CPU", "MEMORY") for kind in ("REQUEST", "LIMIT")}
    assert read_exclusivity(pod | asked, cgroup) == Value(value="Kubernetes, QoS Guaranteed (as the Job asked)")


def test_a_shard_says_which_it_is() -> None:
    assert str(Shard(index=2, count=3)) == "2/3"
