"""What runs in a site's Dask worker: three functions that are known by name, and one fixed command.

A controller submits them by reference: what is pickled is ``stealtime.fleet.worker`` and the name, no code. The
package must be installed where the worker runs. Each measures nothing itself: that does a child process, whose
command line is always ``COMMAND``; its order comes over standard input and is data.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import dask
from distributed import Worker, get_worker
from pydantic import ValidationError

import stealtime
from stealtime.fleet.order import FORMAT, HostFacts, HostOrder, Said, topic_of
from stealtime.fleet.silence import TTL_PARTS, silent_until
from stealtime.store.identity import read_identity

COMMAND = (sys.executable, "-c", "from stealtime.start import main; main()", "fleet", "carry")
"""``stealtime fleet carry`` of this very installation, whatever is on the PATH."""
ANSWER = b"silent\n"
"""What a trial waits for before it begins."""
_LONGEST_LINE_BYTES = 64 << 20
"""A trial's counts and longest samples in base 64; without a limit a defect would fill the memory."""
_SAID_WITHIN_S = 0.01
"""Until then what was told is on its way (Dask gathers for 2 ms)."""

_measuring: dict[str, "asyncio.subprocess.Process"] = {}
"""By fleet. A worker has one thread, so there is at most one."""


def describe() -> dict[str, Any]:
    """Say which host this is, and how its worker was started."""
    worker = get_worker()
    facts = HostFacts(
        stealtime_version=stealtime.__version__,
        host=str(worker.name),
        identity=own_identity(),
        threads=worker.state.nthreads,
        is_quiet=is_quiet(),
        silent_within_s=silent_within_s(),
        control_cpus=tuple(sorted(os.sched_getaffinity(0))),
    )
    return facts.model_dump()


async def carry_out(order: dict[str, Any], key: str) -> dict[str, Any]:
    """Have an order measured here; what is measured is told to the scheduler's listeners, trial by trial.

    Args:
        order: As :class:`HostOrder`.
        key: Of this task: who gives it up wants the measuring to end.

    Returns:
        The last of what was said.
    """
    worker = get_worker()
    try:
        read = HostOrder.model_validate(order)
    except ValidationError:
        return _refused(f"this host's stealtime {stealtime.__version__} does not understand the order").model_dump()
    if (read.format, read.stealtime_version) != (FORMAT, stealtime.__version__):
        return _refused(other_version(stealtime.__version__, read.stealtime_version)).model_dump()
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LONGEST_LINE_BYTES,
        start_new_session=True,
    )
    _measuring[read.fleet_id] = process
    try:
        last = await _Carried(worker, read, key, process).follow()
    finally:
        _measuring.pop(read.fleet_id, None)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
    code = await process.wait()
    if last is None:
        last = _refused(f"what measures on this host ended with {code} and said no more")
    return last.model_dump()


async def interrupt(fleet_id: str) -> bool:
    """End what is measured here for a fleet; what is whole stays. Tells whether there was anything."""
    process = _measuring.get(fleet_id)
    if process is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.wait(), timeout=60)
    return True


def other_version(here: str, wanted: str) -> str:
    return f"its stealtime is {here}, and the controller's {wanted}"


def is_quiet() -> bool:
    """Tell whether this worker has no thread that wakes by itself, whatever its event loop does."""
    return not dask.config.get("distributed.worker.profile.enabled")


def silent_within_s() -> float:
    """Give how long a worker may be silent: a part of the scheduler's patience, as this site configures it."""
    patience = dask.config.get("distributed.scheduler.worker-ttl")
    # Without a limit a sign of life now and then costs nothing.
    seconds = dask.utils.parse_timedelta(patience, default="s") if patience else 900.0
    return float(seconds) / TTL_PARTS


def own_identity() -> str:
    """Give what this machine is, whatever it is called."""
    return read_identity(os.environ).id


class _Carried:
    """An order while it is carried out."""

    def __init__(self, worker: Worker, order: HostOrder, key: str, process: "asyncio.subprocess.Process") -> None:
        self._worker, self._order, self._key, self._process = worker, order, key, process

    async def follow(self) -> Said | None:
        """Pass on what is said, and be silent while a trial measures; gives the last words, None if there are none."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a process that measures has pipes")
        order = self._order.model_copy(update={"inherited_cpus": tuple(sorted(_inherited))})
        process.stdin.write(order.model_dump_json().encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await process.stdin.drain()
        awake = 0
        pending = asyncio.ensure_future(process.stdout.readline())
        while line := await self._line(pending):
            pending = asyncio.ensure_future(process.stdout.readline())
            said = Said.model_validate_json(line)
            if said.kind == "finished":
                pending.cancel()
                return said
            self._tell(said if said.kind != "end" else said.model_copy(update={"awake": awake}))
            if said.kind == "begin":
                await asyncio.sleep(_SAID_WITHIN_S)
                process.stdin.write(ANSWER)
                with contextlib.suppress(ConnectionError):
                    await process.stdin.drain()
                awake = await self._silently(pending)
        return None

    async def _line(self, pending: "asyncio.Future[bytes]") -> bytes:
        while not pending.done():
            await asyncio.wait({pending}, timeout=1.0)
            self._end_if_given_up()
        return pending.result()

    async def _silently(self, pending: "asyncio.Future[bytes]") -> int:
        awake = 0
        while not pending.done():
            awake += await silent_until(pending, silent_within_s())
            self._end_if_given_up()
        return awake

    def _tell(self, said: Said) -> None:
        message: Mapping[str, Any] = {"host": self._order.host, **said.model_dump(exclude_defaults=True)}
        self._worker.log_event(topic_of(self._order.fleet_id), dict(message))

    def _end_if_given_up(self) -> None:
        """End the measuring where nobody waits for it: its controller has gone, and its task with it."""
        task = self._worker.state.tasks.get(self._key)
        if task is None or task.state in ("cancelled", "resumed", "released", "forgotten"):
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGINT)


def _refused(words: str) -> Said:
    return Said(kind="finished", words=words, exit_code=1)


def keep_inherited(cpus: Iterable[int]) -> None:
    """Remember what the worker was started with, before it bound itself to the housekeeping CPUs."""
    _inherited.update(cpus)


_inherited: set[int] = set()
