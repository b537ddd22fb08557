"""What a user gets wrong: one sentence with the value, what to do, and exit code 2; nothing is an internal error."""

import ast
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command import Command
from scripted_agent import ScriptedPlatform
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime import cli
from stealtime.campaigns.file import builtin_names, find_campaign
from stealtime.campaigns.progress import PlainProgress, show_progress
from stealtime.cli.console import PlainConsole
from stealtime.cli.interruptible import interruptibly
from stealtime.report.claims.library import published_names
from stealtime.report.claims.statements import statement_names

TICK = '[[probes]]\nprobe = "tick"\nduration = "5s"\n'
TASK = '[[tasks]]\nname = "a"\ncost = "1ms"\nperiod = "7ms"\n'
CELLS = [SyntheticCell("native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 4e5, 0.4, 2_000)]
SOURCE = Path(cli.__file__).parents[1]
SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'name = "x"\nname = "y"\n{TICK}', "line 2: the key 'name' is given twice"),
        (f'name = "x"\n{TICK}duration = "4s"', "line 5: the key 'duration' is given twice"),
        (f'name = "x"\n{TICK}[short]\n[short]\n', "line 6: the table [short] is given twice"),
        ('name = "x"\nprobes = []\n', "line 2: probes = []: it needs at least 1, and has 0"),
        (f'name = "x"\n{TICK}[[probes]]\nprobe = "switch"\nthreads = []\nduration = "1s"\n',
         "line 7: threads = [] in [[probes]] 2: it needs at least 1"),
        (f'name = "x"\nplatforms = ["native", 3]\n{TICK}',
         'line 2: value 2 of platforms = 3: it must be text, in quotes: "..."'),
        (f'name = "x"\nrepetitions = 0\n{TICK}', "line 2: repetitions = 0: it must be at least 1"),
        (f'name = "x"\nrepetitions = 1.5\n{TICK}', "line 2: repetitions = 1.5: it must be a whole number"),
        (f'name = "x"\ntracing = true\n{TICK}', "line 2: tracing = true: it must be 'off', 'on' or 'both'"),
        (f'name = "My Run"\n{TICK}', "line 1: name = 'My Run': it must be of the form ^[a-z0-9]"),
    ],
)  # fmt: skip
def test_a_wrong_campaign_is_explained_in_the_words_of_its_file(
    stealtime: Command, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    ended = stealtime("run", str(file), "--dry-run")
    assert ended.code == 2
    assert f"error: {file}, {told}" in ended.err


def test_a_mark_of_byte_order_is_no_part_of_a_file(stealtime: Command, tmp_path: Path) -> None:
    campaign, tasks, overheads = (tmp_path / name for name in ("mine.toml", "tasks.toml", "o.csv"))
    campaign.write_text(f'\ufeffname = "x"\n{TICK}', "utf-8")
    tasks.write_text(f"\ufeff{TASK}", "utf-8")
    overheads.write_text("\ufeffTASK-COUNT,RELEASE\n1,2\n", "utf-8")
    assert stealtime("run", str(campaign), "--dry-run").code == 0
    assert stealtime("sched", "analyze", str(tasks), "--overheads", str(overheads)).code == 0
    campaign.write_text(f'\ufeffname = "x"\nreps = 1\n{TICK}', "utf-8")
    assert "line 2: unknown key 'reps'" in stealtime("run", str(campaign)).err


@pytest.mark.parametrize(
    ("arguments", "told", "hint"),
    [
        (("watch", "--prometheus", "99999"), "has the port 99999, which is none from 1 to 65535", "9105"),
        (("watch", "--prometheus", "x"), "'x' is no address with a port", "9105"),
        (("blackout", ":99999"), "':99999' has the port '99999', which is none from 1 to 65535", "HOST:PORT"),
        (("blackout", ":7000"), "':7000' names no host", "HOST:PORT"),
        (("sched", "analyze", "{tasks}", "--supply", "5ms"), "--supply: '5ms' is a time alone", "5ms/PERIOD"),
        (
            ("sched", "analyze", "{tasks}", "--supply", "nonsense"),
            "'nonsense' is neither a supply nor a run",
            "write dedicated, 6ms/10ms, windows:FILE, or a run",
        ),
        (
            ("sched", "analyze", "{tasks}", "--overheads", "nonsense"),
            "'nonsense' is neither overheads nor a run",
            "write a .csv or .toml file, or a run",
        ),
        (("run", "--accept", "rhel-rt"), "no such option: --accept", "see `stealtime run -h`"),
        (("run", "--durration", "5s"), "no such option: --durration", "did you mean --duration?"),
        (("check", "--for", "5h"), "--for 5h is not possible: a check measures for at most 75s", "`stealtime run"),
        (("sched", "analyze", "{tasks}", "--supply", "300d/4000d"), "longer than the analysis reckons with, 33", "6ms"),
        (("sched", "analyze", "{tasks}", "--least-budget", "4000d"), "--least-budget: 96000h is longer than", None),
        (("sched", "analyze", "{tasks}", "--tick-period", "4000d"), "--tick-period: 96000h is longer than", None),
        (("sched", "analyze", "{decade}"), "line 4: period in [[tasks]] 1: 96000h is longer than", "schema"),
        (("sched", "analyze", "{ever}"), "is more than can be counted", "schema"),
        (("sched", "analyze", "nosuch.toml"), "the task file nosuch.toml does not exist", "name"),
        (("sched", "analyze", "{tasks}", "--overheads", "nosuch.csv"), "nosuch.csv does not exist", "name"),
        (("sched", "generate", "--law", "light-uniform", "-k", "1000000"), "are more than 10000", "fewer"),
        (("--install-completion", "foo"), "--install-completion takes no 'foo'", "in that shell"),
        (("compare", "last"), "compare needs a second run", "hyperv-stretch|hyperv2013|rtos2013|telephony2011"),
        (("advise", "--history", "/nosuch"), "--history /nosuch: it cannot be read: No such file", "--keep FOLDER"),
        (
            ("advise", "--from", "/nosuch"),
            "--from /nosuch: it cannot be read: No such file",
            "`stealtime advise --json`",
        ),
        ((*SHORT, "--junit", "{closed}/x.xml"), "may not be written", "another file"),
        (("run", "-D", "5"), "--duration: '5' has no unit", "give a duration such as 500ms, 5s or 1m30s"),
        (("run", "--max-overhead", "x"), "--max-overhead: 'x' is not a duration", "p99.9=100us the 99.9th percentile"),
        (("run", "-D", "9000h"), "--duration: a trial of 375 days is too long; one may take 366", "run -h"),
        (("run", "-p", "x"), "--priority: 'x' is wrong, it must be a whole number", "stealtime run -h"),
        (("run", "-p", "100"), "--priority cannot be 100: it must be at most 99", "stealtime run -h"),
        (("run", "-n", "0"), "--repetitions cannot be 0: it must be at least 1", "stealtime run -h"),
        (("run", "-t", "2,,3"), "--threads: '2,,3' is not a list of whole numbers", "2,10,100"),
        (("run", "--probe", "tick", "-t", "2"), "--threads is about the probe 'switch'", "leave it out"),
        (("run", "--runs", "{tasks}"), "{tasks} is no folder", "another folder"),
        (("show", "--foo"), "no such option: --foo", "stealtime show -h"),
        (("show", "--jsno"), "no such option: --jsno", "did you mean --json? See `stealtime show -h`"),
        (("doctor", "foo"), "unexpected argument 'foo'", "stealtime doctor -h"),
        (("blackout", "--ping"), "requires an argument", "see `stealtime blackout -h`"),
        (("schema",), "missing argument 'FILE'", "one of campaign, vm,"),
        (("compare",), "compare needs a run", "--published"),
        (("show", "--runs", "nosuch"), "--runs: nosuch does not exist", "stealtime run"),
        (("ls", "--runs", "{tasks}"), "--runs: {tasks} is no folder", "stealtime run"),
        (("show", "--accept", "nosuch.toml"), "the file of bars nosuch.toml cannot be read: No such file", "rhel-rt"),
        (("export", "--csv", "{tasks}"), "--csv: {tasks} is no folder", "name a folder"),
        (("sched", "curve", "-n", "x"), "--sets: 'x' is wrong, it must be a whole number", "sched curve -h"),
        (("sched", "generate", "--law", "randfixedsum", "--total", "nan"), "--total: nan is not the utiliz", "0.8"),
        (("sched", "generate", "--law", "randfixedsum", "--total", "-1"), "--total: -1.0 is not the utiliz", "0.8"),
        (("sched", "generate", "--law", "light-unifrom"), "--law: 'light-unifrom' is unknown", "'light-uniform'"),
        (("protect", "spec", "{disk}"), "disk = 'web.qcow2': disks are tables here", "[[disks]]"),
        (("help", "foo"), "no such command 'foo'", "stealtime -h"),
        (("check", "nosuch"), "the target 'nosuch' is of no known kind", "libvirt:DOMAIN"),
        (("check", "--bar", "5"), "--bar: '5' is no bar", "100us, rhel-rt"),
        (("check", "--bar", "0s"), "--bar: '0s' is no bar", "100us"),
        (("check", "--for", "0s"), "--for: '0s' is less than 1 ns", "500ms"),
        (("advise", "--for", "5s"), "--for: 5s is time for 5 of the 10 samples that a verdict needs", "take 10s"),
        (("advise", "--last", "5h"), "--last 5h is about --history", "--history FOLDER"),
        (("advise", "--add", "2vcpus"), "does not say how busy its virtual CPUs are", "2vcpu,busy=60%"),
        (("advise", "--add", "2vcpu,busy=200%"), "busy=200% is not above 0 % and up to 100 %", "2vcpu,busy=60%"),
        (("advise", "--from", "{tasks}"), "--from {tasks}: it is no document of `advise`", "`stealtime advise --json`"),
        (("advise", "{tasks}"), "{tasks}: files are read with --from only", "--from {tasks}"),
        (("watch", "--once", "--prometheus", "9105"), "--once prints and ends", "leave one out"),
        (("watch", "--keep", "x"), "--keep x: only what serves metrics keeps verdicts", "--prometheus ADDRESS"),
        (("sched", "place", "{tasks}"), "missing option '--on'", "stealtime sched place -h"),
        (("export", "--trace-processor", "x"), "--perfetto writes, which was not asked for", "--perfetto FILE"),
        (("export", "--perfetto", "x", "--trace-processor", "/nosuch"), "there is no such file", "perfetto.dev"),
        (("export",), "export was not told what to write", "--perfetto FILE"),
        (("run", "--on-threshold", "x"), "--on-threshold: 'x' is not a duration", "500ms"),
        (("protect", "recover", "/nosuch"), "the VM file /nosuch does not exist", "its name"),
        (("protect", "upgrade"), "the new version, or --resume", "apt-get install"),
        (("protect", "demo", "--interval", "5"), "--interval: '5' has no unit", "100ms"),
        (("protect", "demo", "--mode", "x"), "'x' is not one of 'off', 'no-net', 'net'", "protect demo -h"),
    ],
)
def test_a_wrong_argument_is_one_sentence_with_a_hint(
    stealtime: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    told: str,
    hint: str | None,
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    if "{closed}/x.xml" in arguments:
        monkeypatch.setattr("os.access", lambda path, *_, **__: Path(path) != closed)
    texts = {
        "disk": 'name = "web"\ndisk = "web.qcow2"\n',
        "tasks": TASK,
        "decade": TASK.replace("7ms", "4000d"),
        "ever": TASK.replace("7ms", "99999999999999999999ns"),
    }
    places = {"closed": str(closed)}
    for name, text in texts.items():
        places[name] = str(tmp_path / f"{name}.toml")
        Path(places[name]).write_text(text)
    ended = stealtime(*(argument.format(**places) for argument in arguments))
    assert ended.code == 2, ended.err
    assert told.format(**places) in ended.err
    assert hint is None or hint.format(**places) in ended.err.partition("hint: ")[2]


def test_nothing_that_a_user_asks_wrongly_is_refused_without_a_hint() -> None:
    without = [
        f"{file.relative_to(SOURCE)}:{call.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "UsageError"
        and not any(one.arg == "hint" for one in call.keywords)
    ]  # fmt: skip
    assert without == []


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ((), "Usage: stealtime [OPTIONS] COMMAND"),
        (("help",), "Usage: stealtime [OPTIONS] COMMAND"),
        (("help", "show"), "Usage: stealtime show"),
        (("sched",), "Usage: stealtime sched"),
        (("help", "sched", "analyze"), "Usage: stealtime sched analyze"),
        (("protect",), "Usage: stealtime protect"),
        (("version",), "stealtime "),
    ],
)
def test_who_asks_what_there_is_gets_an_answer(stealtime: Command, arguments: tuple[str, ...], shown: str) -> None:
    ended = stealtime(*arguments)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.lstrip().startswith(shown)


