"""The host's clock rate is measured once and never trusted blindly."""

from pathlib import Path

import pytest

from stealtime.lab.platforms import host_clock


def agent_that_prints(folder: Path, text: str) -> Path:
    agent = folder / "agent"
    agent.write_text(f"#!/bin/sh\necho run >> {folder}/runs\necho '{text}'\n")
    agent.chmod(0o755)
    return agent


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_the_rate_is_measured_once_a_boot(tmp_path: Path) -> None:
    text = '{"schema_version": 1, "tsc_hz": 2596139801.7, "tsc_hz_source": "measured"}'
    agent = agent_that_prints(tmp_path, text)
    assert [host_clock.host_tsc_khz(agent) for _ in range(3)] == [2_596_140] * 3
    assert (tmp_path / "runs").read_text().count("run") == 1


def test_an_agent_that_cannot_tell_leaves_the_guest_to_guess(tmp_path: Path) -> None:
    assert host_clock.host_tsc_khz(tmp_path / "missing") is None
    assert host_clock.host_tsc_khz(agent_that_prints(tmp_path, "no JSON")) is None
