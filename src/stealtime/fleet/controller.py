"""Has each host of a site measure its share, and takes what they say until the last one has ended.

An order is pinned to the worker of its host. A host that is lost keeps what it owes: no other one measures it, and
nothing is given to a worker that comes back under the same name, until somebody resumes the fleet run.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from functools import partial
from typing import Any

from distributed import Client, Future
from pydantic import ValidationError

import stealtime
from stealtime.fleet import worker
from stealtime.fleet.order import HostOrder, Said, topic_of
from stealtime.fleet.record import OWES, FleetFolder, HostRecord
from stealtime.fleet.screen import Screen
from stealtime.fleet.site import Found, Site, asked, connected, find_hosts, worker_addresses
from stealtime.store.spread import EachHost, Shard
from stealtime.vocabulary.errors import StealtimeError

LOOKED_EVERY_S = 1.0
"""How often the controller asks which workers there are."""
_LAST_WORDS_S = 30.0
"""What hosts may take to end when the fleet run is interrupted: a trial gives what it has measured."""
_RESUME = "`stealtime fleet run --resume FOLDER`"


@dataclass(frozen=True)
class _Task:
    host: HostRecord
    address: str
    key: str
    future: Future[Any]


async def begin(site: Site, folder: FleetFolder) -> list[HostRecord]:
    """Find the hosts of a new fleet run and note them, each with its part where the campaign is split.

    Raises:
        StealtimeError: There is no scheduler, no worker, or no host that can be used.
    """
    async with connected(site) as client:
        found = await find_hosts(client, site.address)
    usable = [one.name for one in found if one.refused is None]
    for one in found:
        host = HostRecord(name=one.name)
        _note(host, one)
        if folder.record.is_split and one.name in usable:
            host.shard_index = usable.index(one.name) + 1
        folder.record.hosts.append(host)
    folder.save()
    if not usable:
        first = found[0]
        raise StealtimeError(f"no host can be used ({first.name}: {first.refused})", hint=first.hint)
    return folder.record.hosts


async def carry_on(site: Site, folder: FleetFolder, screen: Screen) -> None:
    """Have all hosts that still owe something measure it.

    Raises:
        StealtimeError: The scheduler is not there, or went away.
        asyncio.CancelledError: Interrupted; all hosts were told to end.
    """
    async with connected(site) as client:
        found = {one.name: one for one in await find_hosts(client, site.address)}
        await _Dispatch(client, site, folder, screen).carry_out(found)


def _note(host: HostRecord, found: Found | None) -> bool:
    """Put down what a worker said of its host; tells whether it may get an order."""
    if found is None:
        host.state, host.words = "lost", "its worker is not there"
        host.hint = f"start it, then {_RESUME}"
        return False
    if found.facts is None:
        host.state, host.words, host.hint = "refused", found.refused, found.hint
        return False
    if host.identity not in (None, found.facts.identity):
        host.state, host.words = "refused", "another machine has come back under its name"
        host.hint = "give that worker a name of its own: it was not measured so far"
        return False
    host.identity = found.facts.identity
    host.state, host.words, host.hint = "waiting", None, None
    return True


class _Dispatch:
    def __init__(self, client: Client, site: Site, folder: FleetFolder, screen: Screen) -> None:
        self._client, self._site, self._folder, self._screen = client, site, folder, screen
        self._record = folder.record
        self._fault: Exception | None = None

    async def carry_out(self, found: dict[str, Found]) -> None:
        topic = topic_of(self._record.fleet_id)
        self._client.subscribe_topic(topic, self._heard)
        tasks = [self._submit(host, found[host.name].address) for host in self._owing(found)]
        self._folder.save()
        try:
            await self._await_all(tasks)
        except asyncio.CancelledError:
            await self._interrupt(tasks)
            raise
        except StealtimeError as error:
            for task in tasks:
                if task.host.state in ("waiting", "measuring"):
                    self._set(task.host, "lost", error.message)
            raise
        finally:
            self._folder.save()

    def _owing(self, found: dict[str, Found]) -> list[HostRecord]:
        owing = []
        for host in self._record.hosts:
            if host.state in OWES:
                if _note(host, found.get(host.name)):
                    owing.append(host)
                else:
                    self._screen.tell(host.name, f"{host.state}: {host.words}")
        return owing

    def _submit(self, host: HostRecord, address: str) -> _Task:
        record = self._record
        count = sum(one.shard_index is not None for one in record.hosts)
        order = HostOrder(
            stealtime_version=stealtime.__version__,
            fleet_id=record.fleet_id,
            host=host.name,
            campaign=record.campaign,
            measured_cpu=record.measured_cpu,
            named_scenarios=record.named_scenarios,
            is_kernel_named=record.is_kernel_named,
            spread=EachHost() if host.shard_index is None else Shard(index=host.shard_index, count=count),
            run_id=host.run_id,
            have=self._folder.trials_of(host),
        )
        key = f"{record.fleet_id}-{host.name}-{address}"
        future = self._client.submit(
            worker.carry_out,
            order.model_dump(mode="json"),
            key,
            key=key,
            workers=[address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )
        return _Task(host, address, key, future)

    async def _await_all(self, tasks: list[_Task]) -> None:
        waiting = {asyncio.ensure_future(_result(task.future)): task for task in tasks}
        try:
            while waiting:
                done, _ = await asyncio.wait(waiting, timeout=LOOKED_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                if self._fault is not None:
                    raise self._fault
                if all(isinstance(one.result(), dict) for one in done):
                    for one in done:
                        self._ended(waiting.pop(one).host, one.result())
                    if done:
                        self._folder.save()
                        continue
                # A scheduler that goes away takes all tasks with it: that is told of it, not of each host.
                present = set((await worker_addresses(self._client, self._site.address)).values())
                for one in done:
                    self._ended(waiting.pop(one).host, one.result())
                for one, task in list(waiting.items()):
                    if task.address not in present:
                        del waiting[one]
                        one.cancel()
                        await asked(task.future.cancel(), self._site.address)
                        self._set(task.host, "lost", "its worker has gone; what it owes waits for it")
                        task.host.hint = f"when its worker is back: {_RESUME}"
        finally:
            for one in waiting:
                one.cancel()

    def _ended(self, host: HostRecord, result: dict[str, Any] | Exception) -> None:
        if isinstance(result, Exception):
            self._set(host, "failed", f"its worker failed: {type(result).__name__}: {result}")
            return
        last = Said.model_validate(result)
        host.hint = last.hint
        host.whole = len(self._folder.trials_of(host))
        if last.words is not None:
            self._set(host, "interrupted" if last.words.startswith("interrupted") else "failed", last.words)
        elif host.failed or (host.planned is not None and host.whole < host.planned):
            missing = (host.planned or 0) - host.whole
            self._set(host, "incomplete", f"{missing} of {host.planned} trials failed or have not arrived")
        else:
            self._set(host, "whole", None)

    def _set(self, host: HostRecord, state: Any, words: str | None) -> None:
        host.state, host.words = state, words
        self._screen.tell(host.name, state if words is None else f"{state}: {words}")

    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        """Take what a worker tells; a fault of ours must not be lost in Dask's own log."""
        message = dict(event[1])
        name = message.pop("host", None)
        message.pop("worker", None)
        try:
            host = self._record.host(str(name))
            self._take(host, Said.model_validate(message))
        except StopIteration:
            return
        except (ValidationError, StealtimeError) as error:
            if name is not None:
                self._screen.tell(str(name), f"what it says cannot be used: {error}")
        except OSError as error:
            words = f"{self._folder.folder} cannot be written: {error.strerror or error}"
            self._fault = StealtimeError(words, hint=f"free some space, then {_RESUME}")

    def _take(self, host: HostRecord, said: Said) -> None:
        tell = partial(self._screen.tell, host.name)
        match said.kind:
            case "waiting":
                tell(said.words or "waiting")
            case "started":
                host.state, host.run_id = "measuring", said.run_id
                host.planned = (said.planned or 0) + (said.already or 0)
                tell(f"{said.planned} trials to measure")
            case "manifest":
                self._folder.take_manifest(host, said)
            case "begin":
                self._screen.doing(host.name, said.trial_id or "")
            case "end":
                host.spoken_to += said.awake
            case "trial":
                self._folder.take_trial(host, said)
                host.whole = len(self._folder.trials_of(host))
                planned = "?" if host.planned is None else host.planned
                tell(f"[{host.whole}/{planned}] {said.trial_id}: {said.words}")
            case "failed":
                host.failed += 1
                tell(f"{said.trial_id}: failed: {said.words}")
            case _:
                pass

    async def _interrupt(self, tasks: list[_Task]) -> None:
        """Have all hosts end what they measure, and wait for what they have to say."""
        running = [task for task in tasks if task.host.state in ("waiting", "measuring")]
        self._screen.tell("all hosts", "taking what was measured so far; Ctrl-C once more leaves them to themselves")
        telling = self._client.run(
            worker.interrupt, self._record.fleet_id, workers=[one.address for one in running], on_error="return"
        )
        with contextlib.suppress(OSError, TimeoutError):
            await asyncio.wait_for(telling, _LAST_WORDS_S)
        results = {asyncio.ensure_future(_result(one.future)): one for one in running}
        if results:
            done, late = await asyncio.wait(results, timeout=_LAST_WORDS_S)
            for one in done:
                self._ended(results[one].host, one.result())
            for one in late:
                one.cancel()
        for task in running:
            if task.host.state in ("waiting", "measuring"):
                self._set(task.host, "interrupted", "it was told to end, and has not answered")
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(task.future.cancel(), _LAST_WORDS_S)


async def _result(future: Future[Any]) -> dict[str, Any] | Exception:
    """Give what a task returned; what it raised is a result, too."""
    try:
        result: dict[str, Any] = await future
    except asyncio.CancelledError:
        if future.status not in ("cancelled", "lost"):
            raise
        return RuntimeError("its task was given up")
    except Exception as error:
        return error
    return result
