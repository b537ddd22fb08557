"""The members on all hosts of an operator, asked over his own ssh.

What runs there is ``stealtime protect status --json``: nothing listens for it, and nothing is changed by it.
"""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import asyncssh
from pydantic import ValidationError

from stealtime.lab.platforms.ssh import SshPlatform
from stealtime.lab.platforms.ssh_shell import MarkedShell
from stealtime.protect.status import StatusDocument, UnheardHost
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

_AT_ONCE = 16
"""Connections: each takes a key exchange here, and a hundred at once would be slower for all."""
ANSWERS_WITHIN_S = 20.0
_TELLS = (ExitCode.FINE, ExitCode.THRESHOLD, ExitCode.NOT_JUDGED)
"""How ``status`` ends when it has told how the machines stand."""
_SHOWN_LETTERS = 200


@dataclass(frozen=True)
class AskedHost:
    """A host, and the program there."""

    platform: SshPlatform
    program: str = "stealtime"


def read_hosts(path: Path) -> list[AskedHost]:
    """Read which hosts there are: a line each, ``[user@]host[:port]`` and, if it is elsewhere, the program there.

    Raises:
        UsageError: The file cannot be read, a line is of another form, or there is none.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise UsageError(f"{path} cannot be read: {why}", hint="a text file with a host a line") from None
    hosts = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 2:
            raise UsageError(
                f"{path}, line {number}: {line.strip()!r} is more than a host and a program",
                hint="[user@]host[:port], then, if it is not on the PATH there, the path of stealtime",
            )
        try:
            platform = SshPlatform.parse(f"ssh:{words[0]}")
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error.message}", hint="[user@]host[:port]") from None
        hosts.append(AskedHost(platform, *words[1:]))
    if not hosts:
        raise UsageError(f"{path} names no host", hint="[user@]host[:port], a line each")
    return hosts


def ask_all(hosts: Sequence[AskedHost]) -> StatusDocument:
    """Ask all hosts how their machines stand; one that cannot be asked is named in the document, with the reason."""
    return asyncio.run(_ask_all(hosts))


async def _ask_all(hosts: Sequence[AskedHost]) -> StatusDocument:
    places = asyncio.Semaphore(_AT_ONCE)

    async def asked(host: AskedHost) -> StatusDocument:
        async with places:
            try:
                return await _ask(host)
            except StealtimeError as error:
                unheard = UnheardHost(host=host.platform.host, reason=error.message, hint=error.hint)
                return StatusDocument(members=(), unheard=(unheard,))

    answers = await asyncio.gather(*map(asked, hosts))
    return StatusDocument(
        members=tuple(member for answer in answers for member in answer.members),
        unheard=tuple(host for answer in answers for host in answer.unheard),
    )


async def _ask(host: AskedHost) -> StatusDocument:
    name, shell = host.platform.host, MarkedShell()
    async with host.platform.connect() as connection:
        try:
            async with asyncio.timeout(ANSWERS_WITHIN_S):
                done = await connection.run(shell.command(f"{shlex.quote(host.program)} protect status --json"))
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise StealtimeError(
                f"{name} gave no answer: {error or 'not in time'}", hint="is it overloaded?"
            ) from error
    output = shell.output(_text(done.stdout))
    if output is not None and done.exit_status in _TELLS:
        try:
            return StatusDocument.model_validate_json(output)
        except ValidationError:
            pass
    said = _text(done.stderr).strip()[-_SHOWN_LETTERS:] or f"exit status {done.exit_status}"
    raise StealtimeError(
        f"{host.program} on {name} does not say how its machines stand: {said}",
        hint="install stealtime there, or write its path behind the host",
    )


def _text(said: bytes | str | None) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said or ""
