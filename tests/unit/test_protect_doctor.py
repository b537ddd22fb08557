"""`stealtime protect doctor`: what would be refused is told before the start, by the program that would start it."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import Command, make_command
from documents import hold_against_schema

from stealtime.protect.state import STATE_VARIABLE

VM = 'name = "db"\nkernel = "disk"\nmemory = "64MiB"\n{}\n[[disks]]\nname = "root"\npath = "root.raw"\n'


@pytest.fixture
def stealtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "p"))
    (tmp_path / "root.raw").write_bytes(bytes(4096))
    return make_command(monkeypatch, capsys)


def machine(folder: Path, more: str = "") -> str:
    path = folder / "db.toml"
    path.write_text(VM.format(more))
    return str(path)


def checks(done: Any) -> dict[str, tuple[str, str]]:
    document = json.loads(done.out)
    hold_against_schema(document, "protect-doctor")
    return {check["subject"]: (check["state"], check["text"]) for check in document["checks"]}


def test_a_machine_that_may_start_is_fine(stealtime: Command, tmp_path: Path) -> None:
    file = machine(tmp_path, 'mode = "off"')
    done = stealtime("protect", "doctor", file, "--host", "a", "--json")
    found = checks(done)
    assert done.code == 0, found
    assert {state for state, _ in found.values()} == {"fine"}
    assert set(found) == {"machine", "boot files", "accelerator", "member", "register", "disk root"}
    assert "root.raw (raw, 4096 bytes) can be read and written" in found["disk root"][1]
    shown = stealtime("protect", "doctor", file, "--host", "a").out
    assert "knows nothing of the machine" in shown
    assert {path.name for path in tmp_path.iterdir()} <= {"db.toml", "root.raw", "p"}


def test_each_thing_that_would_be_refused_is_told(stealtime: Command, tmp_path: Path) -> None:
    file = machine(
        tmp_path,
        f'standby_hosts = [{{name = "b", endpoint = "unix:{tmp_path}/nobody"}}]\n[network]\nbridge = "br-none"',
    )
    (tmp_path / "root.raw.term").write_text('{"term": null}')
    done = stealtime("protect", "doctor", file, "--host", "a", "--json")
    found = checks(done)
    assert done.code == 3
    refused = {subject: text for subject, (state, text) in found.items() if state == "refused"}
    assert set(refused) == {"bridge", "disk root", "standby host b"}
    assert "there is no bridge br-none" in refused["bridge"]
    assert "was being copied to this host" in refused["disk root"]
    assert f"b (unix:{tmp_path}/nobody) cannot be asked" in refused["standby host b"]


def test_a_machine_without_a_second_host_and_one_without_memory_are_told(stealtime: Command, tmp_path: Path) -> None:
    done = stealtime("protect", "doctor", machine(tmp_path), "--host", "a", "--json")
    assert checks(done)["standby hosts"][0] == "refused"
    huge = Path(machine(tmp_path))
    huge.write_text(huge.read_text().replace("64MiB", "1024GiB"))
    done = stealtime("protect", "doctor", str(huge), "--host", "a", "--json")
    assert (done.code, checks(done)["machine"][0]) == (3, "refused")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name one machine"),
        (("db.toml", "--from", "libvirt:x"), "name one machine"),
        (("--from", "teapot:x"), "'teapot:x' is no description of a machine"),
        (("--from", "qemu:"), "'qemu:' is no description of a machine"),
        (("--from", "qemu:/nosuch"), "/nosuch"),
        (("--from", "libvirt:/nosuch"), "/nosuch"),
    ],
)
def test_a_machine_that_is_not_named_is_asked_for(stealtime: Command, arguments: tuple[str, ...], told: str) -> None:
    done = stealtime("protect", "doctor", *arguments)
    assert done.code == 2
    assert told in done.err
