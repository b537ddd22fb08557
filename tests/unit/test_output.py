"""Whatever standard output is, no command ends in the middle: encodings, closed and full outputs, names that steer."""

# ruff: noqa: RUF001 - characters that look like others are what this file is about.

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command import Command
from junitparser import JUnitXml
from scripted_agent import ScriptedPlatform
from synthetic_run import SyntheticCell, write_synthetic_run
from test_runner import only

from stealtime import cli
from stealtime.cli import output, streams
from stealtime.cli.ascii_forms import in_ascii
from stealtime.cli.console import PlainConsole
from stealtime.protect.status import MemberStatus
from stealtime.vocabulary.errors import ExitCode, weightiest
from stealtime.vocabulary.visible import is_visible, visible

NASTY = "[migration/0] x[/] :boom: \x1b[31mred\x07 5 µs × 3 → … \u202e naïve ─│ 日本"
"""A name that markup, emoji, escape sequences and every encoding have something against."""
ENCODINGS = ("ascii", "latin-1", "cp437", "iso-8859-15", "koi8-r", "utf-8")
SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1")

Captured = Callable[..., tuple[int, bytes, bytes]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two made-up runs whose platform, failure and finding have nasty names."""
    folder = tmp_path_factory.mktemp("runs")
    told: tuple[dict[str, str | None], ...] = ({"code": "x", "level": "limits", "text": NASTY, "hint": NASTY},)
    for name in ("20261121T195500Z-first-3f2a", "20261122T195500Z-second-3f2a"):
        cells = [
            SyntheticCell(
                "native", "tick", {"loop_ns": 68_000}, 68_000.0, 3e6, 0.3, 2_000, repetition=number, findings=told
            )
            for number in range(1, 5)
        ]
        cells.append(
            SyntheticCell("uml", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 4e5, 0.4, 2_000, failure=NASTY)
        )
        write_synthetic_run(folder / name, cells=cells, skipped={"alone": NASTY})
    return folder


@pytest.fixture
def captured(stealtime: Command, monkeypatch: pytest.MonkeyPatch) -> Captured:
    """Run a command with outputs of an encoding; give the exit code and the bytes."""

    def run(encoding: str, *arguments: str) -> tuple[int, bytes, bytes]:
        out, err = io.BytesIO(), io.BytesIO()
        monkeypatch.setattr(sys, "argv", ["stealtime", *arguments])
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding=encoding))
        with pytest.raises(SystemExit) as ended:
            cli.main()
        sys.stdout.flush()
        sys.stderr.flush()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out.getvalue(), err.getvalue()

    return run


COMMANDS = {
    "show": (4, "show", "second"),
    "show json": (4, "show", "second", "--json"),
    "show tails": (4, "show", "second", "--tails"),
    "accept": (3, "show", "second", "--accept", "rhel-rt"),
    "compare": (4, "compare", "first", "second"),
    "compare json": (4, "compare", "first", "second", "--json"),
    "published": (4, "compare", "second", "--published", "hyperv2013"),
    "ls": (0, "ls"),
    "report": (0, "report", "second", "-o", "{folder}/µ×….html"),
    "export": (0, "export", "second", "--csv", "{folder}/µ×…"),
    "no such run": (2, "show", NASTY),
    "no such campaign": (2, "run", NASTY),
    "help": (0, "run", "-h"),
}


SHOWN_IN_ALL = ("show", "ls", "no such run", "no such campaign", "help")
PAIRS = [(named, one) for named in COMMANDS for one in (ENCODINGS if named in SHOWN_IN_ALL else ("ascii",))]


@pytest.mark.parametrize(("named", "encoding"), PAIRS)
def test_every_command_can_say_all_in_every_encoding(
    captured: Captured, runs: Path, tmp_path: Path, encoding: str, named: str
) -> None:
    wanted, *arguments = COMMANDS[named]
    arguments = [str(part).replace("{folder}", str(tmp_path)) for part in arguments]
    where = [] if named in ("no such campaign", "help") else ["--runs", str(runs)]
    code, out, err = captured(encoding, *arguments, *where)
    text, told = out.decode(encoding), err.decode(encoding)
    assert code == wanted, told
    assert "internal error" not in told
    assert "\x1b" not in text + told, "an escape sequence went through"
    if named in ("show", "no such run", "no such campaign"):
        assert "[migration/0] x[/] :boom:" in " ".join((text + told).split()), "markup is no markup here"


@pytest.mark.parametrize("command", [("show", "second"), ("compare", "first", "second"), ("ls",)])
def test_a_json_document_is_the_same_in_every_encoding(
    captured: Captured, runs: Path, command: tuple[str, ...]
) -> None:
    written = {one: captured(one, *command, "--json", "--runs", str(runs))[1].decode(one) for one in ("ascii", "utf-8")}
    documents = {one: json.loads(text) for one, text in written.items()}
    assert documents["ascii"] == documents["utf-8"], "a name was changed"
    if command[0] == "show":
        assert NASTY in documents["ascii"]["cells"][1]["reasons"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_a_run_is_measured_shown_and_judged_on_any_output(
    captured: Captured, platforms: list[ScriptedPlatform], tmp_path: Path, encoding: str
) -> None:
    platforms[1].behaviour = only(10, "refuse")
    platforms[2].unusable = NASTY
    junit = tmp_path / "cells.xml"
    code, out, err = captured(encoding, *SHORT, "--max-overhead", "2s", "--junit", str(junit))
    assert code == ExitCode.THRESHOLD, err.decode(encoding)
    assert b"One in a thousand" in out
    assert "skipping qemu-x: [migration/0] x[/] :boom: \\x1b[31mred\\x07" in " ".join(err.decode(encoding).split())
    assert "over --max-overhead" in err.decode(encoding)
    assert JUnitXml.fromfile(str(junit)).failures == 11


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("5 µs × 3 → 15 …", "5 us x 3 -> 15 ..."),
        ("─│┌┼━", "-|++-"),
        ("naïve café", "naive cafe"),
        ("日本", "??"),
        ("⠋ ≤ 3 ± 1", ". <= 3 +- 1"),
        ("a\udcffb", "a\\xffb"),
    ],
)
def test_what_an_encoding_has_not_is_written_in_ascii(text: str, shown: str) -> None:
    assert in_ascii(text) == shown


def test_what_an_encoding_has_stays(captured: Captured, runs: Path) -> None:
    _, _, err = captured("latin-1", "show", "µ×…", "--runs", str(runs))
    assert "there is no run 'µ×...'" in err.decode("latin-1")


def test_text_that_steers_a_terminal_is_shown_as_python_writes_it() -> None:
    assert visible("a\x1b[31m\tb\nc\x9b\u202e\x7f") == "a\\x1b[31m\tb\nc\\x9b\\u202e\\x7f"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_no_json_document_steers_a_terminal(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    said = "a\x1b\tb\x7f\x9b31m\\\x9c\u202e\u2066\u2028 µ"
    member = MemberStatus(vm=said, host="a", role="gone", protected=False)
    documents: tuple[dict[str, object] | MemberStatus, ...] = ({"name": said, said: 1}, member)
    for document in documents:
        out = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
        output.print_document(document)
        sys.stdout.flush()
        text = out.getvalue().decode(encoding)
        assert is_visible(text)
        assert ("µ" in text) == (encoding == "utf-8")
        assert said in json.loads(text).values()


def test_a_terminal_gets_escape_sequences_of_our_own_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("[bold]name[/bold]", title=NASTY)
    table.add_row(NASTY)
    table.add_row(Text(NASTY, style="red"))
    console = PlainConsole(width=200)
    console.file = io.StringIO()
    monkeypatch.setattr(console, "_force_terminal", True)
    console.print(table)
    console.print(NASTY)
    with console.status(NASTY) as status:
        status.update(NASTY)
    shown = console.file.getvalue()
    assert re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).count("\x1b") == 0
    assert "\\x1b[31mred\\x07" in shown
    assert "[bold]name[/bold]" in shown
    assert ":boom:" in shown
    assert "\x1b[31mred\x07" not in shown


def begin(*arguments: str, **options: object) -> "subprocess.Popen[bytes]":
    """Start the command as its script does, in a process of its own."""
    start = [sys.executable, "-c", "from stealtime.start import main; main()", *arguments]
    return subprocess.Popen(start, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


def test_a_closed_or_full_output_is_told_and_a_closed_pipe_is_not(runs: Path) -> None:
    where = ("--runs", str(runs))
    # All at once: each costs the start of an interpreter.
    closed = begin("ls", *where, preexec_fn=lambda: os.close(1))
    with Path("/dev/full").open("wb") as full:
        filled = begin("ls", "--json", *where, stdout=full)
    reading, writing = os.pipe()
    os.close(reading)
    piped = begin("show", "second", "--json", *where, stdout=writing)
    os.close(writing)
    locale = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""}
    plain = begin("show", "5 µs × 3", *where, env=locale)
    ended = {one: one.communicate(timeout=60)[1] for one in (closed, filled, piped, plain)}
    assert closed.returncode == 1
    assert b"error: standard output cannot be written: it is closed" in ended[closed]
    assert filled.returncode == 1
    assert b"error: standard output cannot be written: No space left on device" in ended[filled]
    assert piped.returncode == 4, "whoever has seen enough takes no verdict away"
    assert ended[piped] == b"1 cells failed: uml.alone.wakeup-1ms.r1\n", "nor is the closed pipe a mistake"
    assert plain.returncode == 2
    assert b"error: there is no run '5 " in ended[plain], ended[plain]
    assert all(b"Traceback" not in err and b"internal error" not in err for err in ended.values())


def test_an_interruption_while_the_command_is_loaded_shows_no_traceback() -> None:
    at_once = "import os, signal, stealtime.start; os.kill(os.getpid(), signal.SIGINT)"
    ended = subprocess.run([sys.executable, "-c", at_once], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (-2, b"")
    ignored = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {at_once}; print('alive')"
    ended = subprocess.run([sys.executable, "-c", ignored], capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"alive\n"), "who started us decides that it is ignored"


def test_a_patient_file_keeps_its_first_error_and_takes_the_rest() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    file = streams.PatientFile(writing)
    assert file.write(b"lost") == 4
    assert isinstance(file.error, BrokenPipeError)
    assert file.write(b"lost as well") == 12
    os.close(writing)


def test_of_several_exit_codes_a_verdict_counts_first() -> None:
    fine, failed, usage, threshold, not_judged = ExitCode
    assert weightiest(threshold, failed) == threshold
    assert weightiest(not_judged, failed) == failed
    assert weightiest(fine, not_judged) == not_judged
    assert weightiest(usage, failed) == usage
