"""What a user types and what comes back: text, documents, errors and exit codes."""

import json
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import scripted_agent
from command import Command
from documents import hold_against_schema
from scripted_agent import ScriptedPlatform
from test_runner import only

from stealtime import cli
from stealtime.lab.host import LocalHost, read_host_facts
from stealtime.lab.platforms import registry
from stealtime.store.run import Run
from stealtime.vocabulary.readings import Value

SHORT = ("run", "quick", "-D", "1ms", "--repetitions", "1")


def the_run(tmp_path: Path) -> Path:
    return sorted((tmp_path / "data" / "stealtime" / "runs").iterdir())[0]


def test_a_run_ends_with_its_table_and_its_report(stealtime: Command, tmp_path: Path) -> None:
    affinity = os.sched_getaffinity(0)
    ended = stealtime(*SHORT)
    assert ended.code == 0, ended.err
    assert os.sched_getaffinity(0) == affinity, "the statistics may use every CPU again"
    assert "One in a thousand" in ended.out
    assert str(the_run(tmp_path) / "report.html") in ended.out
    assert (the_run(tmp_path) / "report.html").stat().st_size > 100_000
    assert "skipping qemu-x: no such program" in ended.err
    manifest = json.loads((the_run(tmp_path) / "manifest.json").read_text())
    assert manifest["command_line"][:3] == ["stealtime", "run", "quick"]
    measured_cpu = manifest["hosts"]["local"]["measured_cpu"]["value"]
    others = sorted(os.sched_getaffinity(0) - {measured_cpu}) or [measured_cpu]
    assert {tuple(thread["cpus"]) for thread in manifest["host_threads"]} == {tuple(others)}


def test_the_document_of_show_is_the_only_thing_on_stdout_and_valid(stealtime: Command) -> None:
    measured = stealtime(*SHORT, "--json")
    shown = stealtime("show", "last", "--json")
    assert json.loads(measured.out) == json.loads(shown.out)
    document = json.loads(shown.out)
    hold_against_schema(document, "show")
    assert {cell["platform"] for cell in document["cells"]} == {"native", "uml"}
    assert document["cells"][0]["stats"]["max_ns"] == 2.5e9


