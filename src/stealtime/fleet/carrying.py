"""The fixed command of a worker: reads an order from standard input, measures, and tells what it has, line by line.

It says nothing while a trial measures, and begins none before the worker has answered. It ends, and keeps what is
whole, when standard input closes: then its worker has gone.
"""

import asyncio
import base64
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from stealtime.campaigns.claims import claimed
from stealtime.campaigns.events import CellFailed, CellMeasured, CellStarted, CellStoring, Event, RunStarted
from stealtime.campaigns.model import Campaign
from stealtime.campaigns.progress import failure_lines, outcome_words
from stealtime.campaigns.session import Beforehand, InterruptedRunError, Order, execute, prepare
from stealtime.fleet.order import HostOrder, Said
from stealtime.fleet.travelling import travels
from stealtime.store.documents import CELLS, MANIFEST
from stealtime.store.run import Run, default_runs_folder, find_run
from stealtime.vocabulary.errors import ExitCode, StealtimeError, UsageError

_ANSWER_WITHIN_S = 5.0
"""A worker answers within some milliseconds; one that does not is in trouble, and the trial begins all the same."""


def carry(source: BinaryIO, target: BinaryIO) -> ExitCode:
    """Carry out the order that stands in the first line of ``source``.

    Args:
        source: Of the worker.
        target: Where to tell; nothing else may write there.
    """
    line = source.readline()
    voice = _Voice(target)
    try:
        order = HostOrder.model_validate_json(line)
    except ValidationError as error:
        voice.say(Said(kind="finished", words=f"the order is damaged: {error.errors()[0]['msg']}", exit_code=2))
        return ExitCode.USAGE
    if order.inherited_cpus:
        os.sched_setaffinity(0, order.inherited_cpus)
    try:
        asked = _order(order, default_runs_folder())
        answers = _Answers(source)
        answers.start()
        code = asyncio.run(_measure(order, asked, voice, answers))
    except StealtimeError as error:
        voice.say(Said(kind="finished", words=error.message, hint=error.hint, exit_code=int(error.exit_code)))
        return error.exit_code
    except (KeyboardInterrupt, asyncio.CancelledError):
        voice.say(Said(kind="finished", words="interrupted before anything was measured", exit_code=1))
        return ExitCode.FAILED
    voice.say(Said(kind="finished", exit_code=int(code)))
    return code


async def _measure(order: HostOrder, asked: Order, voice: "_Voice", answers: "_Answers") -> ExitCode:
    prepared = await prepare(asked)
    if asked.resume is not None:
        voice.hand_over(asked.resume.folder, frozenset(order.have))
        if not prepared.plan.boots:
            return ExitCode.FINE
    teller = _Teller(voice, answers, prepared.already_there)
    try:
        async with claimed(prepared.plan, f"fleet {order.fleet_id}", wait=True, tell=voice.wait) as claims:
            finished = await execute(asked, prepared, teller, Beforehand(claims))
    except InterruptedRunError as error:
        teller.tell_manifest()
        raise StealtimeError(error.message, exit_code=ExitCode.FAILED) from None
    teller.tell_manifest()
    if finished.stopped is not None:
        raise finished.stopped
    return ExitCode.NOT_JUDGED if finished.tally.failed or finished.tally.invalid else ExitCode.FINE


def _order(order: HostOrder, runs_folder: Path) -> Order:
    try:
        campaign = Campaign.model_validate(order.campaign)
    except ValidationError as error:
        raise UsageError(
            f"this host does not understand the campaign: {error.errors()[0]['msg']}",
            hint="install the same stealtime on all hosts",
        ) from None
    resume = None
    if order.run_id is not None:
        if not (runs_folder / order.run_id / MANIFEST).is_file():
            raise StealtimeError(
                f"the run {order.run_id} is no longer in {runs_folder} of this host",
                hint="what came of it is kept; measure the rest in a fleet run of its own",
            )
        resume = find_run(order.run_id, runs_folder)
    return Order(
        campaign=campaign,
        runs_folder=runs_folder,
        command_line=("stealtime", "fleet", "run"),
        measured_cpu=order.measured_cpu,
        resume=resume,
        named_scenarios=order.named_scenarios,
        is_kernel_named=order.is_kernel_named,
        spread=order.spread,
    )


class _Voice:
    """What this process says, from any thread."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._lock = threading.Lock()

    def say(self, said: Said) -> None:
        """Write a line; a worker that has gone is noticed by standard input."""
        with self._lock:
            try:
                self._target.write(said.model_dump_json(exclude_defaults=True).encode() + b"\n")
                self._target.flush()
            except BrokenPipeError:
                return

    def wait(self, words: str) -> None:
        self.say(Said(kind="waiting", words=words))

    def hand_over(self, folder: Path, have: frozenset[str]) -> None:
        """Tell trials that were whole before."""
        self.manifest(folder)
        for trial in Run.open(folder).trials:
            if trial.record.trial_id not in have and trial.record.state == "measured":
                self.trial(folder, trial.record.trial_id, outcome_words(trial.record))

    def manifest(self, folder: Path) -> None:
        written = base64.b64encode((folder / MANIFEST).read_bytes()).decode()
        self.say(Said(kind="manifest", run_id=folder.name, files={MANIFEST: written}))

    def trial(self, folder: Path, trial_id: str, words: str) -> None:
        """Tell a trial that is whole on the disk, with what of it travels."""
        parcel = travels(folder / CELLS / trial_id)
        files = {name: base64.b64encode(content).decode() for name, content in parcel.files.items()}
        self.say(Said(kind="trial", run_id=folder.name, trial_id=trial_id, words=words, files=files, left=parcel.left))


class _Answers(threading.Thread):
    """Waits for the worker's answers; the end of them ends the run as Ctrl-C does."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__(daemon=True)
        self._source = source
        self._came = threading.Semaphore(0)

    def run(self) -> None:
        while self._source.readline():
            self._came.release()
        os.kill(os.getpid(), signal.SIGINT)

    def await_one(self) -> None:
        self._came.acquire(timeout=_ANSWER_WITHIN_S)


class _Teller:
    """Sees what the runner does and tells it."""

    def __init__(self, voice: _Voice, answers: _Answers, already: int) -> None:
        self._voice, self._answers, self._already = voice, answers, already
        self._folder: Path | None = None
        self._measuring: str | None = None

    def on_event(self, event: Event) -> None:
        match event:
            case RunStarted(plan, _, folder):
                self._folder = folder
                self._voice.say(
                    Said(kind="started", run_id=folder.name, planned=len(plan.cells), already=self._already)
                )
                self.tell_manifest()
            case CellStarted(cell):
                self._measuring = cell.trial_id
                self._voice.say(Said(kind="begin", trial_id=cell.trial_id))
                self._answers.await_one()
            case CellStoring():
                self._end()
            case CellMeasured(cell, record):
                self._end()
                if self._folder is not None:
                    self._voice.trial(self._folder, cell.trial_id, outcome_words(record))
            case CellFailed(cell, failure):
                self._end()
                words = "; ".join(failure_lines(failure)[:2])
                self._voice.say(Said(kind="failed", trial_id=cell.trial_id, words=words))
            case _:
                pass

    def tell_manifest(self) -> None:
        if self._folder is not None:
            self._voice.manifest(self._folder)

    def _end(self) -> None:
        if self._measuring is not None:
            self._voice.say(Said(kind="end", trial_id=self._measuring))
            self._measuring = None


@contextmanager
def own_output() -> Iterator[BinaryIO]:
    """Have standard output for oneself: what libraries print goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(kept, "wb") as target:
        yield target
