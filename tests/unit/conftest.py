"""The command line on scripted platforms, for tests of its output."""

import os
from pathlib import Path

import pytest
from command import Command, make_command
from scripted_agent import ScriptedPlatform

from stealtime.lab.host import Host
from stealtime.lab.platforms import registry


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

    async def leave_the_host(_: Host) -> None:
        return None

    monkeypatch.setattr(Host, "put_right", leave_the_host)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    return make_command(monkeypatch, capsys)