def test_help_names_all_that_comes_with_stealtime(stealtime: Command) -> None:
    run, compare = (" ".join(stealtime(name, "-h").out.split()) for name in ("run", "compare"))
    assert [name for name in builtin_names() if name not in run] == []
    assert [name for name in published_names() if name not in compare] == []


def test_a_run_that_is_compared_with_itself_is_told(stealtime: Command, tmp_path: Path) -> None:
    write_synthetic_run(tmp_path / "20261121T195500Z-only-3f2a", cells=CELLS)
    ended = stealtime("compare", "last", "only", "--runs", str(tmp_path))
    assert "is compared with itself: no difference is all that can be shown" in " ".join(ended.err.split())


def test_a_dumb_terminal_shows_progress_line_by_line(
    platforms: list[ScriptedPlatform], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    console = PlainConsole(width=80)
    console.file = io.StringIO()
    monkeypatch.setattr(console, "_force_terminal", True)
    with show_progress(console) as progress:
        assert isinstance(progress, PlainProgress)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("missing/x.html", "the folder {folder}/missing does not exist"),
        (".", "{folder} is a folder"),
    ],
)
def test_a_report_that_can_be_nowhere_is_told_before_it_is_drawn(
    stealtime: Command, tmp_path: Path, place: str, told: str
) -> None:
    write_synthetic_run(tmp_path / "20261121T195500Z-only-3f2a", cells=CELLS)
    ended = stealtime("report", "--runs", str(tmp_path), "-o", str(tmp_path / place))
    assert ended.code == 2, ended.err
    assert told.format(folder=tmp_path) in ended.err
    assert "hint: " in ended.err


