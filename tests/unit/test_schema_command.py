"""``stealtime schema``: what it prints is what the files' readers take, and what commands print."""

import json
import os
import tomllib
from functools import cache
from importlib import resources
from typing import Any

import jsonschema
import pytest
from command import Command, make_command
from schema_shape import GOLDEN
from test_protect_page import HOSTS, MACHINES

from stealtime.campaigns.file import builtin_names
from stealtime.campaigns.registry import studies
from stealtime.capacity.rules import builtin_text
from stealtime.report.acceptance.library import bar_names
from stealtime.schedulability.generation import Recipe, generate
from stealtime.schedulability.task_file import write_task_file
from stealtime.schemas import DOCUMENTS, INPUT_FILES


@pytest.fixture
def stealtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return make_command(monkeypatch, capsys)


def schema(stealtime: Command, name: str) -> dict[str, Any]:
    ended = stealtime("schema", name)
    assert ended.code == 0, ended.err
    return checked(ended.out)


@cache
def checked(text: str) -> dict[str, Any]:
    """Take a schema apart; to check one takes longer than all else here."""
    document: dict[str, Any] = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(document)
    return document


def builtin(name: str) -> str:
    files = (study.campaigns / f"{name}.toml" for study in studies())
    return next(file for file in files if file.is_file()).read_text("utf-8")


def builtin_bars(name: str) -> str:
    return (resources.files("stealtime.report.acceptance") / "bars" / f"{name}.toml").read_text("utf-8")


FILES = [
    *(("campaign", builtin(name)) for name in builtin_names()),
    *(("vm", text) for text in MACHINES),
    *(("host", text) for text in HOSTS),
    ("rules", builtin_text()),
    *(("bars", builtin_bars(name)) for name in bar_names()),
    ("tasks", write_task_file(generate(Recipe(law="light-uniform", per_cpu=3, seed=1)))),
    ("overheads", 'event_latency = "100us"\ntick_period = "4ms"\n'),
    (
        "tasks",
        '[[tasks]]\nname = "a"\ncost = "2ms"\nperiod = "9ms"\nresources = { bus = "1ms" }\n'
        '[[chains]]\nname = "c"\ntasks = ["a"]\n',
    ),
    ("tasks", '[[tasks]]\nname = "a"\ncost = "2ms"\nperiod = "9ms"\nreservation = "3ms/9ms"\n'),
    ("windows", 'major_frame = "9ms"\n[[windows]]\noffset = "0ms"\nduration = "2ms"\n'),
]


@pytest.mark.parametrize(("name", "text"), FILES)
def test_every_file_that_we_show_is_valid(stealtime: Command, name: str, text: str) -> None:
    jsonschema.Draft202012Validator(schema(stealtime, name)).validate(tomllib.loads(text))


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        ("campaign", {"repetition": 2}, "'repetition' was unexpected"),
        ("campaign", {"cell_timeout": 60}, "60 is not of type 'string'"),
        ("campaign", {"cell_timeout": "60"}, "'60' does not match"),
        ("vm", {"memory": "128 megabytes"}, "'128 megabytes' does not match"),
        ("vm", {"mode": "remus"}, "'remus' is not one of"),
        ("host", {"listens": "unix:/x"}, "'listens' was unexpected"),
        ("rules", {"minimum_samples": 4}, "4 is less than the minimum of 5"),
        ("bars", {"bars": [{"quantity": "interruption", "at_most": "20us"}]}, "'watched' is a required property"),
        ("tasks", {"tasks": []}, "should be non-empty"),
        ("tasks", {"tasks": [{"name": "a", "cost": 1, "period": "1ms"}]}, "1 is not of type 'string'"),
        ("overheads", {"ticks": "1us"}, "'ticks' was unexpected"),
    ],
)
def test_what_the_reader_refuses_is_not_valid(
    stealtime: Command, name: str, change: dict[str, object], complaint: str
) -> None:
    text = next(text for kind, text in FILES if kind == name)
    with pytest.raises(jsonschema.ValidationError, match=complaint):
        jsonschema.Draft202012Validator(schema(stealtime, name)).validate(tomllib.loads(text) | change)


@pytest.mark.parametrize("name", INPUT_FILES)
def test_every_key_says_what_it_means_and_defaults_read_as_in_a_file(stealtime: Command, name: str) -> None:
    document = schema(stealtime, name)
    for table in (document, *document.get("$defs", {}).values()):
        for key, value in table.get("properties", {}).items():
            assert value.get("description"), f"{table['title']}: {key}"
            if "default" in value:
                inner = {**value, "$defs": document.get("$defs", {})}
                # Checked as a whole above: once more for each key took 14 s.
                jsonschema.Draft202012Validator(inner).validate(value["default"])


def test_no_schema_holds_null_which_toml_cannot_say(stealtime: Command) -> None:
    for name in INPUT_FILES:
        assert "null" not in json.dumps(schema(stealtime, name))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_change_of_what_commands_print_is_seen(stealtime: Command, name: str) -> None:
    stored = GOLDEN / "schemas" / f"{name}.schema.json"
    if "UPDATE_GOLDEN" in os.environ:
        stored.write_text(stealtime("schema", name).out)
    assert schema(stealtime, name) == json.loads(stored.read_text()), "run again with UPDATE_GOLDEN=1 if that is meant"


def test_another_name_is_refused_with_those_there_are(stealtime: Command) -> None:
    ended = stealtime("schema", "vmm")
    assert ended.code == 2
    assert ended.err.startswith("error: invalid value for 'FILE': 'vmm' is not one of 'campaign', 'vm', 'host'")
