"""A command of ``stealtime`` in this process: what a user types, and what comes back."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from stealtime import cli


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Command = Callable[..., Ended]


def make_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Give what runs ``stealtime`` with the arguments it is called with."""

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["stealtime", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        captured = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return Ended(code, captured.out, captured.err)

    return run