def test_a_report_goes_through_a_pipe_and_leaves_it_there(stealtime: Command, tmp_path: Path) -> None:
    write_synthetic_run(tmp_path / "20261121T195500Z-only-3f2a", cells=CELLS)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as readers:
        read = readers.submit(pipe.read_bytes)
        ended = stealtime("report", "--runs", str(tmp_path), "-o", str(pipe))
    assert (ended.code, ended.out) == (0, f"{pipe}\n"), ended.err
    assert read.result().startswith(b"<!doctype html>")
    assert pipe.is_fifo()


def test_earlier_names_of_options_go_on_working(stealtime: Command, tmp_path: Path) -> None:
    write_synthetic_run(tmp_path / "20261121T195500Z-only-3f2a", cells=CELLS)
    assert "20261121T195500Z-only-3f2a" in stealtime("ls", "--out", str(tmp_path)).out
    assert "20261121T195500Z-only-3f2a" in stealtime("ls", f"--out={tmp_path}").out
    assert "--timeout: 'x' is not a duration" in stealtime("blackout", "localhost", "--wait", "x").err
    assert "--out" not in stealtime("ls", "-h").out.replace("--output", "")


def commands_below(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands_below(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands_below(cli.command_line()))


def test_a_short_flag_has_one_long_name_everywhere() -> None:
    meanings: dict[str, set[str]] = {}
    for command in ALL.values():
        for option in command.params:
            long = [name for name in option.opts if name.startswith("--")]
            for flag in option.opts:
                if not flag.startswith("--") and flag.startswith("-") and long:
                    meanings.setdefault(flag, set()).add(long[0])
    counts = {"--repetitions", "--sets"}
    assert {flag: names for flag, names in meanings.items() if len(names) > 1} == {"-n": counts}
    assert meanings["-o"] == {"--output"}
    assert meanings["-i"] == {"--interval"}
    assert meanings["-D"] == {"--duration"}


def test_how_long_something_outside_is_watched_is_no_duration_of_a_probe() -> None:
    named = {path: {name for option in one.params for name in option.opts} for path, one in ALL.items()}
    assert [path for path, names in named.items() if {"--for", "--duration"} <= names] == []
    assert {path for path, names in named.items() if "--duration" in names} == {("run",), ("fleet", "run")}


def test_no_help_is_cut_or_wider_than_a_terminal(stealtime: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path in ((), ("sched",), ("protect",), *ALL):
        shown = stealtime(*path, "-h").out.splitlines()
        assert [line for line in shown if len(line) > 80] == [], path
        assert [line for line in shown if line.endswith("...") and "[" not in line] == [], path


@pytest.mark.parametrize("columns", [49, 40, 1])
def test_help_on_a_narrow_terminal_is_whole_and_no_wider(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    for path in ((), ("sched",), ("protect",), *ALL):
        monkeypatch.setenv("COLUMNS", "80")
        wide = stealtime(*path, "-h").out
        monkeypatch.setenv("COLUMNS", str(columns))
        narrow = stealtime(*path, "-h").out
        assert "".join(narrow.split()) == "".join(wide.split()), path
        # Names of options are never broken; the longest commands have 37 letters.
        text = [line for line in narrow.splitlines() if not line.startswith("  -")]
        assert [line for line in text if len(line) > max(columns, 40) and " " in line.strip()] == [], path


def test_lists_name_all_that_comes_with_stealtime(stealtime: Command) -> None:
    campaigns = json.loads(stealtime("run", "--list", "--json").out)["campaigns"]
    assert sorted(one["name"] for one in campaigns) == builtin_names()
    assert campaigns[0]["name"] == "quick"
    assert all(one["answers"].endswith(("?", ".")) and len(one["answers"]) < 120 for one in campaigns)
    for one in campaigns:
        campaign = find_campaign(one["name"])
        assert list(dict.fromkeys(cells.probe for cells in campaign.probes)) == one["probes"]
        assert one["has_short_form"] == (campaign.short is not None)
    published = json.loads(stealtime("compare", "--list", "--json").out)["published"]
    assert [one["name"] for one in published] == sorted([*published_names(), *statement_names()])
    assert "quick: tick, switch, wakeup" in stealtime("run", "--list").out


def test_help_loads_no_study() -> None:
    asked = (
        "import sys; from stealtime import cli; sys.argv = ['stealtime', 'run', '-h']\n"
        "try: cli.main()\n"
        "finally: print([name for name in sys.modules if name.endswith('.study')])"
    )
    ended = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("[]\n")
    assert "telephony2011" in ended.stdout


def test_what_computes_for_long_is_left_at_once() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begun, forever = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def compute() -> None:
        begun.set()
        signal.pthread_kill(main, signal.SIGINT)
        forever.wait()

    with pytest.raises(KeyboardInterrupt):
        interruptibly(compute, "computing")
    assert begun.is_set()
    assert not forever.is_set()
    forever.set()


def test_what_is_computed_comes_back_with_its_errors() -> None:
    assert interruptibly(lambda: 3, "computing") == 3
    with pytest.raises(ZeroDivisionError):
        interruptibly(lambda: 1 // 0, "computing")


class RaisesNothing:
    """Where Ctrl-C comes into a place that can raise nothing."""

    def __del__(self) -> None:
        raise KeyboardInterrupt


def test_an_interruption_is_not_lost_in_a_place_that_can_raise_nothing(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def listing(*_: object) -> list[Path]:
        RaisesNothing()
        time.sleep(10)
        return []

    monkeypatch.setattr("stealtime.store.run.runs_in", listing)
    begin = time.monotonic()
    ended = stealtime("ls")
    assert time.monotonic() - begin < 5
    assert (ended.code, ended.err) == (1, "error: interrupted\n")


@pytest.mark.parametrize("said", ["SchemaError: Error building a validator:\n  KeyboardInterrupt: ", "lost"])
def test_an_interruption_that_a_library_makes_an_error_of_is_no_internal_error(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    def listing(*_: object) -> list[Path]:
        if said == "lost":
            raise ValueError(said) from KeyboardInterrupt()
        raise ValueError(said)

    monkeypatch.setattr("stealtime.store.run.runs_in", listing)
    ended = stealtime("ls")
    assert (ended.code, ended.err) == (1, "error: interrupted\n")


INTERRUPTED_AT = """
import os, signal, sys
import stealtime.start

class Interrupts:
    def find_spec(self, name, *_):
        if name == wanted:
            os.killpg(0, signal.SIGINT)

wanted = sys.argv.pop(1)
sys.meta_path.insert(0, Interrupts())
stealtime.start.main()
"""


def test_whatever_command_is_interrupted_while_it_is_loaded_ends_silently_and_leaves_nothing(tmp_path: Path) -> None:
    # From somebody else the signal may come when all is loaded: a busy machine lets one of the two wait.
    moments = itertools.cycle(["stealtime.vocabulary.supported", "typer", "stealtime.cli.output"])
    environment = {**os.environ, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    for path in ALL:
        moment = next(moments)
        one = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED_AT, moment, *path, *("needed",) * 2],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
            start_new_session=True,
        )  # fmt: skip
        out, err = one.communicate(timeout=60)
        assert (one.returncode, out, err) == (-signal.SIGINT, b"", b""), (path, moment)
        with pytest.raises(ProcessLookupError):
            os.killpg(one.pid, 0)
    assert list(tmp_path.iterdir()) == []
