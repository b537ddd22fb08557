"""The command line on scripted platforms, for tests of its output."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from command import Command, make_command
from scripted_agent import ScriptedPlatform

from stealtime.campaigns import busy_host, staying
from stealtime.campaigns.registry import added
from stealtime.campaigns.strangers import StrangersWatch
from stealtime.lab.host import LocalHost
from stealtime.lab.platforms import registry
from stealtime.lab.scenarios.cpu_claims import FOLDER_VARIABLE
from stealtime.lab.strangers.before_run import BeforeRun
from stealtime.lab.strangers.look import Seen
from stealtime.vocabulary.readings import Value


def quiet_look(cpus: Collection[int]) -> BeforeRun:
    nothing = Value(value=0)
    return BeforeRun(Seen(tuple(cpus), 1_000_000_000, nothing, nothing, ()), 0.0, None)


@pytest.fixture(autouse=True)
def no_strangers(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """See nobody beside scripted machines, whoever works on this host meanwhile, and claim CPUs from nobody."""
    monkeypatch.setattr(StrangersWatch, "begin", lambda *_: None)
    monkeypatch.setattr(busy_host, "look_before", quiet_look)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("claims")))
    # The thread of a scripted machine is that of somebody else, who runs where he likes.
    monkeypatch.setattr(staying, "PROC", Path(os.devnull))


@pytest.fixture
def platforms(monkeypatch: pytest.MonkeyPatch) -> list[ScriptedPlatform]:
    """The platforms there are; a test may change them."""
    there = [
        ScriptedPlatform("native"),
        ScriptedPlatform("uml"),
        ScriptedPlatform("qemu-x", unusable="no such program"),
    ]
    monkeypatch.setattr(registry, "all_platforms", lambda: there)
    return there


@pytest.fixture
def stealtime(
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Command:
    """Run a command with runs of its own on scripted ``platforms``; the host is left as it is."""

    async def leave_the_host(_: LocalHost) -> None:
        return None

    monkeypatch.setattr(LocalHost, "put_right", leave_the_host)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    return make_command(monkeypatch, capsys)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Where ``stealtime`` keeps the runs of a test."""
    return tmp_path / "data/stealtime/runs"


@pytest.fixture
def echo_study() -> Iterator[None]:
    """A study that does not come with stealtime."""
    from dummy_study.study import STUDY

    with added(STUDY):
        yield
