"""A busy host and what a run does about it, on scripted machines: the warning, its document, marks, and claims."""

import asyncio
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from command import Command
from test_cli import SHORT
from test_cli_junit import junit_cases

from stealtime.campaigns import busy_host
from stealtime.campaigns.claims import claimed
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.places import HostCpus
from stealtime.campaigns.planner import Plan, plan
from stealtime.campaigns.strangers import StrangersWatch
from stealtime.lab.processors import read_cpu_sets
from stealtime.lab.scenarios.cpu_claims import CpuClaims
from stealtime.lab.strangers.before_run import BeforeRun
from stealtime.lab.strangers.look import Seen, Stranger
from stealtime.store.model import PlatformRecord
from stealtime.store.strangers import StrangersRecord
from stealtime.vocabulary.errors import StealtimeError
from stealtime.vocabulary.readings import Absent, Value

SECOND = 1_000_000_000
LAST = read_cpu_sets().inherited[-1]


class FakeWatch:
    """Sees one program that has a share of the measured CPU."""

    def __init__(self, share: float) -> None:
        self._share = share

    def end(self) -> None:
        """Nothing to end."""

    def record(self, _counters: Mapping[str, int]) -> StrangersRecord:
        nothing = Absent(absent="not read")
        return StrangersRecord(
            cpus=[LAST],
            elapsed_ns=SECOND,
            strangers_ns=Value(value=round(self._share * SECOND)),
            steal_ns=Value(value=0),
            run_ns=nothing,
            run_delay_ns=nothing,
            who=[Stranger(name="cargo", pid=812, cpu_ns=round(self._share * SECOND))],
        )


@pytest.fixture
def beside_cargo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StrangersWatch, "begin", lambda *_: FakeWatch(0.31))


