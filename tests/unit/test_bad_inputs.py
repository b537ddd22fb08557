"""What a user gets wrong: one sentence with the value, what to do, and exit code 2; nothing is an internal error."""

import io
from pathlib import Path

import pytest
from command import Command
from scripted_agent import ScriptedPlatform
from synthetic_run import SyntheticCell, write_synthetic_run

from stealtime.campaigns.file import builtin_names
from stealtime.campaigns.progress import PlainProgress, show_progress
from stealtime.cli.console import PlainConsole
from stealtime.report.claims.library import published_names

TICK = '[[probes]]\nprobe = "tick"\nduration = "5s"\n'
TASK = '[[tasks]]\nname = "a"\ncost = "1ms"\nperiod = "7ms"\n'
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
        (("watch", "--once", "--prometheus", "99999"), "has the port 99999, which is none from 1 to 65535", "9105"),
        (("watch", "--once", "--prometheus", "x"), "'x' is no address with a port", "9105"),
        (("blackout", ":99999"), "':99999' has the port '99999', which is none from 1 to 65535", "HOST:PORT"),
        (("blackout", ":7000"), "':7000' names no host", "HOST:PORT"),
        (("sched", "analyze", "{tasks}", "--supply", "5ms"), "--supply: '5ms' is a time alone", "5ms/PERIOD"),
        (("sched", "analyze", "{tasks}", "--supply", "300d/365d"), "longer than the analysis reckons with, 104", "6ms"),
        (("sched", "analyze", "{tasks}", "--least-budget", "365d"), "--least-budget: 8760h is longer than", None),
        (("sched", "analyze", "{tasks}", "--tick-period", "365d"), "--tick-period: 8760h is longer than", None),
        (("sched", "analyze", "{year}"), "line 4: period in [[tasks]] 1: 8760h is longer than the analysis", "schema"),
        (("sched", "analyze", "{ever}"), "is more than can be counted", "schema"),
        (("sched", "analyze", "nosuch.toml"), "the task file nosuch.toml does not exist", "name"),
        (("sched", "analyze", "{tasks}", "--overheads", "nosuch.csv"), "nosuch.csv does not exist", "name"),
        (("sched", "generate", "--law", "light-uniform", "-k", "1000000"), "are more than 10000", "fewer"),
        (("--install-completion", "foo"), "--install-completion takes no 'foo'", "in that shell"),
        (("compare", "last"), "compare needs a second run", "hyperv-stretch|hyperv2013|telephony2011"),
        ((*SHORT, "--junit", "{closed}/x.xml"), "may not be written", "another file"),
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
    texts = {"tasks": TASK, "year": TASK.replace("7ms", "365d"), "ever": TASK.replace("7ms", "99999999999999999999ns")}
    places = {"closed": str(closed)}
    for name, text in texts.items():
        places[name] = str(tmp_path / f"{name}.toml")
        Path(places[name]).write_text(text)
    ended = stealtime(*(argument.format(**places) for argument in arguments))
    assert ended.code == 2, ended.err
    assert told in ended.err
    assert hint is None or hint in ended.err.partition("hint: ")[2]


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
    cells = [SyntheticCell("native", "wakeup", {"interval_ns": 1_000_000}, 1_900.0, 4e5, 0.4, 2_000)]
    write_synthetic_run(tmp_path / "20261121T195500Z-only-3f2a", cells=cells)
    ended = stealtime("compare", "last", "only", "--out", str(tmp_path))
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
