"""What ``stealtime protect serve`` does: a host lends itself to a campaign on another machine while that is there.

One JSON object a line in, one a line out, as on a member's control socket. The other side names a prefix, and nothing
but machines whose names begin with it can be touched. They and the folder with their images go with the campaign: when
it ends, when its connection does, or, where this process was killed, when the next one begins.
"""

import json
import os
import re
import select
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import psutil

import stealtime
from stealtime.hosts.daemon import daemon_of
from stealtime.hosts.host import NotProtectedError
from stealtime.hosts.lending_terms import read_machine
from stealtime.hosts.lent_machines import FOLDER_PREFIX, clear, clear_left_over, is_of, lent_members, make_folder
from stealtime.hosts.members_here import MembersHere, cpu_times, processes_of
from stealtime.hosts.namespace_testbed import EMULATED_TIMING
from stealtime.lab.platforms import below
from stealtime.lab.platforms.qemu_program import qemu_version
from stealtime.protect.session import make_spec
from stealtime.protect.state import MemberFolder, State
from stealtime.protect.vm_file import VM_NAME
from stealtime.vocabulary.errors import StealtimeError

VERSION = 3
"""Of the commands and their answers."""
SILENT_FOR_S = 120.0
"""The other side says something more often than that, as long as it is there."""

_PREFIX = r"[a-z]{1,8}-[0-9a-f]{8}"
"""No person names machines so."""
_LAST_LINES = 25


