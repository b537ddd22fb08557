"""``compare``: which circumstances of two runs differ, said before any figure."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command import Command
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.report.circumstances.differences import differences
from stealtime.report.comparing import compare
from stealtime.report.summarizing import summarize
from stealtime.store.run import Run

WAKEUP = SyntheticCell("uml", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 410_000.0, 0.4, 2_000)
TICK = SyntheticCell("native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.4, 2_000)
Change = Callable[[dict[str, Any]], object]


def written(folder: Path, *, manifest: Change = bool, trial: Change = bool, cells: tuple[SyntheticCell, ...]) -> Run:
    """Write a run, and change its documents."""
    write_synthetic_run(folder, cells=list(cells))
    for path, change in (
        (folder / "manifest.json", manifest),
        *((one, trial) for one in folder.glob("*/*/trial.json")),
    ):
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))
    return Run.open(folder)


def pair(tmp_path: Path, **changes: Change) -> tuple[Run, Run]:
    cells = (WAKEUP, TICK)
    return written(tmp_path / "a", cells=cells), written(tmp_path / "b", cells=cells, **changes)


def of_uml(change: Change) -> Change:
    return lambda document: change(document) if document["cell"]["platform"] == "uml" else None


def fact(name: str, value: object) -> Change:
    return of_uml(lambda one: one["machine"]["agent_facts"].update({name: {"value": value}}))


def facts(told: dict[str, object]) -> Change:
    return of_uml(lambda one: one["machine"]["agent_facts"].update({name: {"value": told[name]} for name in told}))


def request(**values: object) -> Change:
    return lambda one: one["outcome"]["request"].update(values)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"trial": request(priority=0)}, ("priority", "95", "0", 2)),
        ({"trial": request(duration_ns=7_000_000_000)}, ("duration", None, "7s", 2)),
        ({"trial": fact("kernel_release", "6.12.1-rt")}, ("kernel release", "6.1.0-49-rt-amd64", "6.12.1-rt", 1)),
        ({"trial": fact("cpu_model", "Another")}, ("cpu model", "Imaginary CPU @ 2.10GHz", "Another", 1)),
        ({"trial": fact("clocksource", "hpet")}, ("clocksource", "timer", "hpet", 1)),
        ({"trial": fact("sched_rt_runtime_us", -1)}, ("sched rt runtime us", "not told", "-1", 1)),
        ({"trial": fact("a_fact_to_come", True)}, ("a fact to come", "not told", "yes", 1)),
        ({"trial": of_uml(lambda one: one["machine"].update(measured_cpu=3))}, ("measured cpu", "0", "3", 1)),
        ({"trial": of_uml(lambda one: one["outcome"]["placement"].update(policy="SCHED_OTHER"))},
         ("policy", "SCHED_FIFO", "SCHED_OTHER", 1)),
        ({"trial": lambda one: one["outcome"]["request"]["probe"].update(
            {"iterations": 9} if one["cell"]["probe"] == "tick" else {})}, ("probe iterations", "56000", "9", 1)),
        ({"manifest": lambda one: one["campaign"].update(priority=0)}, ("priority", "not told", "0", 1)),
        ({"manifest": lambda one: one["hosts"]["local"].update(kernel_command_line={"value": "isolcpus=1"})},
         ("kernel command line", "not told", "isolcpus=1", 1)),
        ({"manifest": lambda one: one["hosts"]["local"].update(frequency_governor={"value": "powersave"})},
         ("frequency governor", "not told", "powersave", 1)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_is_not_the_same_in_both_is_found(
    tmp_path: Path, changes: dict[str, Change], told: tuple[str, str | None, str, int]
) -> None:
    found = [one for one in differences(*pair(tmp_path, **changes)) if one.what == told[0]]
    what, a, b, places = told
    assert {one.what for one in differences(*pair(tmp_path / "again", **changes))} == {what}
    assert {one.b for one in found} == {b}
    assert a is None or {one.a for one in found} == {a}
    assert sum(len(one.where) for one in found) == places


def test_what_every_boot_has_anew_is_no_difference(tmp_path: Path) -> None:
    boots = [
        {
            "kernel_command_line": f"mem=256M uml_dir=/tmp/stealtime-4026531836:{pid}:3221000-{name} root=98:0",
            "memory_total_bytes": memory,
        }
        for pid, name, memory in ((20463, "024h8rg3", 234_209_280), (11050, "_zthd8i", 245_874_688))
    ]
    a, b = (
        written(tmp_path / name, cells=(WAKEUP, TICK), trial=facts(told))
        for name, told in zip("ab", boots, strict=True)
    )
    assert differences(a, b) == []
    larger = written(tmp_path / "c", cells=(WAKEUP, TICK), trial=facts({"memory_total_bytes": 502_000_000}))
    assert [one.what for one in differences(a, larger)] != []


def test_equal_runs_differ_in_nothing(tmp_path: Path) -> None:
    a, b = pair(
        tmp_path,
        manifest=lambda one: one["hosts"]["local"].update(load_before={"value": [9.0, 9.0, 9.0]}),
        trial=fact("thread_id", 77),
    )
    assert differences(a, b) == []
    assert compare(a, b).differences == []


def beside(share: float) -> Change:
    """Somebody else has a share of the CPU in each trial."""
    nothing = {"absent": "not read"}
    watched = {"cpus": [1], "elapsed_ns": 10**9, "run_ns": nothing, "run_delay_ns": nothing, "steal_ns": {"value": 0}}
    return lambda one: one.update(strangers={**watched, "strangers_ns": {"value": round(share * 1e9)}})


@pytest.mark.parametrize(
    ("shares", "told"), [((0.01, 0.05), []), ((0.01, 0.2), ["1 %", "20 %"]), ((0.2, 0.0), ["20 %", "0 %"])]
)
def test_who_had_clearly_more_of_the_cpus_in_one_run_is_told(
    tmp_path: Path, shares: tuple[float, float], told: list[str]
) -> None:
    a, b = (
        written(tmp_path / name, cells=(WAKEUP, TICK), trial=beside(share))
        for name, share in zip("ab", shares, strict=True)
    )
    found = compare(a, b).differences
    assert [text for one in found for text in (one.a, one.b)] == told * 2
    assert [one.where for one in found] == [["uml"], ["native"]] * bool(told)
    assert {one.what for one in found} <= {"others' share of the measured CPUs"}
    assert len(compare(summarize(a), summarize(b)).differences) == len(found), "their runs are not needed"


def test_what_one_run_alone_has_measured_is_no_difference_of_circumstances(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", cells=(TICK, WAKEUP)), written(tmp_path / "b", cells=(TICK,))
    assert differences(a, b) == []


def test_they_are_said_before_any_figure(stealtime: Command, tmp_path: Path) -> None:
    a, b = pair(tmp_path, trial=request(priority=0))
    printed = " ".join(stealtime("compare", str(a.folder), str(b.folder)).out.split())
    line = "priority: 95 and 0 ("
    assert line in printed
    assert printed.index(line) < printed.index("ratio of b to a")
    document = json.loads(stealtime("compare", str(a.folder), str(b.folder), "--json").out)
    (told,) = document["differences"]
    assert (told["what"], told["a"], told["b"], len(told["where"])) == ("priority", "95", "0", 2)
