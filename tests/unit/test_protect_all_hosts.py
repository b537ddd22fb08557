"""One table of many hosts: which are asked, and what of their answers is told. Each host is a shell of this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from stealtime.lab.platforms.failure import MachineError
from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.protect.all_hosts import AskedHost, ask_all, read_hosts
from stealtime.protect.showing import remarks_on_hosts
from stealtime.protect.status import MemberStatus, StatusDocument, UnheardHost
from stealtime.vocabulary.errors import ExitCode, UsageError

ACTIVE = MemberStatus(vm="phone", host="a", role="active", protected=True)
STANDBY = MemberStatus(vm="phone", host="b", role="standby", protected=False)


@dataclass(frozen=True)
class Done:
    """What a command over ssh came to."""

    exit_status: int | None
    stdout: bytes
    stderr: bytes


class Shell:
    """A connection that runs its commands here."""

    async def run(self, command: str) -> Done:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_shell(command, stdout=pipe, stderr=pipe)
        stdout, stderr = await child.communicate()
        return Done(child.returncode, stdout, stderr)


@pytest.fixture(autouse=True)
def hosts_are_here(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connect(self: SshPlatform) -> AsyncIterator[Shell]:
        if self.host == "dead":
            raise MachineError("dead cannot be reached over ssh: No route to host", hint="look whether it is there")
        yield Shell()

    monkeypatch.setattr(SshPlatform, "connect", connect)


def host(folder: Path, name: str, script: str) -> AskedHost:
    program = folder / f"stealtime of {name}"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return AskedHost(SshPlatform.parse(f"ssh:{name}"), str(program))


def saying(folder: Path, name: str, *members: MemberStatus) -> AskedHost:
    document = StatusDocument(members=members)
    (folder / name).write_text(document.model_dump_json(by_alias=True))
    asked = '[ "$*" = "protect status --json" ] || exit 2'
    return host(folder, name, f'{asked}; cat "{folder / name}"; exit {int(document.exit_code())}')


def test_a_file_names_a_host_a_line(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("# ours\nroot@10.0.0.1:2222\n\nb /opt/stealtime/bin/stealtime  # the old one\n")
    first, second = read_hosts(file)
    assert (first.platform.host, first.platform.user, first.platform.port) == ("10.0.0.1", "root", 2222)
    assert (first.program, second.program) == ("stealtime", "/opt/stealtime/bin/stealtime")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no host"),
        ("a\nb c d\n", "line 2: 'b c d' is more than a host and a program"),
        ("a:x\n", "line 1: "),
    ],
)
def test_what_is_wrong_with_a_file_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_hosts(file)
    assert message in caught.value.message
    with pytest.raises(UsageError, match="cannot be read"):
        read_hosts(tmp_path / "missing")


def test_a_machine_is_protected_by_the_word_of_whichever_host_has_it(tmp_path: Path) -> None:
    document = ask_all([saying(tmp_path, "b", STANDBY), saying(tmp_path, "a", ACTIVE), saying(tmp_path, "c")])
    assert [(member.vm, member.host) for member in document.members] == [("phone", "b"), ("phone", "a")]
    assert document.exit_code() == ExitCode.FINE
    assert remarks_on_hosts(document) == []


def test_a_host_that_cannot_be_asked_hides_no_other(tmp_path: Path) -> None:
    without = host(tmp_path, "bare", "echo 'no such command' >&2; exit 2")
    odd = host(tmp_path, "odd", "echo nonsense")
    dead = AskedHost(SshPlatform.parse("ssh:dead"))
    document = ask_all([dead, without, odd, saying(tmp_path, "a", ACTIVE)])
    assert [member.host for member in document.members] == ["a"]
    reasons = {one.host: one.reason for one in document.unheard}
    assert reasons["dead"] == "dead cannot be reached over ssh: No route to host"
    assert "bare does not say how its machines stand: no such command" in reasons["bare"]
    assert "odd does not say how its machines stand" in reasons["odd"]
    assert document.exit_code() == ExitCode.FAILED
    assert any("(hint: look whether it is there)" in line for line in remarks_on_hosts(document))


def test_what_is_not_protected_comes_before_what_is_not_known() -> None:
    unheard = UnheardHost(host="b", reason="b gave no answer")
    alone = ACTIVE.model_copy(update={"role": "solo", "protected": False})
    assert StatusDocument(members=(alone,), unheard=(unheard,)).exit_code() == ExitCode.THRESHOLD


def test_a_machine_that_runs_twice_is_an_alarm() -> None:
    twice = StatusDocument(members=(ACTIVE, ACTIVE.model_copy(update={"host": "b", "role": "solo"}), STANDBY))
    assert twice.exit_code() == ExitCode.NOT_JUDGED
    assert remarks_on_hosts(twice) == ["alarm: phone runs on a and on b"]
