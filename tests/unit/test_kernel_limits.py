"""What the kernel takes from real-time threads on purpose, as a supply, alone and beside a guest's."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from command import make_command

from stealtime import _core
from stealtime.cli import kernel_limits, sched_sources
from stealtime.doctor.attempts import Attempt, Attempts
from stealtime.doctor.files import Files
from stealtime.schedulability.formats.draft import make_task_file
from stealtime.schedulability.kernel_limits import KernelLimits
from stealtime.schedulability.machine_limits import limits_of, with_limits_of_machine
from stealtime.schedulability.overheads import NO_OVERHEADS, Provenance
from stealtime.schedulability.question import Terms
from stealtime.schedulability.supply import DEDICATED, Supply, combined, parse_supply
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Value

MS = 1_000_000
S = 1_000 * MS


class ReadFiles:
    """Files of debugfs, or the reason why none can be read."""

    def __init__(self, of: Mapping[str, str] | None) -> None:
        self._of = of

    def kernel_files(self, kind: str, names: Sequence[str]) -> Attempt:
        assert kind == "debugfs"
        if self._of is None:
            return Attempt(succeeded=False, text="mount: permission denied", hint="run as root")
        return Attempt(succeeded=True, text="\n".join(self._of[name.rsplit("/", 1)[1]] for name in names))


def supply_of(folder: Path, release: str, runtime_us: str, server: Mapping[str, str] | None) -> Supply:
    for name, text in {
        "proc/sys/kernel/osrelease": release,
        "proc/sys/kernel/sched_rt_runtime_us": runtime_us,
        "proc/sys/kernel/sched_rt_period_us": "1000000",
        "proc/self/cgroup": "0::/",
        "sys/devices/system/cpu/online": "0-1",
        f"boot/config-{release}": "# CONFIG_RT_GROUP_SCHED is not set",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return kernel_limits.supply_here(Files(folder), cast("Attempts", ReadFiles(server)))


def response_ns(supply: Supply, cost_ns: int, period_ns: int = S) -> int | None:
    question: _core.QuestionDict = {
        "tasks": [(cost_ns, period_ns, period_ns, 0, 0)],
        "overheads": [],
        "tick_period_ns": MS,
        "interrupts": "here",
        "policy": "fixed-priority by job",
        "supply": supply.for_core(),
    }
    ((bound, _, _),) = _core.analyze_tasks(question)["responses"] or []
    return bound


def test_throttling_and_the_fair_server_delay_a_job_by_what_they_may_take(tmp_path: Path) -> None:
    throttled = supply_of(tmp_path / "old", "6.1.0-56-rt-amd64", "950000", None)
    # The last 50 ms of each period, and a tick of 10 ms that may have been overrun.
    assert throttled.parameters == (S, 940 * MS, 940 * MS)
    assert response_ns(throttled, MS) == 61 * MS
    served = supply_of(tmp_path / "new", "6.18.44", "950000", {"runtime": "50000000", "period": "1000000000"})
    assert served.parameters == (S, 950 * MS, S)
    assert response_ns(served, MS) == 101 * MS
    # A job of the whole budget needs all that is left of a second, after two pauses in a row.
    assert response_ns(served, 950 * MS, 2 * S) == 1_050 * MS
    other = supply_of(tmp_path / "other", "6.18.44", "950000", {"runtime": "20000000", "period": "100000000"})
    assert other.parameters == (100 * MS, 80 * MS, 100 * MS)


def test_what_is_off_takes_nothing_and_what_cannot_be_read_is_taken_as_it_begins(tmp_path: Path) -> None:
    off = supply_of(tmp_path / "off", "6.18.44", "-1", {"runtime": "0", "period": "1000000000"})
    assert (off.kind, off.has_kernel_limits, DEDICATED.has_kernel_limits) == ("dedicated", True, False)
    unknown = supply_of(tmp_path / "unknown", "6.18.44", "-1", None)
    assert unknown.parameters == (S, 950 * MS, S)
    with pytest.raises(StealtimeError, match="RT throttling cannot be looked at"):
        kernel_limits.supply_here(Files(tmp_path / "nowhere"), cast("Attempts", ReadFiles(None)))
    with pytest.raises(StealtimeError, match="RT throttling of this kernel leaves nothing"):
        supply_of(tmp_path / "nothing", "6.1.0", "5000", None)


def test_of_several_each_takes_its_time_of_what_the_others_leave() -> None:
    guest = parse_supply("6ms/10ms")
    both = combined([guest, KernelLimits((950 * MS, S), (50 * MS, S)).supply()])
    assert [one.kind for one in both.parts] == ["periodic"] * 3
    # At worst 8 ms of the guest's, 60 and 100 ms of its kernel's, and the guest's share meanwhile.
    alone, together = response_ns(guest, MS), response_ns(both, MS)
    assert alone == 9 * MS
    assert together is not None
    assert together > (8 + 60 + 100 + 1) * MS
    assert "6ms of every 10ms, and of it 940ms of every 1s, within 940ms (what the RT throttling leaves)" in both.text
    assert combined([DEDICATED, guest]) == guest


def test_the_command_charges_what_this_host_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.toml").write_text('[[tasks]]\nname = "a"\ncost = "4ms"\nperiod = "50ms"\n')
    stealtime = make_command(monkeypatch, capsys)
    monkeypatch.setattr(kernel_limits, "supply_here", KernelLimits(None, (50 * MS, S)).supply)
    assert stealtime("sched", "analyze", "t.toml").code == 0
    here = stealtime("sched", "analyze", "t.toml", "--host", "here", "--json")
    document = json.loads(here.out)
    assert (here.code, document["supply"]) == (3, "950ms of every 1s (what the fair server leaves)")
    assert "RT throttling and the fair server" not in [one["what"] for one in document["not_charged"]]
    assert document["cpus"][0]["tasks"][0]["response_ns"] == 104 * MS
    lifted = stealtime("sched", "analyze", "t.toml", "--host", "lifted", "--json")
    document = json.loads(lifted.out)
    assert (lifted.code, document["supply"]) == (0, "a dedicated CPU")
    assert "RT throttling and the fair server" not in [one["what"] for one in document["not_charged"]]
    # The same by hand, beside a guest's share.
    assert stealtime("sched", "analyze", "t.toml", "--supply", "9ms/10ms+950ms/1s").code == 3
    assert stealtime("sched", "analyze", "t.toml", "--supply", "9ms/10ms").code == 0
    wrong = stealtime("sched", "analyze", "t.toml", "--host", "there")
    assert wrong.code == 2
    assert "--host: 'there' is neither 'here' nor 'lifted'" in wrong.err
    assert stealtime("sched", "analyze", "t.toml", "--supply", "9ms/10ms+950ms").code == 2


def test_plus_signs_part_supplies_and_not_the_path_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a+b"
    folder.mkdir()
    asked: list[str] = []

    def observed(name: str, _: str | None) -> Supply:
        asked.append(name)
        return DEDICATED

    monkeypatch.setattr(sched_sources, "_observed", observed)
    sched_sources.supply_of(str(folder), None)
    sched_sources.supply_of("last + 9ms/10ms", None)
    assert asked == [str(folder), "last"]


FACTS = {"sched_rt_runtime_us": Value(value=950_000), "kernel_release": Value(value="6.1.0-56-rt-amd64")}


def test_a_machines_facts_tell_what_its_kernel_may_take() -> None:
    assert limits_of(FACTS) == KernelLimits((950 * MS, S), None)
    newer = FACTS | {"kernel_release": Value(value="6.18.44-fc-v657"), "sched_rt_runtime_us": Value(value=-1)}
    assert limits_of(newer) == KernelLimits(None, (50 * MS, S))
    assert limits_of(FACTS | {"sched_rt_runtime_us": Absent(absent="no such file")}) is None
    assert limits_of({}) is None


@pytest.mark.parametrize(
    ("cost_ms", "supply", "limits", "charged"),
    [
        # 60 ms of any 100: 11 jobs and the one that is carried in, 660 ms of a second.
        (60, "dedicated", KernelLimits((950 * MS, S), None), False),
        (95, "dedicated", KernelLimits((950 * MS, S), None), True),
        # In 950 ms 11 jobs may run, 880 ms of the 900 that leave 50; or 913.
        (80, "dedicated", KernelLimits(None, (50 * MS, S)), False),
        (83, "dedicated", KernelLimits(None, (50 * MS, S)), True),
        (10, "90ms/100ms", KernelLimits((950 * MS, S), None), True),
        (99, "dedicated", KernelLimits(None, None), False),
    ],
)
def test_limits_are_charged_where_tasks_may_bring_them_about(
    cost_ms: int, supply: str, limits: KernelLimits, charged: bool
) -> None:
    table: dict[str, object] = {"name": "a", "cost": cost_ms * MS, "period": 100 * MS}
    file = make_task_file([table], Path("made up"))
    model = replace(NO_OVERHEADS, provenance=Provenance("worst", "native", kernel_limits=limits))
    found = with_limits_of_machine(file, Terms(supply=parse_supply(supply), overheads=model)).terms
    assert found.supply.has_kernel_limits
    assert (found.supply != replace(parse_supply(supply), has_kernel_limits=True)) == charged


def test_where_nothing_is_known_nothing_is_said() -> None:
    file = make_task_file([{"name": "a", "cost": 99 * MS, "period": 100 * MS}], Path("made up"))
    for terms in (Terms(), Terms(policy="edf", overheads=replace(NO_OVERHEADS, provenance=Provenance("worst", "x")))):
        assert with_limits_of_machine(file, terms).terms == terms