@pytest.mark.parametrize("command", [("show", "last"), ("ls",), ("run", "--dry-run")])
def test_every_document_has_a_schema_version(stealtime: Command, command: tuple[str, ...]) -> None:
    stealtime(*SHORT)
    document: dict[str, Any] = json.loads(stealtime(*command, "--json").out)
    assert document["schema_version"] == (3 if command[0] == "show" else 1)


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("run", "-P", "uml2"), "there is no platform 'uml2'", "uml"),
        (("run", "-a", "4711"), "CPU 4711", "grants the CPUs"),
        (("run", "-a", "x"), "'x' is not a CPU list", "grants the CPUs"),
        (("run", "quik"), "there is no campaign 'quik'", "'quick'"),
        (("run", "-D", "5"), "--duration: '5' has no unit", None),
        (("run", "-t", "2,x"), "--threads: '2,x'", None),
        (("run", "-p", "100"), "priority cannot be 100", None),
        (("run", "--max-overhead", "x"), "--max-overhead: 'x'", None),
        (("run", "--resume", "last"), "there is no run 'last'", "stealtime run"),
        (("show", "nothing"), "there is no run 'nothing'", "stealtime run"),
        (("run", "--nothing"), "no such option: --nothing", "stealtime run -h"),
        (("nothing",), "no such command 'nothing'", "stealtime -h"),
    ],
)
def test_bad_usage_is_one_sentence_with_the_value_and_a_hint(
    stealtime: Command, arguments: tuple[str, ...], error: str, hint: str | None
) -> None:
    ended = stealtime(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    first, *others = ended.err.strip().splitlines()
    assert first.startswith("error: ")
    assert error in first
    assert hint is None or hint in others[0]
    assert "Traceback" not in ended.err


def test_a_campaign_with_a_wrong_key_is_named_with_its_line(stealtime: Command, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\nrepetition = 3\n[[probes]]\nprobe = "tick"\nduration = "1ms"\n')
    ended = stealtime("run", str(path))
    assert ended.code == 2
    assert f"error: {path}, line 2: unknown key 'repetition'" in ended.err
    assert "hint: did you mean 'repetitions'?" in ended.err


def test_a_failed_cell_is_told_and_the_exit_code_is_4(stealtime: Command, platforms: list[ScriptedPlatform]) -> None:
    platforms[1].behaviour = only(10, "refuse")
    ended = stealtime(*SHORT)
    assert ended.code == 4
    assert "9 is no priority here" in ended.err
    assert "| last words" in ended.err
    assert "1 cells failed: uml.alone.switch-10.r1" in ended.err
    assert stealtime("show", "last").code == 4


def test_an_invalid_cell_says_why_in_the_table(stealtime: Command, platforms: list[ScriptedPlatform]) -> None:
    platforms[1].behaviour = only(10, "invalid")
    ended = stealtime(*SHORT)
    assert ended.code == 4
    assert "the clock ran 900 ppm fast [uml switch 10]" in ended.out


def test_a_platform_that_was_asked_for_and_cannot_be_used_ends_with_4(stealtime: Command) -> None:
    ended = stealtime(*SHORT, "-P", "native,qemu-x")
    assert ended.code == 4
    assert "qemu-x was asked for and cannot be used: no such program" in ended.err


def test_a_run_without_any_platform_fails(stealtime: Command) -> None:
    ended = stealtime(*SHORT, "-P", "qemu-x")
    assert ended.code == 1
    assert "no platform can be used (qemu-x: no such program)" in ended.err


def test_an_overhead_over_the_threshold_ends_with_3(stealtime: Command) -> None:
    assert stealtime(*SHORT, "--max-overhead", "3s").code == 0
    ended = stealtime(*SHORT, "--max-overhead", "2s")
    assert ended.code == 3
    assert "over --max-overhead" in ended.err


def test_a_resumed_run_measures_only_what_failed(stealtime: Command, platforms: list[ScriptedPlatform]) -> None:
    platforms[1].behaviour = only(10, "refuse")
    stealtime(*SHORT)
    platforms[1].behaviour = only(0, "measure")
    dry = stealtime("run", "--resume", "last", "--dry-run", "--json")
    assert [cell["id"] for cell in json.loads(dry.out)["cells"]] == ["uml.alone.switch-10.r1"]
    assert stealtime("run", "--resume", "last", "--repetitions", "2").code == 2
    assert stealtime("run", "--resume", "last").code == 0
    ended = stealtime("run", "--resume", "last")
    assert ended.code == 2
    assert "nothing left to measure" in ended.err


@pytest.mark.parametrize(
    ("where", "what", "value"),
    [
        ((), "stealtime_version", "0.0.1"),
        ((), "git_describe", {"value": "deadbee"}),
        ((), "agent_sha256", {"value": "c0ffee"}),
        (("hosts", "local"), "qemu_version", {"value": "QEMU emulator version 6.0.0"}),
        (("hosts", "local"), "sched_rt_period_us", {"value": 123_456}),
    ],
)
def test_a_run_is_not_resumed_by_what_did_not_begin_it(
    where: tuple[str, ...],
    what: str,
    value: Any,
    stealtime: Command,
    platforms: list[ScriptedPlatform],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Value(value="1")
    # Neither a work tree nor QEMU need be where the tests run.
    monkeypatch.setattr("stealtime.campaigns.provenance.read_git_describe", lambda: there)
    facts = cache(read_host_facts)
    monkeypatch.setattr(LocalHost, "read_facts", lambda _, cpu: facts(cpu) | {"qemu_version": there})
    platforms[1].behaviour = only(10, "refuse")
    stealtime(*SHORT)
    path = the_run(tmp_path) / "manifest.json"
    manifest = json.loads(path.read_text())
    begun = manifest["provenance"][0]
    for key in where:
        begun = begun[key]
    begun[what] = value
    path.write_text(json.dumps(manifest))
    for dry in ((), ("--dry-run",)):
        ended = stealtime("run", "--resume", "last", *dry)
        assert ended.code == 2
        assert "was measured with " in ended.err
        assert repr(value["value"] if isinstance(value, dict) else value) in ended.err
        assert "hint: begin a new run" in ended.err
    assert json.loads(path.read_text()) == manifest, "a refused resumption leaves the run as it is"


def test_each_resumption_is_noted(stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path) -> None:
    platforms[1].behaviour = only(10, "refuse")
    stealtime(*SHORT)
    platforms[1].behaviour = only(0, "measure")
    assert stealtime("run", "--resume", "last").code == 0
    begun, resumed = Run.open(the_run(tmp_path)).manifest.provenance
    assert begun.command_line == ["stealtime", *SHORT]
    assert resumed.command_line == ["stealtime", "run", "--resume", "last"]
    assert begun.at < resumed.at
    assert isinstance(begun.agent_sha256, Value)
    assert begun.agent_sha256 == resumed.agent_sha256


def test_a_run_is_not_resumed_on_another_machine(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    platforms[1].behaviour = only(10, "refuse")
    stealtime(*SHORT)
    platforms[1].behaviour = only(0, "measure")
    run = the_run(tmp_path)
    for path in run.glob("cells/uml.*/trial.json"):
        trial = json.loads(path.read_text())
        if trial["machine"] is not None:
            trial["machine"]["boot"]["facts"] = {"kernel_image": "elsewhere", "kernel_sha256": "c0ffee"}
            path.write_text(json.dumps(trial))
    assert stealtime("run", "--resume", "last", "--dry-run").code == 0
    platforms[1].facts = {"kernel_image": "here", "kernel_sha256": "decaf"}
    ended = stealtime("run", "--resume", "last")
    assert ended.code == 2
    assert "was measured on uml with kernel_sha256 'c0ffee', and now it boots with 'decaf'" in ended.err
    assert len(Run.open(run).manifest.provenance) == 1, "it measured nothing"
    assert [trial.record.trial_id for trial in Run.open(run).trials if trial.record.state == "failed"] == [
        "uml.alone.switch-10.r1"
    ]
    platforms[1].facts = {"kernel_image": "here", "kernel_sha256": "c0ffee"}
    assert stealtime("run", "--resume", "last").code == 0


def test_a_parquet_file_cut_short_is_told_without_a_traceback(stealtime: Command, tmp_path: Path) -> None:
    stealtime(*SHORT)
    path = the_run(tmp_path) / "cells" / "uml.alone.tick-68us.r1" / "samples.parquet"
    path.write_bytes(path.read_bytes()[:100])
    for command in (("show",), ("export", "last", "--csv", str(tmp_path / "csv"))):
        ended = stealtime(*command)
        assert ended.code == 1
        assert f"error: {path} is damaged: it is truncated at 100 bytes" in ended.err
        assert "hint: " in ended.err
    listed = stealtime("ls")
    assert "damaged" in listed.out


def test_export_writes_every_sample_of_every_cell(stealtime: Command, tmp_path: Path) -> None:
    stealtime(*SHORT)
    ended = stealtime("export", "last", "--csv", str(tmp_path / "csv"))
    assert ended.code == 0, ended.err
    files = sorted(path.name for path in (tmp_path / "csv").iterdir())
    assert len(files) == 12 + 1
    assert len((tmp_path / "csv" / "native.alone.switch-2.r1.csv").read_text().splitlines()) == 1001
    summary = (tmp_path / "csv" / "summary.csv").read_text().splitlines()
    assert len(summary) == 13
    assert "max_overhead_ns" in summary[0]


def test_two_runs_of_the_same_figures_show_no_difference(
    stealtime: Command, platforms: list[ScriptedPlatform], tmp_path: Path
) -> None:
    enough = (*SHORT, "-P", "native", "--repetitions", "5")
    stealtime(*enough)
    first = the_run(tmp_path).name
    platforms[0].behaviour = only(10, "invalid")
    stealtime(*enough)
    (second,) = {path.name for path in the_run(tmp_path).parent.iterdir()} - {first}
    ended = stealtime("compare", first, second)
    assert "no difference shown" in ended.out
    assert "the runs have 5 and 0 valid repetitions" in " ".join(ended.out.split())
    assert ended.code == 4, "one cell was not judged"
    document = json.loads(stealtime("compare", first, second, "--json").out)
    assert (document["schema_version"], document["a"], document["b"]) == (2, first, second)


def test_a_later_run_measures_with_the_loop_of_an_earlier_one(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tick = (*SHORT, "-P", "native", "--probe", "tick")

    def measured_with(*options: str) -> list[int]:
        before = set(the_run(tmp_path).parent.iterdir()) if (tmp_path / "data").exists() else set()
        ended = stealtime(*tick, *options)
        assert ended.code == 0, ended.err
        (folder,) = set(the_run(tmp_path).parent.iterdir()) - before
        requests = [json.loads(path.read_text())["outcome"]["request"] for path in folder.glob("cells/*/trial.json")]
        return [request["probe"]["iterations"] for request in requests]

    (first,) = measured_with()
    # Runs of one second have no order by name.
    first_run = the_run(tmp_path).name
    monkeypatch.setattr(scripted_agent, "ITERATIONS_A_US", 1020)
    assert measured_with() == [first], "a calibration that finds two percent more is of the same machine"
    monkeypatch.setattr(scripted_agent, "ITERATIONS_A_US", 2000)
    assert measured_with() == [2 * first]
    assert measured_with("--loop-of", first_run) == [first]
    refused = stealtime(*tick, "--loop-of", first_run, "--loop", "10us")
    assert (refused.code, "no loop of 10us" in refused.err) == (2, True)


def test_a_fault_of_our_own_is_one_sentence_unless_debug_is_on(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall(*_: object) -> None:
        raise ZeroDivisionError("by our own fault")

    monkeypatch.setattr(registry, "all_platforms", fall)
    ended = stealtime("run", "--dry-run")
    assert ended.code == 1
    assert ended.err.startswith("error: internal error in stealtime: ZeroDivisionError: by our own fault\nhint: ")
    monkeypatch.setattr(sys, "argv", ["stealtime", "run", "--dry-run", "--debug"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_version_and_help_are_data(stealtime: Command) -> None:
    assert stealtime("--version").out.startswith("stealtime 0.")
    for flag in ("-h", "--help"):
        assert "export" in stealtime(flag).out
        assert "--max-overhead" in stealtime("run", flag).out


def test_a_scenario_that_was_named_and_cannot_be_had_is_told_by_the_exit_code(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHost, "cpus", tuple(sorted(os.sched_getaffinity(0)))[:1])
    named = stealtime(*SHORT, "--scenario", "alone,two-to-all-memory")
    assert named.code == 4, named.err
    assert "skipping the scenario two-to-all-memory: two-to-all-memory needs 3 CPUs, here is 1" in named.err
    assert "the scenario two-to-all-memory was asked for and is not possible here" in named.err
    shown = json.loads(stealtime("show", "last", "--json").out)
    assert "needs 3 CPUs" in shown["skipped"]["two-to-all-memory"]
    alone = stealtime("run", "quick", "--dry-run", "--scenario", "two-to-all-memory")
    assert alone.code == 1
    assert "no scenario of quick is possible here" in alone.err


def test_a_dry_run_of_the_paper_says_who_runs_where_and_how_long_it_takes(stealtime: Command) -> None:
    planned = stealtime("run", "hyperv2013", "--dry-run", "-P", "native", "--scenario", "contention-memory")
    assert planned.code == 0
    assert "50,000,000 samples of a 68 us loop" in planned.out
    assert "1 machine, memory-load" in planned.out
    assert "at most 50 % of a CPU" in planned.out
    assert "up to 15 min 00 s a cell; --short takes seconds" in planned.out
    short = json.loads(
        stealtime("run", "hyperv2013", "--short", "--dry-run", "--json", "-P", "native", "--scenario", "one-to-one").out
    )
    assert [cell["traced"] for cell in short["cells"]] == [False, True, True, False, False, True]
    assert short["estimate"]["total_s"] < 60


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("stealtime schem", "schema"),
        ("stealtime run qu", "quick"),
        ("stealtime run --probe wak", "wakeup"),
        ("stealtime run --scenario one-to-o", "one-to-one"),
        ("stealtime run -P em", "emulated"),
        ("stealtime show la", "last"),
        ("stealtime compare last --published hyperv2", "hyperv2013"),
    ],
)
def test_a_shell_is_offered_commands_and_names(
    stealtime: Command, monkeypatch: pytest.MonkeyPatch, words: str, offered: str
) -> None:
    monkeypatch.setenv("_STEALTIME_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert stealtime().out.split() == [offered]