def busy_look(cpus: Collection[int]) -> BeforeRun:
    who = (Stranger("cargo", 812, SECOND, is_kernel=False, is_of_a_run=False),)
    return BeforeRun(Seen(tuple(cpus), SECOND, Value(value=SECOND // 2), Value(value=0), who), 7.4, None)


def test_a_busy_host_is_told_before_the_run_and_in_its_document_and_nothing_is_refused(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_host, "look_before", busy_look)
    ended = stealtime(*SHORT, "-P", "native", "--json")
    assert ended.code == 0, ended.err
    told = f"the host is busy: other programs had 50 % of CPU {LAST} just before the run (load 7.4); the busiest: cargo"
    assert told in ended.err
    assert "hint: wait until they are done" in ended.err
    (finding,) = json.loads(ended.out)["findings"]
    assert finding["code"] == "busy_before"
    assert finding["text"].startswith(told)
    assert "before the run: the host is busy" in stealtime("show", "last").out


def test_a_cell_that_was_not_alone_is_marked_wherever_it_is_told(
    stealtime: Command, beside_cargo: None, tmp_path: Path
) -> None:
    junit, page = tmp_path / "cells.xml", tmp_path / "page.html"
    ended = stealtime(*SHORT, "-P", "native,uml", "--max-overhead", "9s", "--junit", str(junit))
    assert ended.code == 0, ended.err
    words = f"not alone: others had 31 % of the time on CPU {LAST}: cargo"
    assert "others ran on the measured CPUs in all cells, up to 31 %: cargo" in ended.out
    assert f"native alone tick 68us: {words}" in " ".join(stealtime("show", "--all").out.split())
    assert "\N{DOUBLE DAGGER} not alone" in ended.out
    assert words in junit_cases(junit)["quick.uml.alone tick 68us"].system_out
    for cell in json.loads(stealtime("show", "last", "--json").out)["cells"]:
        assert (cell["strangers"]["not_alone"], cell["strangers"]["who"]) == (1, ["cargo"])
        assert any(text.startswith("not alone") for text in cell["limits"])
    assert stealtime("report", "last", "-o", str(page)).code == 0
    html = page.read_text()
    assert "nothing beside it" not in html
    assert "Others ran on the CPUs that were measured" in html
    answer = html[html.index('<section id="answer"') : html.index('<section id="figures"')]
    assert "<td" in answer
    assert "<b>" not in answer[answer.index("<tbody>") : answer.index("</tbody>")], "no figure of these is bold"
    document = json.loads(stealtime("compare", "last", "last", "--json").out)
    assert len(document["not_alone"]) == 2 * 12


def test_who_was_alone_is_not_marked(stealtime: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StrangersWatch, "begin", lambda *_: FakeWatch(0.001))
    ended = stealtime(*SHORT, "-P", "native")
    assert ended.code == 0, ended.err
    assert "alone: others" not in ended.out
    assert "\N{DOUBLE DAGGER}" not in ended.out
    assert json.loads(stealtime("compare", "last", "last", "--json").out)["not_alone"] == []


def test_a_run_is_refused_while_another_has_its_cpu_and_measures_afterwards(stealtime: Command) -> None:
    other = CpuClaims([LAST], "20261125T180000Z-quick-1a2b")
    other.take()
    refused = stealtime(*SHORT, "-P", "native")
    assert refused.code == 1
    assert f"20261125T180000Z-quick-1a2b (pid {os.getpid()}) has had CPU {LAST} since" in refused.err
    assert "--wait" in refused.err
    other.release()
    assert stealtime(*SHORT, "-P", "native").code == 0
    # The run let go of its own.
    CpuClaims([LAST], "the next").take()


@pytest.fixture
def native_plan() -> Plan:
    campaign = Campaign.model_validate(
        {"name": "x", "platforms": ["native"], "probes": [{"probe": "tick", "duration": "1s"}]}
    )
    return plan(campaign, [PlatformRecord(name="native", usable=True, reason="")], HostCpus((0, 1), 1, "local"))


async def test_who_waits_says_for_whom_and_goes_on_when_that_ends(native_plan: Plan) -> None:
    other, told = CpuClaims([1], "the first run"), asyncio.Event()
    other.take()
    sentences = []

    def tell(sentence: str) -> None:
        sentences.append(sentence)
        told.set()

    async def second() -> None:
        async with claimed(native_plan, "the second", wait=True, tell=tell):
            pass

    waiting = asyncio.create_task(second())
    await told.wait()
    other.release()
    await waiting
    assert len(sentences) == 1
    assert sentences[0].startswith(f"waiting: the first run (pid {os.getpid()}) has had CPU 1 since")


async def test_who_is_interrupted_while_waiting_is_told_that_nothing_was_measured(native_plan: Plan) -> None:
    CpuClaims([1], "the first run").take()
    told = asyncio.Event()

    async def second() -> None:
        async with claimed(native_plan, "the second", wait=True, tell=lambda _: told.set()):
            raise AssertionError("it was not refused")

    waiting = asyncio.create_task(second())
    await told.wait()
    waiting.cancel()
    with pytest.raises(StealtimeError, match="interrupted while waiting for the first run; nothing was measured"):
        await waiting


def test_our_control_plane_beside_another_run_is_a_finding(native_plan: Plan) -> None:
    other = CpuClaims([0], "the first run")
    other.take()
    (finding,) = busy_host.findings_before(native_plan)
    assert finding.code == "beside_another_run"
    assert finding.text.startswith("the first run")
    other.release()
    assert busy_host.findings_before(native_plan) == []


def test_over_a_threshold_beside_others_is_over_and_who_they_were_is_said(
    stealtime: Command, beside_cargo: None, tmp_path: Path
) -> None:
    junit = tmp_path / "cells.xml"
    ended = stealtime(*SHORT, "-P", "native", "--probe", "tick", "--max-overhead", "2s", "--junit", str(junit))
    assert ended.code == 3
    words = f"(not alone: others had 31 % of the time on CPU {LAST}: cargo)"
    assert words in ended.err
    (failure,) = junit_cases(junit)["quick.native.alone tick 68us"].result
    assert words in str(failure.message)
