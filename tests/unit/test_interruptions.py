"""Signals that a run is sent by its user: each is answered in a sentence, and what was stored before is kept."""

import logging
import os
import signal
from pathlib import Path

import pytest
from command import Command
from scripted_agent import PART_ROWS, ScriptedPlatform
from test_cut_short import IN_PARTS, PARTS

from stealtime.campaigns import progress
from stealtime.campaigns.planned import PlannedCell
from stealtime.store.run import Run
from stealtime.wire.message import TrialRequest


def signalled(number: signal.Signals) -> None:
    """Send this process a signal, as a terminal does; Python handles it before it goes on."""
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_interruption_gives_the_last_words_up_and_keeps_what_was_stored(
    stealtime: Command,
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    number: signal.Signals,
) -> None:
    """The agent has been stopped (SIGSTOP): it answers nothing any more."""
    asked = 0
    words = progress.stopping_words

    def freeze(_: TrialRequest) -> str:
        nonlocal asked
        asked += 1
        if asked == 2:  # the part is stored
            signalled(number)
        return "part, freeze"

    def once_more(cell: PlannedCell) -> str:
        signalled(number)
        return words(cell)

    platforms[:] = [ScriptedPlatform("native", freeze)]
    monkeypatch.setattr(progress, "stopping_words", once_more)
    monkeypatch.setattr("stealtime.campaigns.runner.LAST_WORDS_S", 3600.0)
    campaign = tmp_path / "parts.toml"
    campaign.write_text(PARTS)
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # whoever started these tests may have it ignored
    try:
        with caplog.at_level(logging.WARNING):
            ended = stealtime("run", str(campaign))
        assert signal.getsignal(number) == usual
    finally:
        signal.signal(number, before)
    assert asked == 2
    assert ended.code == 1
    [run] = (tmp_path / "data" / "stealtime" / "runs").iterdir()
    assert "error: interrupted; what was measured is kept\n" in ended.err
    assert f"hint: continue with `stealtime run --resume {run.name}`\n" in ended.err
    assert "before anything was measured" not in ended.err
    assert "Traceback" not in ended.err
    assert [record.getMessage() for record in caplog.records] == []
    [trial] = Run.open(run).trials
    assert (trial.record.trial_id, trial.record.state, trial.parts) == (IN_PARTS, "cut_short", None)
    assert trial.record.outcome is not None
    assert trial.record.outcome.counters["recorded"] == PART_ROWS


def test_a_signal_that_is_ignored_ends_no_run(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    """As under ``nohup``."""

    def hang_up(_: TrialRequest) -> str:
        signalled(signal.SIGHUP)
        return "measure"

    platforms[:] = [ScriptedPlatform("native", hang_up)]
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ended = stealtime("run", "quick", "--probe", "tick", "-D", "1ms", "--repetitions", "1")
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.code == 0, ended.err
