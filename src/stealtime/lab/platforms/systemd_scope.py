"""A delegated systemd scope, which lasts as long as one of our processes lives in it.

Where systemd is the first process, the tree is its own: a controller that is enabled at its root, or a group that is
made there, is what its next reload may undo, and what its rule of a single writer forbids
(systemd.io/CGROUP_DELEGATION). So each machine with a share gets a scope with ``Delegate=yes``, and the groups are made
below it. A scope goes when its last process ends, with all groups in it: the anchor, which ends when its standard input
does, also after ``kill -9``.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from stealtime.lab.platforms.failure import CpuGroupError
from stealtime.lab.platforms.process import RUN_MARK, run_mark
from stealtime.lab.platforms.shown_ids import shown_process

logger = logging.getLogger(__name__)

_BOOTED = Path("/run/systemd/system")
"""There if and only if systemd is the first process (``sd_booted(3)``)."""

_PREFIX, _SUFFIX = "stealtime-", ".scope"
_ANCHOR = "anchor"
"""The group of the process that keeps the scope: one that hands controllers down may hold none itself."""

_START_PATIENCE_S = 30.0
"""systemd answers within ms; it may be busy booting."""
_END_PATIENCE_S = 5.0
_PAUSE_S = 0.02


def is_first_process(booted: Path = _BOOTED) -> bool:
    """Tell whether the tree of control groups is systemd's."""
    return booted.is_dir()


def scope_name(mark: str, name: str) -> str:
    return f"{_PREFIX}{mark}-{name}{_SUFFIX}"


def mark_in(unit: str) -> str | None:
    """Give the mark of the control plane that a unit's name holds; None if it is not one of ours."""
    if not (unit.startswith(_PREFIX) and unit.endswith(_SUFFIX)):
        return None
    return unit.removeprefix(_PREFIX).removesuffix(_SUFFIX).partition("-")[0]


def scope_command(unit: str, weight: int | None) -> list[str]:
    """Give the command line that keeps a delegated scope until its standard input ends; a line says that it is there.

    Args:
        unit: Its name.
        weight: Of the whole scope against others; a weight within it counts only there.
    """
    properties = ["Delegate=yes", *([] if weight is None else [f"CPUWeight={weight}"])]
    return [
        "systemd-run",
        "--scope",
        "--quiet",
        "--collect",
        f"--unit={unit}",
        *(f"--property={one}" for one in properties),
        "--",
        "sh",
        "-c",
        "echo && exec cat",
    ]


def folder_in(proc_cgroup: str, root: Path) -> Path:
    """Give the folder of the v2 group that a ``/proc/PID/cgroup`` names.

    Args:
        proc_cgroup: Its text: a line ``0::/system.slice/...`` is that of v2 (cgroups(7)).
        root: Where v2 is mounted.

    Raises:
        CpuGroupError: It names none that is below ``root``.
    """
    for line in proc_cgroup.splitlines():
        number, _, path = line.split(":", 2)
        if number == "0" and path.startswith("/") and not path.startswith("/.."):
            return root / path.removesuffix(" (deleted)").lstrip("/")
    raise CpuGroupError(f"no group of cgroup v2 below {root} is listed: {proc_cgroup.strip()!r}")


@asynccontextmanager
async def delegated_scope(name: str, weight: int | None, root: Path) -> AsyncIterator[Path]:
    """Have systemd make a scope for the time of the context; give its folder, in which groups can be made.

    Args:
        name: Unique in this control plane.
        weight: As for :func:`scope_command`.
        root: Where v2 is mounted.

    Raises:
        CpuGroupError: systemd refuses; the message holds its words.
    """
    unit = scope_name(run_mark(), name)
    pipe = asyncio.subprocess.PIPE
    try:
        anchor = await asyncio.create_subprocess_exec(
            *scope_command(unit, weight),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, RUN_MARK: run_mark()},
            start_new_session=True,
        )
    except OSError as error:
        raise CpuGroupError(f"systemd-run cannot be started: {error.strerror}") from error
    folder: Path | None = None
    try:
        await _await_start(anchor, unit)
        folder = _settle(anchor.pid, unit, root)
        yield folder
    finally:
        await _end(anchor)
        if folder is not None and not await _is_gone(folder):
            logger.warning(
                "the scope %s is kept, as it still has processes; systemd removes it after the last one", folder
            )


def _settle(anchor: int, unit: str, root: Path) -> Path:
    """Move the anchor of a scope into a group of its own; give the scope's folder."""
    try:
        folder = folder_in(Path(f"/proc/{shown_process(anchor)}/cgroup").read_text(), root)
        if folder.name != unit:
            raise CpuGroupError(f"systemd put the scope {unit} into {folder}")
        (folder / _ANCHOR).mkdir()
        (folder / _ANCHOR / "cgroup.procs").write_text(str(anchor))
    except OSError as error:
        raise CpuGroupError(f"the delegated scope {unit} cannot be used: {error.strerror}") from error
    return folder


async def _await_start(anchor: asyncio.subprocess.Process, unit: str) -> None:
    assert anchor.stdout is not None and anchor.stderr is not None  # noqa: S101, PT018 - for the type checker
    said = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(_START_PATIENCE_S):
            if await anchor.stdout.readline():
                return
            said = await anchor.stderr.read()
    raise CpuGroupError(
        f"systemd does not give the scope {unit}: {said.decode('utf-8', 'replace').strip() or 'it does not answer'}",
        hint="shares need root; see `journalctl -u init.scope`",
    )


async def _end(anchor: asyncio.subprocess.Process) -> None:
    assert anchor.stdin is not None  # noqa: S101 - for the type checker
    anchor.stdin.close()
    try:
        async with asyncio.timeout(_END_PATIENCE_S):
            await anchor.wait()
    except TimeoutError:
        anchor.kill()
        await anchor.wait()


async def _is_gone(folder: Path) -> bool:
    deadline = time.monotonic() + _END_PATIENCE_S
    while await asyncio.to_thread(folder.exists):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_PAUSE_S)
    return True