class Lending:
    """This host, lent.

    Args:
        state: Where members live.

    Raises:
        StealtimeError: No daemon runs here that could be lent.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._host, self._told = daemon_of(state)
        self._here = MembersHere(state, self._told.name)
        clear_left_over(state, self._told.images)
        self._prefix: str | None = None
        self._folder: Path | None = None
        self._commands: Mapping[str, Callable[..., dict[str, Any]]] = {
            "hello": self._hello,
            "clock": lambda: {"monotonic_ns": time.monotonic_ns()},
            "lend": self._lend,
            "start": self._start,
            "status": self._status,
            "events": lambda vm, event: {"events": self._here.events(self._own(vm), event)},
            "epochs": lambda vm, from_ns: {"epochs": self._here.epochs(self._own(vm), from_ns)},
            "die": lambda vm, pid, kind: {"struck_ns": self._here.die(self._own(vm), pid, kind)},
            "kill": lambda vm: {"struck_ns": self._here.kill(self._own(vm))},
            "revive": self._revive,
            "cpu": self._cpu,
            "end": self._end,
            "words": self._words,
        }

    def answer(self, line: str) -> dict[str, Any]:
        """Carry out a command; what cannot be is an answer with ``error``, perhaps ``hint`` and ``not_protected``."""
        try:
            request = json.loads(line)
            number, command = request.pop("number"), self._commands[request.pop("command")]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return {"error": f"{line.strip()[:80]!r} is no question: {type(error).__name__}: {error}"}
        try:
            return {"number": number, **command(**request)}
        except (StealtimeError, OSError, psutil.Error) as error:
            said = {"error": str(error), "hint": error.hint if isinstance(error, StealtimeError) else None}
            return {"number": number, **said, "not_protected": isinstance(error, NotProtectedError)}

    def end(self) -> None:
        self._here.revive()
        if self._prefix is not None and self._folder is not None:
            clear(self._state, self._prefix, self._folder)

    def _hello(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "stealtime": stealtime.__version__,
            "host": self._told.name,
            "listen": self._told.listen,
            "images": [str(folder) for folder in self._told.images],
            "qemu": qemu_version(str(self._told.qemu)),
        }

    def _lend(self, prefix: str, folder: str) -> dict[str, Any]:
        path = Path(folder)
        if self._prefix is not None:
            raise StealtimeError(f"the host {self._told.name!r} was lent to this campaign already")
        if re.fullmatch(_PREFIX, prefix) is None:
            raise StealtimeError(f"names of machines of a campaign do not begin with {prefix!r}")
        if lent_members(self._state, prefix):
            raise StealtimeError(f"there are machines of another campaign whose names begin with {prefix!r}")
        if path.parent not in self._told.images or path.name != f"{FOLDER_PREFIX}{prefix}":
            raise StealtimeError(
                f"machines of the host {self._told.name!r} may not boot from {path.parent}",
                hint="add it to `images` in host.toml, and start the daemon anew",
            )
        try:
            make_folder(path)
        except OSError as error:
            raise StealtimeError(
                f"the host {self._told.name!r} cannot keep images in {path.parent}: {error.strerror}",
                hint="make it a folder that its user can write, or name another one under `images` in host.toml",
            ) from error
        self._prefix, self._folder = prefix, path
        return {}

    def _start(self, machine: dict[str, Any]) -> dict[str, Any]:
        vm = read_machine(machine, self._told, EMULATED_TIMING if below.is_emulated() else {})
        self._own(vm.name)
        spec = make_spec(vm, self._state, self._told.name)
        # The register, QEMU and its user are the host's own.
        told = {"register_": self._told.register_, "qemu": self._told.qemu, "qemu_user": self._told.qemu_user}
        with self._state.starting():
            self._here.start_member(vm.name, spec.model_copy(update=told))
        return {}

    def _status(self, vm: str) -> dict[str, Any]:
        seen = self._here.look(self._own(vm))
        if seen.member is not None:
            return {"member": seen.member.model_dump(mode="json", by_alias=True)}
        ended = seen.ended
        return {"member": None} | ({} if ended is None else {"ended": ended.message, "hint": ended.hint})

    def _revive(self) -> dict[str, Any]:
        self._here.revive()
        return {}

    def _cpu(self) -> dict[str, Any]:
        times = cpu_times(processes_of(self._host, self._members()))
        return {"server_ns": times.server_ns, "host_ns": times.host_ns, "standby_ns": times.standby_ns}

    def _end(self, vm: str) -> dict[str, Any]:
        self._here.end(self._own(vm))
        return {}

    def _words(self) -> dict[str, Any]:
        logs = [log for folder in self._members() for log in (folder.path / "console.log", folder.log)]
        said = [f"--- {self._told.name}: {log}\n{_end_of(log)}" for log in logs]
        if self._prefix is not None:
            # The daemon's log has the words of all machines that were received here.
            said.append(f"--- {self._told.name}: {self._host.log}\n{_end_of(self._host.log, f'{self._prefix}-')}")
        return {"words": "\n".join(said)}

    def _own(self, vm: str) -> str:
        if self._prefix is None or not is_of(vm, self._prefix) or re.fullmatch(VM_NAME, vm) is None:
            raise StealtimeError(f"the machine {vm!r} was not lent to this campaign")
        return vm

    def _members(self) -> list[MemberFolder]:
        return [] if self._prefix is None else lent_members(self._state, self._prefix)


def _end_of(log: Path, about: str = "") -> str:
    """Give the last lines of a log, of those that hold a word."""
    try:
        lines = log.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join([line for line in lines if about in line][-_LAST_LINES:])


def serve(state: State, requests: int, answers: IO[str]) -> None:
    """Lend this host until the other side closes its end, or says nothing for two minutes: then it is gone.

    Args:
        state: Where members live.
        requests: The descriptor that commands come from, a line each.
        answers: Where each is answered.

    Raises:
        StealtimeError: This host cannot be lent.
    """
    lending = Lending(state)
    try:
        for line in _lines(requests):
            answers.write(f"{json.dumps(lending.answer(line))}\n")
            answers.flush()
    except BrokenPipeError:
        pass  # nobody listens any more
    finally:
        lending.end()


def _lines(descriptor: int) -> Iterator[str]:
    held = b""
    while select.select([descriptor], [], [], SILENT_FOR_S)[0] and (got := os.read(descriptor, 1 << 16)):
        *lines, held = (held + got).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines)
